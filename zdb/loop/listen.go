package loop

import (
	"os"
	"sync"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/pkg/resp"
)

const (
	// maxAccept is how many connections come in over a listener in a round.
	maxAccept = 32
	// keepAlive is after how many silent seconds the kernel asks whether a client
	// is still there.
	keepAlive = 300
	errMany   = "Too many connections"
)

// doors are the listening sockets, by file descriptor.
type doors struct {
	mu    sync.Mutex
	open  map[int]*door
	ended bool
}

type door struct {
	admin bool
	// shut is one that isn't waited for, because accepting failed.
	shut bool
}

// Listen takes a listening socket over, tcp or unix; the caller's is closed, also
// on an error. Connections that come in there are Admin when admin is set. It may
// be called from any goroutine, before Run too.
func (l *Loop) Listen(socket *os.File, admin bool) error {
	defer socket.Close()
	fd, err := duplicate(socket)
	if err != nil {
		return errors.Wrapf(err, "cannot listen on %s", socket.Name())
	}
	if err := l.openDoor(fd, admin); err != nil {
		_ = unix.Close(fd)
		return errors.Wrapf(err, "cannot listen on %s", socket.Name())
	}
	return nil
}

func (l *Loop) openDoor(fd int, admin bool) error {
	if err := prepare(fd); err != nil {
		return err
	}
	l.doors.mu.Lock()
	defer l.doors.mu.Unlock()
	if l.doors.ended {
		return errors.New("the server has ended")
	}
	if l.doors.open == nil {
		l.doors.open = map[int]*door{}
	}
	if err := watch(l.epoll, unix.EPOLL_CTL_ADD, fd, unix.EPOLLIN); err != nil {
		return os.NewSyscallError("epoll_ctl", err)
	}
	l.doors.open[fd] = &door{admin: admin}
	return nil
}

// prepare checks that a socket listens, and sets what connections inherit.
func prepare(fd int) error {
	listening, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ACCEPTCONN)
	if err != nil {
		return os.NewSyscallError("getsockopt", err)
	}
	kind, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TYPE)
	if err != nil {
		return os.NewSyscallError("getsockopt", err)
	}
	if listening == 0 || kind != unix.SOCK_STREAM {
		return errors.New("it is no stream socket that listens")
	}
	domain, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_DOMAIN)
	if err != nil {
		return os.NewSyscallError("getsockopt", err)
	}
	if domain != unix.AF_INET && domain != unix.AF_INET6 {
		return nil
	}
	for _, o := range []struct{ level, name, value int }{
		{unix.IPPROTO_TCP, unix.TCP_NODELAY, 1}, {unix.SOL_SOCKET, unix.SO_KEEPALIVE, 1}, {unix.IPPROTO_TCP, unix.TCP_KEEPIDLE, keepAlive},
	} {
		if err := unix.SetsockoptInt(fd, o.level, o.name, o.value); err != nil {
			return os.NewSyscallError("setsockopt", err)
		}
	}
	return nil
}

// duplicate returns a descriptor of the same socket, which the runtime knows
// nothing of.
func duplicate(f *os.File) (int, error) {
	raw, err := f.SyscallConn()
	if err != nil {
		return 0, err
	}
	var fd int
	var failed error
	err = raw.Control(func(of uintptr) {
		fd, failed = unix.FcntlInt(of, unix.F_DUPFD_CLOEXEC, 3)
	})
	if err == nil {
		err = failed
	}
	return fd, err
}

// Listeners returns duplicates of the sockets that were taken over as admin ones,
// or the others. It may be called from any goroutine.
func (l *Loop) Listeners(admin bool) ([]*os.File, error) {
	l.doors.mu.Lock()
	defer l.doors.mu.Unlock()
	var out []*os.File
	for fd, d := range l.doors.open {
		if d.admin != admin {
			continue
		}
		dup, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 3)
		if err != nil {
			for _, f := range out {
				_ = f.Close()
			}
			return nil, errors.Wrap(os.NewSyscallError("fcntl", err), "cannot duplicate a listener")
		}
		out = append(out, os.NewFile(uintptr(dup), "listener"))
	}
	return out, nil
}

// knock lets in who waits at a door.
func (l *Loop) knock(fd int) {
	l.doors.mu.Lock()
	d := l.doors.open[fd]
	l.doors.mu.Unlock()
	if d == nil {
		return
	}
	// Whoever has the socket too, in another process, may have made it blocking.
	if err := unix.SetNonblock(fd, true); err != nil {
		l.shut(fd, d, err)
		return
	}
	for range maxAccept {
		conn, source, errno := accept(fd)
		switch errno {
		case 0:
			l.enter(conn, source, d)
		case unix.EAGAIN:
			return
		case unix.EINTR, unix.ECONNABORTED, unix.EPROTO:
		default:
			l.shut(fd, d, errno)
			return
		}
	}
}

// enter makes a connection of a socket.
func (l *Loop) enter(fd int, source string, d *door) {
	c := &Conn{l: l, fd: fd, Admin: d.admin, events: unix.EPOLLIN, last: l.now}
	if !l.admit(c, source) {
		l.count.Refused++
		_, _ = send(fd, resp.AppendError(nil, errMany))
		_ = unix.Close(fd)
		return
	}
	if err := watch(l.epoll, unix.EPOLL_CTL_ADD, fd, unix.EPOLLIN); err != nil {
		l.count.AcceptErrors++
		l.rare.Error().Err(err).Msg("cannot wait for a connection: it is closed")
		l.depart(c)
		_ = unix.Close(fd)
		return
	}
	for len(l.conns) <= fd {
		l.conns = append(l.conns, nil)
	}
	l.conns[fd] = c
	l.connections++
	l.count.Accepted++
	l.config.Handler.Open(c)
	l.touch(c)
}

// shut keeps a door shut for a while: what can't be accepted now, most likely for
// want of file descriptors, waits in the kernel, and asking again and again would
// take all of the time. One that listens no more is taken out.
func (l *Loop) shut(fd int, d *door, why error) {
	l.count.AcceptErrors++
	if err := watch(l.epoll, unix.EPOLL_CTL_DEL, fd, 0); err != nil {
		l.rare.Error().Err(err).Msg("cannot stop waiting for connections")
	}
	if errors.Is(why, unix.EINVAL) {
		l.log.Warn().Err(why).Msg("a listener was shut down: no connections come in there any more")
		l.doors.mu.Lock()
		delete(l.doors.open, fd)
		l.doors.mu.Unlock()
		_ = unix.Close(fd)
		return
	}
	l.rare.Error().Err(why).Msg("cannot accept a connection: trying again soon")
	d.shut = true
	l.anyShut = true
}

// reopen waits again for what comes in over doors that were shut.
func (l *Loop) reopen() {
	if !l.anyShut {
		return
	}
	l.anyShut = false
	l.doors.mu.Lock()
	defer l.doors.mu.Unlock()
	for fd, d := range l.doors.open {
		if !d.shut {
			continue
		}
		if err := watch(l.epoll, unix.EPOLL_CTL_ADD, fd, unix.EPOLLIN); err != nil {
			l.anyShut = true
			continue
		}
		d.shut = false
	}
}

func (l *Loop) closeDoors() {
	l.doors.mu.Lock()
	defer l.doors.mu.Unlock()
	l.doors.ended = true
	for fd := range l.doors.open {
		_ = unix.Close(fd)
	}
	l.doors.open = nil
}
