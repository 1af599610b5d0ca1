package links

import (
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ethtoolValue is the kernel's struct ethtool_value.
type ethtoolValue struct{ command, data uint32 }

// ethtoolRequest is the kernel's struct ifreq with a pointer to it.
type ethtoolRequest struct {
	name  [unix.IFNAMSIZ]byte
	value unsafe.Pointer
	_     [16]byte // the rest of the union
}

// ethtool reads a link's setting by a command that reads one, or makes it false by one
// that sets it. The socket is one of the link's namespace.
func ethtool(socket int, link string, command uint32) (on bool, err error) {
	value := &ethtoolValue{command: command}
	request := &ethtoolRequest{value: unsafe.Pointer(value)}
	copy(request.name[:unix.IFNAMSIZ-1], link)
	var pinned runtime.Pinner
	defer pinned.Unpin()
	pinned.Pin(value)
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(socket), unix.SIOCETHTOOL, uintptr(unsafe.Pointer(request))); errno != 0 {
		return false, errno
	}
	return value.data != 0, nil
}
