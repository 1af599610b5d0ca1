package mounts

import (
	"context"
	"os"
	"time"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"
)

// Watch calls changed once it watches, and then after each change of the process's mount
// table, until ctx is done or an error. Changes within a pause share a call. It takes no
// thread while it waits.
func Watch(ctx context.Context, pause time.Duration, changed func()) error {
	// Not /proc/self: the process's first thread may be in a namespace of its own.
	const path = "/proc/thread-self/mountinfo"
	failed := func(err error) error { return errors.Wrap(err, "cannot watch the list of mounts") }
	// Each open file has its own mark of the last change that it has told. Go's poller
	// takes that of this one, at a time that nobody knows: it only wakes. The other's
	// says whether there was a change.
	waker, err := os.Open(path)
	if err != nil {
		return failed(err)
	}
	defer waker.Close()
	mark, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return failed(err)
	}
	defer unix.Close(mark)
	raw, err := waker.SyscallConn()
	if err != nil {
		return failed(err)
	}
	stop := context.AfterFunc(ctx, func() { waker.Close() })
	defer stop()
	for {
		changed()
		var asked error
		err := raw.Read(func(uintptr) (is bool) {
			is, asked = isChanged(mark)
			return is || asked != nil
		})
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err == nil {
			err = asked
		}
		if err != nil {
			return failed(err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
	}
}

// isChanged reports whether the table has changed since the last call.
func isChanged(mark int) (bool, error) {
	for {
		fds := []unix.PollFd{{Fd: int32(mark), Events: unix.POLLPRI}}
		_, err := unix.Poll(fds, 0)
		if !errors.Is(err, unix.EINTR) {
			return fds[0].Revents&(unix.POLLPRI|unix.POLLERR) != 0, err
		}
	}
}
