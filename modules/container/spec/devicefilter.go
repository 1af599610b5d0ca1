package spec

import (
	"os"
	"runtime"
	"unsafe"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"
)

// deviceFilter tries cgroup v2's way to deny devices to a container: it loads a
// BPF program that allows everything, attaches it to a cgroup, and detaches it
// again.
func deviceFilter(dir string) error {
	group, err := os.Open(dir)
	if err != nil {
		return errors.Wrap(err, "cannot open the cgroup")
	}
	defer group.Close()
	// r0 = 1; exit
	program := []uint64{0x1_0000_00b7, 0x95}
	license := []byte("GPL\x00")
	var pinned runtime.Pinner // the kernel is told where they are: they may not move
	defer pinned.Unpin()
	pinned.Pin(&program[0])
	pinned.Pin(&license[0])
	load := struct {
		kind, count      uint32
		program, license uint64
		_                [96]byte
	}{kind: unix.BPF_PROG_TYPE_CGROUP_DEVICE, count: uint32(len(program)), program: address(&program[0]), license: address(&license[0])}
	loaded, err := bpf(unix.BPF_PROG_LOAD, unsafe.Pointer(&load), unsafe.Sizeof(load))
	if err != nil {
		return errors.Wrap(err, "cannot load a device filter")
	}
	defer unix.Close(loaded)
	attach := struct{ group, program, kind, flags uint32 }{uint32(group.Fd()), uint32(loaded), unix.BPF_CGROUP_DEVICE, 0}
	if _, err := bpf(unix.BPF_PROG_ATTACH, unsafe.Pointer(&attach), unsafe.Sizeof(attach)); err != nil {
		return errors.Wrap(err, "cannot attach a device filter")
	}
	_, err = bpf(unix.BPF_PROG_DETACH, unsafe.Pointer(&attach), unsafe.Sizeof(attach))
	return errors.Wrap(err, "cannot detach a device filter")
}

func address[T any](first *T) uint64 { return uint64(uintptr(unsafe.Pointer(first))) }

func bpf(command uintptr, attributes unsafe.Pointer, size uintptr) (int, error) {
	fd, _, errno := unix.Syscall(unix.SYS_BPF, command, uintptr(attributes), size)
	if errno != 0 {
		return 0, errno
	}
	return int(fd), nil
}
