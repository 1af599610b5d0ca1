// Package storage describes the storage module: pools and volumes.
package storage

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/cosi-project/runtime/pkg/resource"
	"github.com/pkg/errors"
	"github.com/rs/zerolog"
	"github.com/threefoldtech/zbus"
	"github.com/urfave/cli/v2"

	"github.com/croft-edge/croft/cmd/croftd/internal/cell"
	"github.com/croft-edge/croft/cmd/croftd/internal/config"
	"github.com/croft-edge/croft/cmd/croftd/internal/module"
	"github.com/croft-edge/croft/modules/storage"
	"github.com/croft-edge/croft/pkg/bus"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/node/stubs"
	"github.com/croft-edge/croft/pkg/nodestatus"
	"github.com/croft-edge/croft/pkg/resources/host"
	"github.com/croft-edge/croft/pkg/resources/parts"
)

// Descriptor describes the module.
func Descriptor() module.Descriptor {
	return module.Descriptor{
		Name: "storage", Bus: node.StorageModule, Summary: "pools and volumes",
		Settings: settings(),
		Commands: []module.Command{
			prepareCommand(),
			{
				Name: "detach", Usage: "unmount the node's pools and free their loop devices; the data stays; the node must be stopped",
				Run: func(ctx context.Context, o module.Order) error { return Detach(ctx, o.Config) },
			},
			{
				Name: "destroy", Usage: "remove a pool with all that is on it; the node must be stopped",
				Flags: []cli.Flag{
					&cli.StringFlag{Name: "pool", Usage: "`NAME` of the pool"},
					&cli.BoolFlag{Name: "all", Usage: "all pools of the node"},
					&cli.BoolFlag{Name: "yes", Usage: "yes, remove the data"},
					&cli.BoolFlag{Name: "force", Usage: "also when volumes or virtual disks are on it"},
				},
				Run: destroy,
			},
		},
		Objects:     []zbus.ObjectID{bus.Object(node.StorageObject, node.StorageVersion), bus.Object(node.VDiskObject, node.VDiskVersion), bus.Object(node.ChangesObject, node.ChangesVersion)},
		Constraints: func(f module.Facts) []module.Unmet { return f.Needs(module.Btrfs) },
		Open:        open,
		Ask: func(ctx context.Context, client zbus.Client, s *host.ModuleSpec) error {
			status, err := stubs.NewStorageStub(client).Status(ctx)
			s.Storage = &host.Storage{Quota: status.Quota, BrokenDevices: status.BrokenDevices}
			return err
		},
		Changes: true,
		Kernel:  true,
		Parts:   []module.Part{{Of: &parts.Pool{}, Every: time.Minute, List: listPools}},
		Check:   check,
		Metrics: []module.Metric{
			{Name: "croft_pool_bytes", Help: "space of a pool: total, used, reserved", Labels: []string{"pool", "type", "what"}, Read: func(s nodestatus.Status, value module.Value) {
				for _, p := range s.Storage.Pools {
					for what, bytes := range map[string]uint64{"total": p.Total, "used": p.Used, "reserved": p.Reserved} {
						value(float64(bytes), p.Name, string(p.DiskType), what)
					}
				}
			}},
		},
		Overview: writePools,
	}
}

func open(ctx context.Context, h module.Host) (*module.Instance, error) {
	m, err := storage.Open(ctx, moduleConfig(h.Config, h.Log))
	if err != nil {
		return nil, err
	}
	return &module.Instance{
		Features: m.Features(),
		Objects: []module.Object{
			module.Serves(node.StorageObject, node.StorageVersion, stubs.StorageMethods(m.Storage())),
			module.Serves(node.VDiskObject, node.VDiskVersion, stubs.VDisksMethods(m.VDisks())),
			module.Serves(node.ChangesObject, node.ChangesVersion, stubs.ChangesMethods(m.Changes())),
		},
		Close: m.Close,
	}, nil
}

// moduleConfig is the module's configuration.
func moduleConfig(c config.Config, log zerolog.Logger) storage.Config {
	out := storage.Config{
		State: filepath.Join(c.StateDir, "storage"), Mounts: filepath.Join(c.RunDir, "pools"),
		WipeDisks: c.WipeDisks, Log: log,
	}
	for _, d := range c.Disks {
		out.Pools = append(out.Pools, storage.PoolSpec{Type: d.Type, Disk: d.Path})
	}
	if len(out.Pools) == 0 {
		out.Pools = []storage.PoolSpec{{Name: strings.ToLower(string(c.PoolType)) + "0", Type: c.PoolType, LoopSize: c.PoolSize}}
	}
	return out
}

func destroy(ctx context.Context, o module.Order) error {
	pool := o.CLI.String("pool")
	if (pool == "") == !o.CLI.Bool("all") {
		return module.UsageError{Err: errors.New("cannot destroy pools: pass either --pool NAME, as croftd status shows it, or --all")}
	}
	if !o.CLI.Bool("yes") {
		return node.Errorf(node.Refused, "cannot destroy %s: pass --yes to remove all data on it", cmp.Or(pool, "all pools"))
	}
	return Destroy(ctx, o.Config, pool, o.CLI.Bool("force"))
}

func listPools(ctx context.Context, client zbus.Client) ([]resource.Resource, error) {
	status, err := stubs.NewStorageStub(client).Status(ctx)
	if err != nil {
		return nil, err
	}
	var out []resource.Resource
	for _, p := range status.Pools {
		out = append(out, parts.NewPool(p))
	}
	for _, b := range status.BrokenPools {
		out = append(out, parts.NewBrokenPool(b))
	}
	return out, nil
}

func check(s nodestatus.Status) host.Check {
	var broken []string
	for _, p := range s.Storage.BrokenPools {
		broken = append(broken, p.Name+" ("+p.Cause+")")
	}
	for _, d := range s.Storage.BrokenDevices {
		broken = append(broken, d.Path+" ("+d.Cause+")")
	}
	switch {
	case len(s.Storage.Pools) == 0:
		return host.Fail("pools", "there is no pool that works: "+strings.Join(broken, ", "))
	case len(broken) > 0:
		return host.Warn("pools", "broken: "+strings.Join(broken, ", "))
	}
	return host.Pass("pools", fmt.Sprintf("%d in use", len(s.Storage.Pools)))
}

// writePools prints the working pools.
func writePools(row module.Row, s nodestatus.Status, _ time.Time) {
	if len(s.Storage.Pools) > 0 {
		row("")
		row("POOL", "TYPE", "TOTAL", "USED", "PROMISED", "PATH")
	}
	for _, p := range s.Storage.Pools {
		row(p.Name, string(p.DiskType), cell.GiB(p.Total), cell.GiB(p.Used), cell.GiB(p.Reserved), mountedOn(p))
	}
}

// mountedOn is the pool's mount point, and how often it was mounted again.
func mountedOn(p node.Pool) string {
	if p.Remounted == 0 {
		return p.Path
	}
	return fmt.Sprintf("%s (unmounted from outside and mounted again, times: %d)", p.Path, p.Remounted)
}
