// Package memdisk makes disks in the memory of a node that has no others, with zram: what is on them is compressed, and takes memory from when it is first
// written until a file system discards it.
//
// A tmpfs wouldn't do: it can't ID-map its mounts before Linux 6.3, and no container can be made of layers on one. Nor would a loop device on a file of a
// tmpfs: the kernel counts what is written to it as memory of the control group that writes, which can't give it back, so that a container that stores
// more than its memory would be ended (Linux's drivers/block/loop.c, since 5.14).
package memdisk

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/pkg/atomicfile"
	"github.com/croft-edge/croft/pkg/mounts"
)

// Maker makes disks.
type Maker struct {
	// Sys is where sysfs is mounted, Dev where the devices appear: /sys and /dev.
	Sys, Dev string
	// Notes is a folder in memory. It has a file for each disk that was made, with its device.
	Notes string
}

// Disk returns the device of the disk of that name, which has that size in bytes; it makes it if it isn't there. The kernel's module zram is loaded.
func (m Maker) Disk(name string, size int64) (string, error) {
	note := filepath.Join(m.Notes, name)
	switch device, err := os.ReadFile(note); {
	case err == nil:
		return string(device), nil
	case !errors.Is(err, os.ErrNotExist):
		return "", errors.Wrap(err, "cannot tell which disk in memory was made")
	}
	number, err := os.ReadFile(filepath.Join(m.Sys, "class/zram-control/hot_add"))
	if err != nil {
		return "", errors.Wrap(err, "cannot make a disk in memory")
	}
	device := "zram" + strings.TrimSpace(string(number))
	if err := os.WriteFile(filepath.Join(m.Sys, "block", device, "disksize"), []byte(strconv.FormatInt(size, 10)), 0o600); err != nil {
		return "", errors.Wrap(err, "cannot make a disk in memory")
	}
	path := filepath.Join(m.Dev, device)
	if err := atomicfile.WriteFile(note, []byte(path), 0o600); err != nil {
		return "", err
	}
	return path, nil
}

// Mount mounts the disk on a folder, with a btrfs that it makes. It makes the folder too, and does nothing if something is mounted there. The
// memory of what is deleted becomes free again.
func Mount(ctx context.Context, device, folder string) error {
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
	if out, err := exec.CommandContext(ctx, "mkfs.btrfs", "-q", "-f", "-m", "single", "-d", "single", device).CombinedOutput(); err != nil {
		return errors.Wrapf(err, "cannot make a file system in memory: %s", bytes.TrimSpace(out))
	}
	err = unix.Mount(device, folder, "btrfs", unix.MS_NODEV|unix.MS_NOATIME, "discard=async")
	return errors.Wrapf(err, "cannot mount a file system in memory on %s", folder)
}
