package storage

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/modules/storage/blockdev"
	"github.com/croft-edge/croft/modules/storage/bytesize"
	"github.com/croft-edge/croft/modules/storage/nodestate"
	"github.com/croft-edge/croft/modules/storage/volume"
	"github.com/croft-edge/croft/pkg/btrfs"
	"github.com/croft-edge/croft/pkg/filelock"
	"github.com/croft-edge/croft/pkg/node"
)

// prepareLock is held, in the folder of mounts, while a state volume is prepared.
const prepareLock = "prepare.lock"

// StateSpec says which state volume is wanted.
type StateSpec struct {
	nodestate.Want
	// Size is the volume's; bytes. 0 leaves one as it is, and makes one of nodestate.Size.
	Size uint64
}

// StateVolume is the state volume of a node, mounted.
type StateVolume struct {
	Pool, UUID string
	// Disk is its disk's path as the operator wrote it.
	Disk string
	Path string
	// Size is in bytes.
	Size uint64
	// Made is whether it was made just now.
	Made bool
}

// PrepareState mounts the pool that has the state of the node itself, which cfg's disks are searched for, or makes one. It may be called
// again after any kind of end of the last one. cfg.State needn't be there yet: it lies on the pool as a rule. Busy while a module
// has it open.
func PrepareState(ctx context.Context, cfg Config, spec StateSpec) (StateVolume, error) {
	var disks []string
	if err := cfg.Validate(); err != nil {
		return StateVolume{}, err
	}
	cfg = cfg.complete()
	for _, p := range cfg.Pools {
		if p.Disk == "" {
			return StateVolume{}, node.Errorf(node.Invalid, "cannot prepare the node's state: no disks are named: name them with --disk")
		}
		disks = append(disks, p.Disk)
	}
	if spec.Size != 0 && spec.Size < nodestate.Least {
		return StateVolume{}, node.Errorf(node.Invalid, "cannot prepare the node's state: size is %s, must be at least %s", bytesize.Format(spec.Size), bytesize.Format(nodestate.Least))
	}
	if err := cfg.checkStopped(); err != nil {
		return StateVolume{}, err
	}
	if err := os.MkdirAll(cfg.Mounts, 0o711); err != nil {
		return StateVolume{}, btrfs.Wrap(err, "cannot make the folder of mounts")
	}
	lock, err := filelock.Try(filepath.Join(cfg.Mounts, prepareLock))
	if filelock.Held(err) != nil {
		return StateVolume{}, node.Errorf(node.Busy, "cannot prepare the node's state: another process does")
	}
	if err != nil {
		return StateVolume{}, errors.Wrap(err, "cannot prepare the node's state")
	}
	defer func() { _ = lock.Release() }()
	found := nodestate.LookAll(ctx, disks, cfg.Mounts)
	spec.Wipe = cfg.WipeDisks
	chosen, err := nodestate.Choose(found, spec.Want)
	if err != nil {
		return StateVolume{}, err
	}
	return prepareOn(ctx, cfg, found[chosen], stateOn{cfg.Pools[chosen], spec.Size})
}

// checkStopped refuses a node that runs.
func (c Config) checkStopped() error {
	path := filepath.Join(c.State, lockFile)
	if _, err := os.Lstat(path); err != nil {
		return nil
	}
	lock, err := filelock.Try(path)
	if filelock.Held(err) != nil {
		return node.Errorf(node.Busy, "cannot prepare the node's state: %s is %w", c.State, ErrInUse)
	}
	if err != nil {
		return errors.Wrap(err, "cannot prepare the node's state")
	}
	return lock.Release()
}

// stateOn is the pool and the wanted size of a state volume.
type stateOn struct {
	spec PoolSpec
	size uint64
}

// prepareOn prepares the state volume on the disk that was chosen for it.
func prepareOn(ctx context.Context, cfg Config, on nodestate.Found, want stateOn) (out StateVolume, err error) {
	o := &opener{cfg: cfg, marks: map[string]mark{}}
	name, spec := on.Pool, want.spec
	if on.Pool == "" {
		if spec.Type == "" {
			if spec.Type, err = blockdev.Type(on.Device); err != nil {
				return out, err
			}
		}
		if name, err = o.format(ctx, on.Device, spec); err != nil {
			return out, err
		}
	}
	if !validPoolName(name) {
		return out, node.Errorf(node.Refused, "cannot use disk %s: its pool is named %q", spec.Disk, name)
	}
	super, err := o.identify(name, on.Device)
	if err != nil {
		return out, err
	}
	p := o.newPool(name, spec)
	p.setDevice(on.Device, false)
	if err := blockdev.CheckElsewhere(on.Device, p.path, volume.StateRoot); err != nil {
		return out, err
	}
	if err := cfg.at("mount pool"); err != nil {
		return out, err
	}
	out = StateVolume{Pool: name, UUID: super.UUID, Disk: spec.Disk, Path: p.state.Path()}
	err = o.attached(p, super, func(f *btrfs.FS) error {
		var l volume.Label
		if l, out.Made, err = p.ensureState(f, want.size, cfg.Quota); err == nil {
			out.Size = l.Size
		}
		return err
	})
	return out, err
}

// ensureState makes the pool's state volume if it has none, and gives it that size unless that is 0.
func (p *pool) ensureState(f *btrfs.FS, size uint64, quota volume.Quota) (l volume.Label, made bool, err error) {
	space, err := f.Space()
	if err != nil {
		return l, false, err
	}
	first, most := size, offered(space)
	if first == 0 {
		first = nodestate.Size(space.Total)
	}
	l, found, err := p.state.Get()
	if err != nil {
		return l, false, err
	}
	if !found && (first > most || first < nodestate.Least) {
		return l, false, node.Errorf(node.NoSpace, "cannot make the node's state volume on pool %s: it has %s, must have %s to %s",
			p.name, bytesize.Format(first), bytesize.Format(nodestate.Least), bytesize.Format(most))
	}
	l, made, err = volume.EnsureState(f, p.all(), first, quota)
	if err == nil {
		err = p.all().Folders()
	}
	if err != nil || size == 0 || size == l.Size {
		return l, made, err
	}
	if size > l.Size {
		if err := p.mayGrow(stateVolumes(), l, size); err != nil {
			return l, made, err
		}
	}
	err = p.state.Resize(f, l, size)
	l.Size = size
	return l, made, err
}

// checkState refuses a pool whose state volume is in use: with it the state of the node would go, on which this works.
func (c Config) checkState(name string) error {
	at, there, err := mountedAt(c.mount(name))
	if err != nil || !there {
		return err
	}
	mounted, err := blockdev.Mounts(at.Source)
	if err != nil {
		return err
	}
	var places []string
	for _, m := range mounted {
		if m.Path != at.Path && blockdev.Inside(m, volume.StateRoot) {
			places = append(places, m.Path)
		}
	}
	root := at.Path + volume.StateRoot
	if state, err := filepath.EvalSymlinks(c.State); err == nil && (state == root || strings.HasPrefix(state, root+"/")) {
		places = append(places, state)
	}
	if len(places) == 0 {
		return nil
	}
	slices.Sort(places)
	return node.Errorf(node.Refused, "cannot detach pool %s: the state of the node itself is on it, in use at %s: it is unmounted when the machine stops",
		name, strings.Join(slices.Compact(places), ", "))
}
