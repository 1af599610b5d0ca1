package storage

import (
	"context"
	"os"
	"path/filepath"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/modules/storage/blockdev"
	"github.com/croft-edge/croft/modules/storage/bytesize"
	"github.com/croft-edge/croft/pkg/btrfs"
	"github.com/croft-edge/croft/pkg/node"
)

// makeImage makes the image of a loop pool. It gets its name only when it is
// complete: a file with the temporary name never held data.
func (c Config) makeImage(ctx context.Context, spec PoolSpec) (err error) {
	image := c.image(spec.Name)
	unfinished := image + ".new"
	if err := c.checkHostSpace(spec); err != nil {
		return err
	}
	if err := os.RemoveAll(unfinished); err != nil {
		return btrfs.Wrap(err, "cannot clear away an unfinished image")
	}
	defer func() {
		if err != nil {
			os.Remove(unfinished)
		}
	}()
	if err := c.at("make image"); err != nil {
		return err
	}
	if err := sparseFile(unfinished, spec.LoopSize); err != nil {
		return err
	}
	if err := c.at("format image"); err != nil {
		return err
	}
	if err := blockdev.Format(ctx, unfinished, spec.Name, false); err != nil {
		return err
	}
	if err := syncPath(unfinished); err != nil {
		return err
	}
	if err := c.at("name image"); err != nil {
		return err
	}
	if err := unix.Renameat2(unix.AT_FDCWD, unfinished, unix.AT_FDCWD, image, unix.RENAME_NOREPLACE); err != nil {
		return btrfs.Wrap(err, "cannot name image %s", image)
	}
	return syncPath(filepath.Dir(image))
}

// checkHostSpace refuses an image that could never be filled. It is sparse, so
// nothing keeps others from using up the room later.
func (c Config) checkHostSpace(spec PoolSpec) error {
	var stat unix.Statfs_t
	if err := unix.Statfs(c.poolsDir(), &stat); err != nil {
		return btrfs.Wrap(err, "cannot read the space below %s", c.poolsDir())
	}
	if free := stat.Bavail * uint64(stat.Bsize); free < spec.LoopSize {
		return node.Errorf(node.NoSpace, "cannot make an image of %s: free are %s below %s", bytesize.Format(spec.LoopSize), bytesize.Format(free), c.poolsDir())
	}
	return nil
}

func sparseFile(path string, size uint64) error {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return btrfs.Wrap(err, "cannot make image %s", path)
	}
	defer f.Close()
	return btrfs.Wrap(f.Truncate(int64(size)), "cannot make image %s of %s", path, bytesize.Format(size))
}

func syncPath(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return errors.Wrap(err, "cannot sync")
	}
	defer f.Close()
	return btrfs.Wrap(f.Sync(), "cannot sync %s", path)
}
