package rootfs

import (
	"os"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"
)

// tree is a mount of a folder or file, made apart from where that is seen.
type tree struct {
	*os.File
}

// cloneTree clones the mount at path, without mounts below it; path may not be
// a link itself. The clone is detached until attached, and gone when closed
// before.
func cloneTree(path string) (tree, error) {
	fd, err := unix.OpenTree(unix.AT_FDCWD, path, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_SYMLINK_NOFOLLOW)
	if err != nil {
		return tree{}, failed("clone the mount of", path, err)
	}
	return tree{os.NewFile(uintptr(fd), path)}, nil
}

// set gives it attributes (MOUNT_ATTR_…), and a mapping of IDs when userns
// isn't nil. It shares nothing with the mount that it is a clone of.
func (t tree) set(attributes uint64, userns *os.File) error {
	a := unix.MountAttr{Attr_set: attributes, Propagation: unix.MS_PRIVATE}
	if userns != nil {
		a.Attr_set |= unix.MOUNT_ATTR_IDMAP
		a.Userns_fd = uint64(userns.Fd())
	}
	return unix.MountSetattr(int(t.Fd()), "", unix.AT_EMPTY_PATH, &a)
}

// attach puts it onto an open folder or file.
func (t tree) attach(onto *os.File) error {
	return unix.MoveMount(int(t.Fd()), "", int(onto.Fd()), "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH)
}

// attachAt puts it onto a path that no container can change.
func (t tree) attachAt(path string) error {
	return unix.MoveMount(int(t.Fd()), "", unix.AT_FDCWD, path, unix.MOVE_MOUNT_F_EMPTY_PATH)
}

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
