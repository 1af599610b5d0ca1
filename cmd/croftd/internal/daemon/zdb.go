package daemon

import (
	"context"
	"sync"

	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/cmd/croftd/internal/config"
	"github.com/croft-edge/croft/modules/zdb"
	"github.com/croft-edge/croft/pkg/bus"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/supervise"
)

// startZDB serves users' 0-db namespaces on the bus.
func (d *daemon) startZDB(ctx context.Context, g *supervise.Group) error {
	m, err := zdb.Open(ctx, zdbConfig(d.Config.Config, d.Log))
	if err != nil {
		return err
	}
	server, err := bus.NewServer(d.bus, node.ZDBModule, d.options)
	if err == nil {
		err = bus.Register(server, bus.Object(node.ZDBObject, node.ZDBVersion), m.Namespaces())
	}
	if err != nil {
		_ = m.Close()
		return err
	}
	g.Start(supervise.Part{Name: "zdb", Within: moduleStop, Run: func(ctx context.Context) error {
		// What keeps ports and zdbs together goes on until the calls that have begun are over.
		watching, stop := context.WithCancel(context.WithoutCancel(ctx))
		var watch sync.WaitGroup
		watch.Go(func() {
			_ = supervise.Keep(watching, d.Log, "zdb", supervise.DefaultBackoff(), m.Run) // it says itself what is wrong
		})
		err := server.Run(ctx)
		stop()
		watch.Wait()
		if closeErr := m.Close(); err == nil {
			err = closeErr
		}
		return err
	}})
	return nil
}

// zdbConfig is what the zdb module is opened with.
func zdbConfig(c config.Config, log zerolog.Logger) zdb.Config {
	return zdb.Config{
		StateDir: c.StateDir, FirstPort: c.ZDB.FirstPort, LastPort: c.ZDB.LastPort, Listen: c.ZDB.Listen, IPv4: c.ZDB.IPv4, IPv6: c.ZDB.IPv6,
		OwnLinks: networkConfig(c, log).LinkPrefixes(), Log: log,
	}
}
