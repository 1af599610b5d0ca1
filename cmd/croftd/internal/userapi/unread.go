package userapi

import (
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/pkg/limit"
)

// limitUnread bounds what the kernel holds of an answer that its user doesn't read.
// It would hold megabytes of each, of memory that is the whole machine's.
var limitUnread = limit.Limit{Name: "door-unread", Per: "connection", Each: 192 << 10, Unit: limit.Bytes}

// boundUnread sets it on the listening socket; what is accepted there has it too.
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
