package btrfs

import (
	"os"

	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/pkg/node"
)

// FS is an open btrfs file system. It keeps it from being unmounted, so close it soon.
type FS struct {
	root *os.File
}

// Open opens the btrfs file system mounted at path. Transient when something
// else lies there, as when a pool is unmounted.
func Open(path string) (*FS, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, Wrap(err, "cannot open file system %s", path)
	}
	var stat unix.Statfs_t
	if err := unix.Fstatfs(int(f.Fd()), &stat); err != nil {
		f.Close()
		return nil, Wrap(err, "cannot open file system %s", path)
	}
	if stat.Type != unix.BTRFS_SUPER_MAGIC {
		f.Close()
		return nil, node.Errorf(node.Transient, "cannot open file system %s: no btrfs is mounted there", path)
	}
	return &FS{root: f}, nil
}

// Close lets go of the file system.
func (f *FS) Close() error { return f.root.Close() }

// UUID is the file system's, in the usual text form.
func (f *FS) UUID() (string, error) {
	var args infoArgs
	if err := call(f.root, iocFSInfo, &args); err != nil {
		return "", Wrap(err, "cannot read the UUID of %s", f.root.Name())
	}
	return formatUUID(args.uuid[:]), nil
}

// Sync writes all that is pending to the devices, and wakes the kernel's
// cleaner of destroyed subvolumes.
func (f *FS) Sync() error {
	return Wrap(call(f.root, iocSync, new(uint64)), "cannot sync %s", f.root.Name())
}
