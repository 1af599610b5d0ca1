package storage

import (
	"context"
	"path/filepath"
	"slices"

	"github.com/pkg/errors"
	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/cmd/croftd/internal/config"
	"github.com/croft-edge/croft/modules/storage"
	"github.com/croft-edge/croft/pkg/node"
)

// Detach unmounts the node's pools and frees their loop devices. The data stays.
func Detach(ctx context.Context, c config.Config) error {
	return stopFirst("detach pools", storage.Detach(ctx, moduleConfig(c, zerolog.Nop())))
}

// stopFirst turns an error that the running node, or a process that it started, causes into a refusal.
func stopFirst(what string, err error) error {
	if errors.Is(err, storage.ErrInUse) {
		return node.Errorf(node.Refused, "cannot %s: the node is running: stop the node first", what)
	}
	if errors.Is(err, node.Busy) {
		return node.WithKind(node.Refused, err)
	}
	return err
}

// Destroy removes the pool of that name, or all when name is empty, with all data on it. Unless forced,
// it is refused while file systems or virtual disks are on it, or its content can't be read; while the
// node runs, always.
func Destroy(ctx context.Context, c config.Config, name string, force bool) error {
	cfg := moduleConfig(c, zerolog.Nop())
	if made, err := filepath.Glob(filepath.Join(cfg.State, "pools", "*")); err != nil || len(made) == 0 {
		return nothingMade(name, err)
	}
	held, err := look(ctx, cfg)
	if errors.Is(err, storage.ErrInUse) {
		return stopFirst("destroy pools", err)
	}
	if err != nil && (!force || (name != "" && len(c.Disks) > 0)) {
		return errors.Wrap(err, "cannot destroy pools: cannot list their content")
	}
	if !force {
		if err := held.refuse(cfg, name); err != nil {
			return err
		}
	}
	if name != "" {
		cfg.Pools = slices.DeleteFunc(cfg.Pools, func(p storage.PoolSpec) bool {
			return p.Name != name && !held.isOn(name, p.Disk)
		})
	}
	if len(cfg.Pools) == 0 {
		return node.Errorf(node.NotExist, "cannot destroy pool %s: this configuration has none of that name", name)
	}
	return stopFirst("destroy pools", storage.Destroy(ctx, cfg))
}

// nothingMade is the result for a node without pools: opening them to look would make them.
func nothingMade(name string, err error) error {
	if err != nil || name == "" {
		return errors.Wrap(err, "cannot look for pools")
	}
	return node.Errorf(node.NotExist, "cannot destroy pool %s: this node has made no pools", name)
}

// holdings are the pools' devices, the number of items on each pool, and the pools that can't be read.
type holdings struct {
	devices map[string][]string
	things  map[string]int
	// state is which of them has the state of the node itself.
	state  map[string]bool
	broken []node.BrokenPool
}

// refuse returns the reason why the pool of that name, or any of cfg's when name is empty, must not be
// destroyed. A broken pool on a disk is no reason, as only the disk's mark is removed.
func (h holdings) refuse(cfg storage.Config, name string) error {
	for pool, has := range h.state {
		if has && (name == "" || name == pool) {
			return node.Errorf(node.Refused, "cannot destroy pool %s: the state of the node itself is on it, with its key; pass --force to give up the node", pool)
		}
	}
	for pool, n := range h.things {
		if n > 0 && (name == "" || name == pool) {
			return node.Errorf(node.Refused, "cannot destroy pool %s: %d volumes and disks are on it; delete their reservations, or pass --force", pool, n)
		}
	}
	for _, b := range h.broken {
		inFile := slices.ContainsFunc(cfg.Pools, func(p storage.PoolSpec) bool { return p.Disk == "" && p.Name == b.Name })
		if inFile && (name == "" || name == b.Name) {
			return node.Errorf(node.Refused, "cannot destroy pool %s: its content can't be listed (%s); repair it, or pass --force", b.Name, b.Cause)
		}
	}
	return nil
}

// isOn reports whether the pool of that name is on the disk of that path, whichever of the disk's paths
// it is.
func (h holdings) isOn(pool, disk string) bool {
	if disk == "" {
		return false
	}
	device, err := filepath.EvalSymlinks(disk)
	return err == nil && slices.Contains(h.devices[pool], device)
}

// look opens the pools and lists their content. It never erases a disk.
func look(ctx context.Context, cfg storage.Config) (holdings, error) {
	out := holdings{devices: map[string][]string{}, things: map[string]int{}, state: map[string]bool{}}
	cfg.WipeDisks = nil
	m, err := storage.Open(ctx, cfg)
	if err != nil {
		return out, err
	}
	defer m.Close(ctx)
	status, err := m.Storage().Status()
	if err != nil {
		return out, err
	}
	out.broken = status.BrokenPools
	for _, p := range status.Pools {
		out.devices[p.Name], out.state[p.Name] = p.Devices, p.State > 0
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
		out.things[d.Pool]++
	}
	return out, nil
}
