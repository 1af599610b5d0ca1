package mounts

import (
	"context"
	"os"
	"time"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"
)

// Watch calls changed after each change of the process's mount table, until ctx is done or
// an error. Changes within a pause share a call. It takes no thread while it waits.
func Watch(ctx context.Context, pause time.Duration, changed func()) error {
	table, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return errors.Wrap(err, "cannot watch the list of mounts")
	}
	defer table.Close()
	// The table is always readable; a change is an exceptional condition, for which Go's
	// own poller doesn't ask.
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return errors.Wrap(err, "cannot watch the list of mounts")
	}
	_ = unix.SetNonblock(fd, true)
	poll := os.NewFile(uintptr(fd), "mounts")
	defer poll.Close()
	event := unix.EpollEvent{Events: unix.EPOLLPRI | unix.EPOLLERR | unix.EPOLLET}
	if err := unix.EpollCtl(fd, unix.EPOLL_CTL_ADD, int(table.Fd()), &event); err != nil {
		return errors.Wrap(err, "cannot watch the list of mounts")
	}
	raw, err := poll.SyscallConn()
	if err != nil {
		return errors.Wrap(err, "cannot watch the list of mounts")
	}
	stop := context.AfterFunc(ctx, func() { poll.Close() })
	defer stop()
	for {
		err := raw.Read(func(fd uintptr) bool {
			n, err := unix.EpollWait(int(fd), make([]unix.EpollEvent, 1), 0)
			return n > 0 || err != nil && !errors.Is(err, unix.EINTR)
		})
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			return errors.Wrap(err, "cannot watch the list of mounts")
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
		changed()
	}
}
