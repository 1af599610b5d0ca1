package confine

import (
	"os"
	"unsafe"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"
)

// ErrNoLandlock is the error of NoWrites on a kernel without Landlock (Linux 5.13), or with Landlock switched off.
var ErrNoLandlock = errors.New("this machine's kernel has no Landlock")

// ErrTruncates is the error of NoWrites on a kernel before Linux 6.2: all is forbidden but emptying files by their paths.
var ErrTruncates = errors.New("Landlock of this machine's kernel lets files be emptied")

// Versions of Landlock's interface from which it knows more kinds of access (Documentation/userspace-api/landlock.rst).
const (
	versionOfRefer    = 2
	versionOfTruncate = 3
)

// writes are the kinds of access that change files or folders, as a version of Landlock knows them.
func writes(version uintptr) uint64 {
	kinds := uint64(unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_REMOVE_DIR | unix.LANDLOCK_ACCESS_FS_REMOVE_FILE |
		unix.LANDLOCK_ACCESS_FS_MAKE_CHAR | unix.LANDLOCK_ACCESS_FS_MAKE_DIR | unix.LANDLOCK_ACCESS_FS_MAKE_REG | unix.LANDLOCK_ACCESS_FS_MAKE_SOCK |
		unix.LANDLOCK_ACCESS_FS_MAKE_FIFO | unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK | unix.LANDLOCK_ACCESS_FS_MAKE_SYM)
	if version >= versionOfRefer {
		kinds |= unix.LANDLOCK_ACCESS_FS_REFER
	}
	if version >= versionOfTruncate {
		kinds |= unix.LANDLOCK_ACCESS_FS_TRUNCATE
	}
	return kinds
}

// NoWrites keeps the calling thread, and the program that it executes, from opening files for writing, and from making and removing
// any, for good. The files of except may be written still, where they exist. Files that are open stay as they are, and what may be read may be
// read. The thread must have given up new privileges. ErrTruncates and ErrNoLandlock say what the kernel can't forbid.
func NoWrites(except ...string) error {
	version, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return errors.Wrap(ErrNoLandlock, errno.Error())
	}
	attr := unix.LandlockRulesetAttr{Access_fs: writes(version)}
	// Its first member is all that the first version has.
	rules, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr.Access_fs), 0)
	if errno != 0 {
		return errors.Wrap(errno, "cannot make rules of Landlock")
	}
	defer func() { _ = unix.Close(int(rules)) }()
	for _, path := range except {
		if err := allowWrites(rules, path); err != nil {
			return err
		}
	}
	if _, _, errno := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, rules, 0, 0); errno != 0 {
		return errors.Wrap(errno, "cannot give up writing files")
	}
	if version < versionOfTruncate {
		return ErrTruncates
	}
	return nil
}

// allowWrites lets a file be written, if it is there.
func allowWrites(rules uintptr, path string) error {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return errors.Wrapf(err, "cannot keep the right to write %s", path)
	}
	defer func() { _ = unix.Close(fd) }()
	attr := unix.LandlockPathBeneathAttr{Allowed_access: unix.LANDLOCK_ACCESS_FS_WRITE_FILE, Parent_fd: int32(fd)}
	if _, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, rules, unix.LANDLOCK_RULE_PATH_BENEATH, uintptr(unsafe.Pointer(&attr)), 0, 0, 0); errno != 0 {
		return errors.Wrapf(errno, "cannot keep the right to write %s", path)
	}
	return nil
}
