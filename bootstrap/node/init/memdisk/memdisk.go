// Package memdisk gives a folder of a node without a disk a file system that can do what the layers of containers need. A tmpfs can't ID-map its mounts
// before Linux 6.3, and no container can be made of layers on one. So the folder is a btrfs, on a file in the tmpfs, which takes the memory that
// is used of it.
package memdisk

import (
	"bytes"
	"context"
	"os"
	"os/exec"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/pkg/atomicfile"
	"github.com/croft-edge/croft/pkg/loop"
	"github.com/croft-edge/croft/pkg/mounts"
)

// Mount mounts a file system of that size in bytes, which the file holds, on a folder; it makes both. It does nothing if something is mounted there. The
// memory of what is deleted becomes free again.
func Mount(ctx context.Context, file, folder string, size int64) error {
	mounted, err := mounts.Read()
	if err != nil {
		return err
	}
	if _, there := mounted.At(folder); there {
		return nil
	}
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return errors.Wrap(err, "cannot make a folder in memory")
	}
	// What an earlier life hasn't mounted holds nothing.
	if err := atomicfile.WriteFile(file, nil, 0o600); err != nil {
		return err
	}
	if err := os.Truncate(file, size); err != nil {
		return errors.Wrap(err, "cannot make a file system in memory")
	}
	if out, err := exec.CommandContext(ctx, "mkfs.btrfs", "-q", "-m", "single", "-d", "single", file).CombinedOutput(); err != nil {
		return errors.Wrapf(err, "cannot make a file system in memory: %s", bytes.TrimSpace(out))
	}
	device, err := loop.Attach(ctx, file)
	if err != nil {
		return err
	}
	defer device.Close()
	err = unix.Mount(device.Path(), folder, "btrfs", unix.MS_NODEV|unix.MS_NOATIME, "discard=async")
	return errors.Wrapf(err, "cannot mount a file system in memory on %s", folder)
}
