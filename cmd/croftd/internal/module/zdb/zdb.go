// Package zdb describes the zdb module: users' 0-db namespaces and the ports of zdb containers.
package zdb

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"time"

	"github.com/cosi-project/runtime/pkg/resource"
	"github.com/rs/zerolog"
	"github.com/threefoldtech/zbus"

	"github.com/croft-edge/croft/cmd/croftd/internal/cell"
	"github.com/croft-edge/croft/cmd/croftd/internal/config"
	"github.com/croft-edge/croft/cmd/croftd/internal/module"
	"github.com/croft-edge/croft/cmd/croftd/internal/module/network"
	"github.com/croft-edge/croft/modules/zdb"
	"github.com/croft-edge/croft/pkg/bus"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/node/stubs"
	"github.com/croft-edge/croft/pkg/nodestatus"
	"github.com/croft-edge/croft/pkg/resources/host"
	"github.com/croft-edge/croft/pkg/resources/parts"
	"github.com/croft-edge/croft/pkg/workload"
)

// Descriptor describes the module.
func Descriptor() module.Descriptor {
	return module.Descriptor{
		Name: "zdb", Aliases: []string{node.ZDBModule}, Bus: node.ZDBModule,
		Summary:  "users' 0-db namespaces and the ports of zdb containers",
		Settings: settings(),
		Objects:  []zbus.ObjectID{bus.Object(node.ZDBObject, node.ZDBVersion), bus.Object(node.ChangesObject, node.ChangesVersion)},
		Serves:   []workload.Type{workload.TypeZDB},
		Open:     open,
		Ask: func(ctx context.Context, client zbus.Client, _ *host.ModuleSpec) error {
			_, err := stubs.NewZDBNamespacesStub(client).Servers(ctx)
			return err
		},
		Changes: true,
		Parts:   []module.Part{{Of: &parts.ZDBServer{}, Every: time.Minute, List: list}},
		Check:   check,
		Metrics: []module.Metric{
			{Name: "croft_zdb_namespaces", Help: "0-db namespaces of reservations", Labels: []string{"container"}, Read: func(s nodestatus.Status, value module.Value) {
				for _, z := range s.ZDB {
					value(float64(z.Namespaces), z.Container)
				}
			}},
			{Name: "croft_zdb_drifted", Help: "1 while a zdb container isn't as it should be", Labels: []string{"container"}, Read: func(s nodestatus.Status, value module.Value) {
				for _, z := range s.ZDB {
					value(module.Truth(z.Drift != ""), z.Container)
				}
			}},
		},
		Table: writeServers,
	}
}

func list(ctx context.Context, client zbus.Client) ([]resource.Resource, error) {
	all, err := stubs.NewZDBNamespacesStub(client).Servers(ctx)
	if err != nil {
		return nil, err
	}
	out := make([]resource.Resource, 0, len(all))
	for _, z := range all {
		out = append(out, parts.NewZDBServer(z))
	}
	return out, nil
}

func open(ctx context.Context, h module.Host) (*module.Instance, error) {
	m, err := zdb.Open(ctx, moduleConfig(h.Config, h.Log))
	if err != nil {
		return nil, err
	}
	return &module.Instance{
		Objects: []module.Object{
			module.Serves(node.ZDBObject, node.ZDBVersion, stubs.ZDBNamespacesMethods(m.Namespaces())),
			module.Serves(node.ChangesObject, node.ChangesVersion, stubs.ChangesMethods(m.Changes())),
		},
		Run:   m.Run,
		Close: func(context.Context) error { return m.Close() },
	}, nil
}

// moduleConfig is the module's configuration.
func moduleConfig(c config.Config, log zerolog.Logger) zdb.Config {
	return zdb.Config{
		StateDir: c.StateDir, FirstPort: c.ZDB.FirstPort, LastPort: c.ZDB.LastPort, Listen: c.ZDB.Listen, IPv4: c.ZDB.IPv4, IPv6: c.ZDB.IPv6,
		OwnLinks: network.LinkPrefixes(c), Log: log,
	}
}

// check only warns: the engine repairs zdb containers where it can.
func check(s nodestatus.Status) host.Check {
	var wrong []string
	for _, z := range s.ZDB {
		if z.Drift != "" {
			wrong = append(wrong, z.Container+" ("+z.Drift+")")
		}
	}
	if len(wrong) > 0 {
		return host.Warn("zdb", "not as they should be: "+cell.Some(wrong))
	}
	return host.Pass("zdb", fmt.Sprintf("%d zdb containers", len(s.ZDB)))
}

// writeServers prints the zdb containers: their addresses and numbers of namespaces.
func writeServers(row module.Row, s nodestatus.Status, _ time.Time) {
	if len(s.ZDB) == 0 {
		return
	}
	row("")
	row("ZDB", "MODE", "IPV4", "IPV6", "NAMESPACES", "DATA", "DRIFT")
	for _, z := range s.ZDB {
		row(z.Container, string(z.Mode), reached(z.IPv4, z.Port), reached(z.IPv6, z.Port), fmt.Sprint(z.Namespaces), z.Data, cell.Printable(cmp.Or(z.Drift, "-")))
	}
}

func reached(ip string, port uint16) string {
	if ip == "" {
		return "-"
	}
	return net.JoinHostPort(ip, fmt.Sprint(port))
}
