package daemon

import (
	"context"
	"os"
	"path/filepath"
	"time"

	"github.com/google/renameio/v2"
	"github.com/pkg/errors"

	"github.com/croft-edge/croft/cmd/croftd/internal/config"
	"github.com/croft-edge/croft/modules/identity"
	"github.com/croft-edge/croft/modules/monitor"
	"github.com/croft-edge/croft/modules/storage"
	"github.com/croft-edge/croft/pkg/bus"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/supervise"
)

func identityDir(c config.Config) string { return filepath.Join(c.StateDir, "identity") }

// newbornFile is there from before the node's key is made until its store is:
// a store that is missing without it was lost.
func newbornFile(c config.Config) string { return filepath.Join(c.StateDir, "newborn") }

// openIdentity opens the node's key, and makes it when there is none.
func openIdentity(c config.Config, as identity.Config) (*identity.Module, error) {
	if err := makeFolder(c.StateDir, 0o700); err != nil {
		return nil, err
	}
	_, err := os.Lstat(filepath.Join(identityDir(c), "seed"))
	if errors.Is(err, os.ErrNotExist) {
		err = renameio.WriteFile(newbornFile(c), nil, 0o600)
	}
	if err != nil {
		return nil, errors.Wrap(err, "cannot look for the node's key")
	}
	as.Dir = identityDir(c)
	return identity.Open(as)
}

// makeFolder makes one of the node's folders. Those above it let everybody
// through: run-dir may be below the same ones, and containers reach into that.
func makeFolder(dir string, mode os.FileMode) error {
	err := os.MkdirAll(filepath.Dir(dir), 0o755)
	if err == nil {
		err = os.MkdirAll(dir, mode)
	}
	return errors.Wrap(err, "cannot make the node's folders")
}

// NodeID is the ID of the node with that configuration; its key is made when
// there is none.
func NodeID(c config.Config) (string, error) {
	m, err := openIdentity(c, identity.Config{})
	if err != nil {
		return "", err
	}
	return m.NodeID(), nil
}

// startIdentity serves the node's key on the bus.
func (d *daemon) startIdentity(g *supervise.Group) error {
	m, err := openIdentity(d.Config.Config, identity.Config{Version: d.Version, Again: func(ctx context.Context, version string) <-chan struct{} {
		return bus.Newcomers(ctx, d.bus, node.IdentityModule, bus.Object(node.VersionObject, version), "Version")
	}})
	if err != nil {
		return err
	}
	server, err := bus.NewServer(d.bus, node.IdentityModule, d.options)
	if err != nil {
		return err
	}
	if err := bus.Register(server, bus.Object(node.IdentityObject, node.IdentityVersion), m.Manager()); err != nil {
		return err
	}
	if err := bus.Register(server, bus.Object(node.VersionObject, node.VersionObjectVersion), m.Monitor()); err != nil {
		return err
	}
	if err := bus.Register(server, bus.Object(node.VersionObject, node.SeedVersionObjectVersion), m.SeedMonitor()); err != nil {
		return err
	}
	g.Start(supervise.Part{Name: "identity", Run: server.Run, Within: moduleStop})
	return nil
}

// startMonitor serves what the machine is on the bus.
func (d *daemon) startMonitor(g *supervise.Group) error {
	own := append(monitor.DefaultOwnPrefixes(), networkConfig(d.Config.Config, d.Log).LinkPrefixes()...)
	m, err := monitor.New(monitor.Config{OwnPrefixes: own, Log: d.Log})
	if err != nil {
		return err
	}
	server, err := bus.NewServer(d.bus, node.MonitorModule, d.options)
	if err != nil {
		return err
	}
	if err := bus.Register(server, bus.Object(node.SystemObject, node.SystemVersion), m.System()); err != nil {
		return err
	}
	if err := bus.Register(server, bus.Object(node.HostObject, node.HostVersion), m.Host()); err != nil {
		return err
	}
	if err := bus.Register(server, bus.Object(node.SystemObject, node.SeedSystemVersion), m.SeedSystem()); err != nil {
		return err
	}
	if err := bus.Register(server, bus.Object(node.HostObject, node.SeedHostVersion), m.SeedHost()); err != nil {
		return err
	}
	g.Start(supervise.Part{Name: "monitor", Run: server.Run, Within: moduleStop})
	return nil
}

// moduleStop is how long a module may take to finish the calls that it has begun.
const moduleStop = 35 * time.Second

// startStorage opens the pools and serves them on the bus.
func (d *daemon) startStorage(ctx context.Context, g *supervise.Group) error {
	m, err := storage.Open(ctx, storageConfig(d.Config.Config, d.Log))
	if err != nil {
		return err
	}
	server, err := bus.NewServer(d.bus, node.StorageModule, d.options)
	if err != nil {
		return err
	}
	if err := bus.Register(server, bus.Object(node.StorageObject, node.StorageVersion), m.Storage()); err != nil {
		return err
	}
	if err := bus.Register(server, bus.Object(node.VDiskObject, node.VDiskVersion), m.VDisks()); err != nil {
		return err
	}
	g.Start(supervise.Part{Name: "storage", Within: moduleStop, Run: func(ctx context.Context) error {
		err := server.Run(ctx)
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		if closeErr := m.Close(closing); err == nil {
			err = closeErr
		}
		return err
	}})
	return nil
}
