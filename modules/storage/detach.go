package storage

import (
	"context"
	stderrors "errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/modules/storage/blockdev"
	"github.com/croft-edge/croft/pkg/btrfs"
	"github.com/croft-edge/croft/pkg/filelock"
	"github.com/croft-edge/croft/pkg/loop"
	"github.com/croft-edge/croft/pkg/node"
)

const (
	letGoIn  = 15 * time.Second // time for other mount namespaces to let go of an unmounted pool, on a loaded machine too
	askEvery = 10 * time.Millisecond
)

// Detach unmounts the pools of cfg, and no others, and detaches their loop
// devices. The data stays. Busy when a module has them open, anybody a file
// on them, or a container still has something of them mounted 15 s later: pools unmounted until then stay so.
func Detach(ctx context.Context, cfg Config) error {
	return withLock(ctx, cfg, func(c Config, names []string) error { return c.detach(ctx, names) })
}

// Destroy is Detach, and then removes the images, marks and indexes of cfg's
// pools, and of no others: a loop file's data is lost with it. Of disks only
// the mark is removed; their data stays.
func Destroy(ctx context.Context, cfg Config) error {
	return withLock(ctx, cfg, func(c Config, names []string) error {
		if err := c.detach(ctx, names); err != nil {
			return err
		}
		return c.remove(names)
	})
}

func withLock(ctx context.Context, cfg Config, do func(c Config, names []string) error) error {
	if err := cfg.Validate(); err != nil {
		return err
	}
	cfg = cfg.complete()
	if _, err := os.Lstat(cfg.State); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	lock, err := cfg.lock()
	if err != nil {
		return err
	}
	defer func() { _ = lock.Release() }()
	if err := ctx.Err(); err != nil {
		return node.WithKind(node.Transient, errors.Wrap(err, "cannot detach storage"))
	}
	names, err := cfg.poolNames()
	if err != nil {
		return err
	}
	return do(cfg, names)
}

// poolNames are those of cfg's pools, as far as they can be known: a disk's is
// in its mark or on the disk.
func (c Config) poolNames() ([]string, error) {
	marks, err := c.readMarks()
	if err != nil {
		return nil, err
	}
	var names []string
	for _, spec := range c.Pools {
		if spec.Disk == "" {
			names = append(names, spec.Name)
			continue
		}
		for name, m := range marks {
			if m.Disk == spec.Disk {
				names = append(names, name)
			}
		}
		super, err := btrfs.ReadSuper(spec.Disk)
		if name, own := strings.CutPrefix(super.Label, blockdev.LabelPrefix); err == nil && own && validPoolName(name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names), nil // a disk's is in both its mark and on it, as a rule
}

func (c Config) detach(ctx context.Context, names []string) error {
	marks, err := c.readMarks()
	if err != nil {
		return err
	}
	var failed error
	for _, name := range names {
		failed = stderrors.Join(failed, c.detachOne(ctx, name, marks[name].Disk))
	}
	return failed
}

// detachOne detaches a pool on a disk, or else on a loop file.
func (c Config) detachOne(ctx context.Context, name, disk string) error {
	if err := c.checkState(name); err != nil {
		return err
	}
	if err := unmountBelow(c.mount(name)); err != nil {
		return err
	}
	device, err := loop.Find(c.image(name))
	if err != nil && !errors.Is(err, node.NotExist) {
		return err
	}
	looped := err == nil
	if !looped {
		device = disk
	}
	ours := func() bool {
		now, err := loop.Find(c.image(name))
		return !looped || err == nil && now == device
	}
	if device != "" && !unused(ctx, device, ours) {
		return node.Errorf(node.Busy, "cannot detach pool %s: something still has %s mounted, such as containers: end them first (croftd container down)", name, device)
	}
	if looped && ours() {
		return loop.Detach(device)
	}
	return nil
}

// unused waits until a device isn't in use, or not ours any more: a loop device goes with its last use, and
// may be somebody else's then. It is false when it is still in use after letGoIn, or when
// ctx ends. A process that begins in a mount namespace of its own, such as a container's, has all of the
// node's mounts for a moment, before it leaves those that it shouldn't have.
func unused(ctx context.Context, device string, ours func() bool) bool {
	ctx, cancel := context.WithTimeout(ctx, letGoIn)
	defer cancel()
	again := time.NewTicker(askEvery)
	defer again.Stop()
	for ours() && inUse(device) {
		select {
		case <-ctx.Done():
			return false
		case <-again.C:
		}
	}
	return true
}

// inUse is whether a file system on a device is still mounted somewhere: in another mount namespace, if
// nothing shows here.
func inUse(device string) bool {
	fd, err := unix.Open(device, unix.O_RDONLY|unix.O_EXCL|unix.O_CLOEXEC, 0)
	if err == nil {
		_ = unix.Close(fd)
	}
	return errors.Is(err, unix.EBUSY)
}

// remove removes the files of pools, and then the folders if nothing else is in them.
func (c Config) remove(names []string) error {
	for _, name := range names {
		image := c.image(name)
		for _, path := range []string{image, image + ".new", c.indexOf(name), c.markOf(name)} {
			if err := os.RemoveAll(path); err != nil {
				return btrfs.Wrap(err, "cannot remove pool %s", name)
			}
		}
		if err := removeEmpty(c.mount(name)); err != nil {
			return err
		}
	}
	if err := removeEmpty(c.Mounts); err != nil {
		return err
	}
	if err := removeEmpty(c.poolsDir()); err != nil {
		return err
	}
	if _, err := os.Lstat(c.poolsDir()); err == nil {
		return nil
	}
	return os.Remove(filepath.Join(c.State, lockFile))
}

// removeEmpty removes a folder if it is there and nothing is in it.
func removeEmpty(dir string) error {
	err := os.Remove(dir)
	if err == nil || errors.Is(err, unix.ENOTEMPTY) || errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return btrfs.Wrap(err, "cannot remove %s", dir)
}

// lockFile is held while a module runs.
const lockFile = "storage.lock"

// ErrInUse says that a module has the state open: the node runs.
var ErrInUse = errors.New("in use by another storage module")

// lock keeps a second module off the same state.
func (c Config) lock() (*filelock.Lock, error) {
	if err := os.MkdirAll(c.poolsDir(), 0o700); err != nil {
		return nil, errors.Wrap(err, "cannot make the folder of pools")
	}
	lock, err := filelock.Try(filepath.Join(c.State, lockFile))
	if filelock.Held(err) != nil {
		return nil, node.Errorf(node.Busy, "cannot lock storage: %s is %w", c.State, ErrInUse)
	}
	return lock, errors.Wrap(err, "cannot lock storage")
}
