package daemon

import (
	"context"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pkg/errors"
	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/cmd/croftd/internal/config"
	"github.com/croft-edge/croft/modules/storage"
	"github.com/croft-edge/croft/pkg/node"
)

// storageConfig is what the storage module is opened with.
func storageConfig(c config.Config, log zerolog.Logger) storage.Config {
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

// DetachPools unmounts the node's pools and frees their loop devices. The data stays.
func DetachPools(ctx context.Context, c config.Config) error {
	return storage.Detach(ctx, storageConfig(c, zerolog.Nop()))
}

// DestroyPools removes the pool of that name, or all when name is empty, with
// all that is on it. It is refused while file systems or virtual disks are on
// it, unless forced.
func DestroyPools(ctx context.Context, c config.Config, name string, force bool) error {
	cfg := storageConfig(c, zerolog.Nop())
	if made, err := filepath.Glob(filepath.Join(cfg.State, "pools", "*")); err != nil || len(made) == 0 {
		return nothingMade(name, err)
	}
	held, err := look(ctx, cfg)
	if err != nil && (!force || (name != "" && len(c.Disks) > 0)) {
		return errors.Wrap(err, "cannot destroy pools: cannot look at what is on them")
	}
	for pool, n := range held.things {
		if n > 0 && !force && (name == "" || name == pool) {
			return node.Errorf(node.Refused, "cannot destroy pool %s: %d volumes and disks are on it; delete their reservations, or say --force", pool, n)
		}
	}
	if name != "" {
		cfg.Pools = slices.DeleteFunc(cfg.Pools, func(p storage.PoolSpec) bool {
			return p.Name != name && (p.Disk == "" || !slices.Contains(held.devices[name], p.Disk))
		})
	}
	if len(cfg.Pools) == 0 {
		return node.Errorf(node.NotExist, "cannot destroy pool %s: this configuration has none of that name", name)
	}
	return storage.Destroy(ctx, cfg)
}

// nothingMade answers for a node that has no pools: opening them to look would
// make them.
func nothingMade(name string, err error) error {
	if err != nil || name == "" {
		return errors.Wrap(err, "cannot look for pools")
	}
	return node.Errorf(node.NotExist, "cannot destroy pool %s: this node has made no pools", name)
}

// holdings is what pools are made of, and how many things are on each.
type holdings struct {
	devices map[string][]string
	things  map[string]int
}

// look opens the pools and says what is on them.
func look(ctx context.Context, cfg storage.Config) (holdings, error) {
	out := holdings{devices: map[string][]string{}, things: map[string]int{}}
	m, err := storage.Open(ctx, cfg)
	if err != nil {
		return out, err
	}
	defer m.Close(ctx)
	status, err := m.Storage().Status()
	if err != nil {
		return out, err
	}
	for _, p := range status.Pools {
		out.devices[p.Name] = p.Devices
	}
	filesystems, err := m.Storage().ListFilesystems()
	if err != nil {
		return out, err
	}
	for _, fs := range filesystems {
		out.things[fs.Pool]++
	}
	disks, err := m.VDisks().List()
	if err != nil {
		return out, err
	}
	for _, d := range disks {
		for _, p := range status.Pools {
			if strings.HasPrefix(d.Path, p.Path+"/") {
				out.things[p.Name]++
			}
		}
	}
	return out, nil
}
