package storage

import (
	stderrors "errors"
	"os"
	"slices"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/modules/storage/btrfs"
	"github.com/croft-edge/croft/pkg/mounts"
)

// mountPool mounts a btrfs device. What lies on it was written by containers
// whose root is that of the node on disk: neither devices nor set-id files work.
func mountPool(device, path string) error {
	if err := os.MkdirAll(path, 0o711); err != nil {
		return errors.Wrap(err, "cannot make a mount point")
	}
	err := unix.Mount(device, path, "btrfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOATIME, "")
	return btrfs.Wrap(err, "cannot mount %s on %s", device, path)
}

// secure makes a pool that an earlier version has mounted as mountPool does.
func secure(path string) error {
	attributes := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV}
	return btrfs.Wrap(unix.MountSetattr(unix.AT_FDCWD, path, 0, &attributes), "cannot make the mount of %s nosuid", path)
}

// unmountBelow unmounts all that is mounted on dir or below it, last first.
func unmountBelow(dir string) error {
	mounted, err := mounts.Read()
	if err != nil {
		return err
	}
	for _, path := range slices.Backward(mounted.Within(dir).Paths()) {
		if err := unix.Unmount(path, 0); err != nil && !stderrors.Is(err, unix.EINVAL) {
			return btrfs.Wrap(err, "cannot unmount %s", path)
		}
	}
	return nil
}

// mountedAt is what is mounted on a path.
func mountedAt(path string) (mounts.Mount, bool, error) {
	mounted, err := mounts.Read()
	m, found := mounted.At(path)
	return m, found, err
}
