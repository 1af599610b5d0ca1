package main

import (
	"os"
	"path/filepath"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ioctls tries an ioctl of each type on /dev/null, with an unused number, and returns the types that
// were denied. The names are of bits ORed into the request: the bits that a C library may set above the
// low 32.
func ioctls([]string) (any, error) {
	null, err := os.OpenFile("/dev/null", os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer null.Close()
	out := map[string][]int{}
	sign := ^uintptr(0) &^ 0x7fffffff
	for name, above := range map[string]uintptr{"plain": 0, "signed": sign, "sized": 0x5000_0000} {
		for kind := range uintptr(256) {
			if errno := ioctl(int(null.Fd()), above|kind<<8|0xfe, nil); errno == unix.EPERM {
				out[name] = append(out[name], int(kind))
			}
		}
	}
	return out, nil
}

// reflinks tries btrfs's own ioctls in a folder, and the calls that copy by reference.
func reflinks(args []string) (any, error) {
	dir := args[0]
	folder, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer folder.Close()
	if err := os.WriteFile(filepath.Join(dir, "from"), make([]byte, 64<<10), 0o600); err != nil {
		return nil, err
	}
	from, err := os.Open(filepath.Join(dir, "from"))
	if err != nil {
		return nil, err
	}
	defer from.Close()
	to, err := os.Create(filepath.Join(dir, "to"))
	if err != nil {
		return nil, err
	}
	defer to.Close()
	const (
		subvolCreate, snapCreate2, snapDestroy = 0x5000940e, 0x50009417, 0x5000940f
		treeSearch, quotaControl               = 0xd0009411, 0xc0109428
	)
	sign := ^uintptr(0) &^ 0xffffffff // zero on 32-bit machines
	named := make([]byte, 4096)
	copy(named[8:], "sub")
	out := map[string]string{}
	for name, request := range map[string]uintptr{
		"subvolume": subvolCreate, "subvolume, signed": subvolCreate | sign,
		"snapshot": snapCreate2, "destroy": snapDestroy, "search": treeSearch, "quota": quotaControl,
	} {
		out[name] = nameOf(orNil(ioctl(int(folder.Fd()), request, unsafe.Pointer(&named[0]))))
	}
	out["clone"] = nameOf(unix.IoctlFileClone(int(to.Fd()), int(from.Fd())))
	out["clone range"] = nameOf(unix.IoctlFileCloneRange(int(to.Fd()), &unix.FileCloneRange{Src_fd: int64(from.Fd()), Src_length: 4096, Dest_offset: 128 << 10}))
	same := &unix.FileDedupeRange{Src_length: 4096, Info: []unix.FileDedupeRangeInfo{{Dest_fd: int64(to.Fd())}}}
	out["deduplicate"] = nameOf(unix.IoctlFileDedupeRange(int(from.Fd()), same))
	_, err = unix.CopyFileRange(int(from.Fd()), nil, int(to.Fd()), nil, 4096, 0)
	out["copy range"] = nameOf(err)
	_, err = unix.IoctlGetWinsize(int(from.Fd()), unix.TIOCGWINSZ)
	out["window size"] = nameOf(err)
	return out, nil
}

func ioctl(fd int, request uintptr, at unsafe.Pointer) unix.Errno {
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), request, uintptr(at))
	return errno
}

func orNil(errno unix.Errno) error {
	if errno == 0 {
		return nil
	}
	return errno
}
