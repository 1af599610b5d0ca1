package rootfs

import (
	"os"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"
)

// mountID is the ID of the mount that an open file is on.
func mountID(f *os.File) (uint64, error) {
	var st unix.Statx_t
	if err := unix.Statx(int(f.Fd()), "", unix.AT_EMPTY_PATH, unix.STATX_MNT_ID, &st); err != nil {
		return 0, errors.Wrapf(err, "cannot look at the mount of %s", f.Name())
	}
	if st.Mask&unix.STATX_MNT_ID == 0 {
		return 0, errors.New("cannot look at a mount: this kernel doesn't tell its ID (Linux 5.8 does)")
	}
	return st.Mnt_id, nil
}

// unmount takes everything off path, and all that is mounted below it. path is
// one of our own folders, never one that a container can change: a link in it
// would lead to somebody else's mount.
func unmount(path string) error {
	for {
		err := unix.Unmount(path, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
		switch {
		case errors.Is(err, unix.EINVAL), errors.Is(err, unix.ENOENT):
			return nil // nothing is mounted there, or not any more
		case err != nil:
			return errors.Wrapf(err, "cannot unmount %s", path)
		}
	}
}
