package main

import (
	"os"
	"path/filepath"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

func credentials(id uint32) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: id, Gid: id}}
}

// subvolume asks btrfs for a subvolume, as anybody may in a folder of theirs.
func subvolume(path string) error {
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer dir.Close()
	var args struct {
		fd   int64
		name [4088]byte
	}
	copy(args.name[:], filepath.Base(path))
	const subvolCreate = 0x5000940e
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, dir.Fd(), subvolCreate, uintptr(unsafe.Pointer(&args))); errno != 0 {
		return errno
	}
	return nil
}
