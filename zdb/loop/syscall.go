package loop

import (
	"net/netip"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/pkg/limit"
)

// These system calls don't block, or not for long, so they don't tell the scheduler: that
// would cost more than some of the calls.

func recv(fd int, p []byte) (int, unix.Errno) {
	n, _, errno := unix.RawSyscall6(unix.SYS_RECVFROM, uintptr(fd), uintptr(unsafe.Pointer(&p[0])), uintptr(len(p)), unix.MSG_DONTWAIT, 0, 0)
	return int(n), errno
}

func send(fd int, p []byte) (int, unix.Errno) {
	n, _, errno := unix.RawSyscall6(unix.SYS_SENDTO, uintptr(fd), uintptr(unsafe.Pointer(&p[0])), uintptr(len(p)), unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, 0, 0)
	return int(n), errno
}

// accept returns a connection and its source, see limit.Source.
func accept(fd int) (int, string, unix.Errno) {
	var from unix.RawSockaddrInet6 // the largest address of the families in use
	size := uint32(unsafe.Sizeof(from))
	n, _, errno := unix.RawSyscall6(unix.SYS_ACCEPT4, uintptr(fd), uintptr(unsafe.Pointer(&from)), uintptr(unsafe.Pointer(&size)), unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0, 0)
	if errno != 0 {
		return 0, "", errno
	}
	switch from.Family {
	case unix.AF_INET:
		v4 := (*unix.RawSockaddrInet4)(unsafe.Pointer(&from))
		return int(n), limit.Source(netip.AddrFrom4(v4.Addr)), 0
	case unix.AF_INET6:
		return int(n), limit.Source(netip.AddrFrom16(from.Addr)), 0
	}
	return int(n), "local", 0
}

// epollWait waits for a short time. A signal ends it.
func epollWait(epoll int, events []unix.EpollEvent, limit time.Duration) (int, error) {
	n, _, errno := unix.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(epoll), uintptr(unsafe.Pointer(&events[0])), uintptr(len(events)), uintptr(milliseconds(limit)), 0, 0)
	switch errno {
	case 0:
		return int(n), nil
	case unix.EINTR:
		return 0, nil
	default:
		return 0, errno
	}
}

// milliseconds rounds up.
func milliseconds(d time.Duration) int { return int((d + time.Millisecond - 1) / time.Millisecond) }
