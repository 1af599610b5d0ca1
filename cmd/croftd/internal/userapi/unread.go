package userapi

import (
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/pkg/limit"
)

// limitUnread bounds the kernel's buffer of an answer that its user doesn't read. By default it would
// grow to megabytes each, of the whole machine's memory.
var limitUnread = limit.Limit{Name: "door-unread", Per: "connection", Each: 192 << 10, Unit: limit.Bytes}

// boundUnread sets the limit on the listening socket; accepted connections inherit it.
func boundUnread(_, _ string, conn syscall.RawConn) error {
	var set error
	err := conn.Control(func(fd uintptr) {
		set = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_SNDBUF, int(limitUnread.Each))
	})
	if err != nil {
		return err
	}
	return set
}
