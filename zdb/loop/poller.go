package loop

import (
	"os"
	"time"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"
)

// shortWait is how long the thread waits without telling the scheduler. A scheduler
// that knows of the wait may stop the thread, which interrupts it.
const shortWait = time.Millisecond

// poller waits until file descriptors are ready. It owns an epoll instance.
type poller struct {
	fd     int
	events [512]unix.EpollEvent
}

func newPoller() (*poller, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("epoll_create1", err)
	}
	return &poller{fd: fd}, nil
}

func (p *poller) control(op, fd int, events uint32) error {
	err := unix.EpollCtl(p.fd, op, fd, &unix.EpollEvent{Events: events, Fd: int32(fd)})
	return os.NewSyscallError("epoll_ctl", err)
}

// add watches a file descriptor for input.
func (p *poller) add(fd int) error { return p.control(unix.EPOLL_CTL_ADD, fd, unix.EPOLLIN) }

// change sets the events that a file descriptor is watched for.
func (p *poller) change(fd int, events uint32) error {
	return p.control(unix.EPOLL_CTL_MOD, fd, events)
}

// remove stops watching a file descriptor. Closing the last duplicate does so too.
func (p *poller) remove(fd int) error { return p.control(unix.EPOLL_CTL_DEL, fd, 0) }

// wait returns the events that are ready, and waits for one until the deadline at
// most. Under load the next event comes almost at once. The scheduler isn't told of
// a short wait, because it would have another thread check every 20 µs whether the
// wait goes on. It is told of a longer one.
func (p *poller) wait(now, deadline time.Time) ([]unix.EpollEvent, error) {
	limit := max(deadline.Sub(now), 0)
	if n, err := epollWait(p.fd, p.events[:], min(limit, shortWait)); n > 0 || err != nil || limit <= shortWait {
		return p.events[:n], err
	}
	n, err := unix.EpollWait(p.fd, p.events[:], milliseconds(max(time.Until(deadline), 0)))
	if errors.Is(err, unix.EINTR) {
		return nil, nil
	}
	return p.events[:max(n, 0)], err
}

func (p *poller) close() { _ = unix.Close(p.fd) }
