package storage

import (
	"context"
	stderrors "errors"
	"os"
	"path/filepath"
	"strings"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/modules/storage/loop"
	"github.com/croft-edge/croft/pkg/node"
)

// Detach unmounts the pools of cfg and detaches their loop devices. The data
// stays. Busy when a module has them open, or anybody a file on them.
func Detach(ctx context.Context, cfg Config) error {
	return withLock(ctx, cfg, Config.detach)
}

// Destroy is Detach, and then removes the images, marks and indexes of cfg's
// pools: with a loop file goes all that was on it. Of disks only the mark is
// removed; what is on them stays.
func Destroy(ctx context.Context, cfg Config) error {
	return withLock(ctx, cfg, func(c Config) error {
		if err := c.detach(); err != nil {
			return err
		}
		return c.remove()
	})
}

func withLock(ctx context.Context, cfg Config, do func(Config) error) error {
	if err := cfg.Validate(); err != nil {
		return err
	}
	cfg = cfg.complete()
	if _, err := os.Lstat(cfg.State); stderrors.Is(err, os.ErrNotExist) {
		return nil
	}
	lock, err := cfg.lock()
	if err != nil {
		return err
	}
	defer lock.Close()
	if err := ctx.Err(); err != nil {
		return node.WithKind(node.Transient, errors.Wrap(err, "cannot detach storage"))
	}
	return do(cfg)
}

func (c Config) detach() error {
	if err := unmountBelow(c.Mounts); err != nil {
		return err
	}
	dir, err := filepath.EvalSymlinks(c.poolsDir())
	if err != nil {
		return errors.Wrap(err, "cannot find the folder of pools")
	}
	names, err := filepath.Glob("/sys/block/loop*")
	if err != nil {
		return errors.Wrap(err, "cannot list loop devices")
	}
	for _, name := range names {
		device := "/dev/" + filepath.Base(name)
		if strings.HasPrefix(loop.Backing(device), dir+"/") {
			if err := loop.Detach(device); err != nil {
				return err
			}
		}
	}
	return nil
}

// remove removes the files of all pools, and the folders if nothing else is in them.
func (c Config) remove() error {
	for _, pattern := range []string{"*.img", "*.img.new", "*.json", "*.index"} {
		paths, err := filepath.Glob(filepath.Join(c.poolsDir(), pattern))
		if err != nil {
			return errors.Wrap(err, "cannot list the files of pools")
		}
		for _, path := range paths {
			if err := os.RemoveAll(path); err != nil {
				return errors.Wrap(err, "cannot remove a pool")
			}
		}
	}
	mounts, err := filepath.Glob(filepath.Join(c.Mounts, "*"))
	if err != nil {
		return errors.Wrap(err, "cannot list mount points")
	}
	lock := filepath.Join(c.State, "storage.lock")
	for _, path := range append(mounts, c.Mounts, c.poolsDir(), lock) {
		err := os.Remove(path)
		if err != nil && !stderrors.Is(err, unix.ENOTEMPTY) && !stderrors.Is(err, os.ErrNotExist) {
			return errors.Wrap(err, "cannot remove a pool")
		}
	}
	return nil
}
