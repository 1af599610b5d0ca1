package disk

import (
	"io"
	"os"
	"unsafe"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/pkg/filelock"
	"github.com/croft-edge/croft/zdb/store/format"
)

// Real is the machine's file system.
type Real struct{}

// MakeDir implements Disk.
func (Real) MakeDir(path string) error { return os.MkdirAll(path, 0o700) }

// Remove implements Disk.
func (Real) Remove(path string) error { return os.Remove(path) }

// Rename implements Disk.
func (Real) Rename(from, to string) error { return os.Rename(from, to) }

// Lock implements Disk.
func (Real) Lock(dir string) (func(), error) {
	lock, err := filelock.TryFolder(dir)
	if err != nil {
		return nil, err
	}
	return func() { _ = lock.Release() }, nil // the process may still end, which releases it
}

// Open implements Disk.
func (Real) Open(path string, create bool) (File, error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0o600)
	if create && errors.Is(err, os.ErrNotExist) {
		if f, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600); err == nil {
			inPlace(int(f.Fd()))
		}
	}
	if err != nil {
		return nil, err
	}
	return &realFile{f: f, fd: int(f.Fd())}, nil
}

// noCopyOnWrite is FS_NOCOW_FL.
const noCopyOnWrite = 0x00800000

// inPlace turns copy-on-write off for a new file on btrfs: blocks that were allocated, or written once, can
// then be written on a full disk. The store has checksums of its own.
func inPlace(fd int) {
	var fs unix.Statfs_t
	if unix.Fstatfs(fd, &fs) != nil || fs.Type != unix.BTRFS_SUPER_MAGIC {
		return
	}
	flags, err := unix.IoctlGetInt(fd, unix.FS_IOC_GETFLAGS)
	if err == nil && flags&noCopyOnWrite == 0 {
		_ = unix.IoctlSetPointerInt(fd, unix.FS_IOC_SETFLAGS, flags|noCopyOnWrite)
	}
}

// List implements Disk.
func (Real) List(dir string) (map[string]int64, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	out := make(map[string]int64, len(entries))
	for _, e := range entries {
		info, err := e.Info()
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if info.Mode().IsRegular() {
			out[e.Name()] = info.Size()
		}
	}
	return out, nil
}

// Boot implements Disk.
func (Real) Boot() uint64 {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return 0
	}
	return format.Identity{}.Hash(id)
}

// SyncDir implements Disk.
func (Real) SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

// realFile calls the kernel itself: os.File's bookkeeping costs as much as a
// read of a small entry from the page cache.
type realFile struct {
	f  *os.File
	fd int
}

// onDisk reads or writes. Nearly always that only copies from or to the page cache, so the
// call bypasses Go's scheduler: its monitor would wake every 20 µs, which costs more than
// 5 % of the processor.
func onDisk(call uintptr, fd int, p []byte, off int64) (int, error) {
	n, _, errno := unix.RawSyscall6(call, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)), uintptr(off), 0, 0)
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}

func (r *realFile) ReadAt(p []byte, off int64) (int, error) {
	n := 0
	for n < len(p) {
		m, err := onDisk(unix.SYS_PREAD64, r.fd, p[n:], off+int64(n))
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return n, &os.PathError{Op: "read", Path: r.f.Name(), Err: err}
		case m == 0:
			return n, io.EOF
		default:
			n += m
		}
	}
	return n, nil
}

func (r *realFile) WriteAt(a, b []byte, off int64) error {
	if len(a) > 0 && len(b) > 0 {
		n, err := unix.Pwritev(r.fd, [][]byte{a, b}, off)
		if err != nil && !errors.Is(err, unix.EINTR) {
			return &os.PathError{Op: "write", Path: r.f.Name(), Err: err}
		}
		if n > 0 {
			off += int64(n)
			skip := min(n, len(a))
			a, b = a[skip:], b[n-skip:]
		}
	}
	for _, p := range [2][]byte{a, b} {
		if err := r.write(p, off); err != nil {
			return err
		}
		off += int64(len(p))
	}
	return nil
}

func (r *realFile) write(p []byte, off int64) error {
	for len(p) > 0 {
		n, err := onDisk(unix.SYS_PWRITE64, r.fd, p, off)
		if err != nil && !errors.Is(err, unix.EINTR) {
			return &os.PathError{Op: "write", Path: r.f.Name(), Err: err}
		}
		n = max(n, 0)
		p, off = p[n:], off+int64(n)
	}
	return nil
}

func (r *realFile) Allocate(off, n int64) error {
	for {
		err := unix.Fallocate(r.fd, unix.FALLOC_FL_KEEP_SIZE, off, n)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return &os.PathError{Op: "fallocate", Path: r.f.Name(), Err: err}
		}
		return nil
	}
}

func (r *realFile) Truncate(size int64) error { return r.f.Truncate(size) }

func (r *realFile) Close() error { return r.f.Close() }

func (r *realFile) Sync() error {
	for {
		err := unix.Fdatasync(r.fd)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return &os.PathError{Op: "fdatasync", Path: r.f.Name(), Err: err}
		}
		return nil
	}
}
