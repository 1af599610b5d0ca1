package loop

import (
	"os"
	"sync"

	"github.com/pkg/errors"
	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"
)

const (
	// maxAccept is how many connections come in over a listener in a round.
	maxAccept = 32
	// keepAlive is after how many silent seconds the kernel checks whether a client
	// is still there.
	keepAlive = 300
)

// doors are the listening sockets. add, list and end are safe for concurrent use;
// the others belong to the loop's thread.
type doors struct {
	poller *poller
	log    zerolog.Logger
	rare   zerolog.Logger
	round  *round
	// enter takes an accepted connection.
	enter   func(fd int, source string, admin bool)
	anyShut bool // a listener isn't watched

	mu    sync.Mutex
	open  map[int]*door // by file descriptor
	ended bool
}

type door struct {
	admin bool
	// shut is true while it isn't watched, because accepting failed.
	shut bool
}

// add takes a listening socket over, tcp or unix; the caller's is closed, also on
// an error.
func (d *doors) add(socket *os.File, admin bool) error {
	defer socket.Close()
	fd, err := duplicate(socket)
	if err != nil {
		return errors.Wrapf(err, "cannot listen on %s", socket.Name())
	}
	if err := d.watch(fd, admin); err != nil {
		_ = unix.Close(fd)
		return errors.Wrapf(err, "cannot listen on %s", socket.Name())
	}
	return nil
}

func (d *doors) watch(fd int, admin bool) error {
	if err := prepare(fd); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ended {
		return errors.New("the server has ended")
	}
	if err := d.poller.add(fd); err != nil {
		return err
	}
	d.open[fd] = &door{admin: admin}
	return nil
}

// prepare checks that a socket listens, and sets the options that connections inherit.
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

// list returns duplicates of the admins' listeners, or of the others.
func (d *doors) list(admin bool) ([]*os.File, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	var out []*os.File
	for fd, one := range d.open {
		if one.admin != admin {
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

// knock accepts the connections that wait at a listener.
func (d *doors) knock(fd int) {
	d.mu.Lock()
	one := d.open[fd]
	d.mu.Unlock()
	if one == nil {
		return
	}
	// Another process that has the socket too may have made it blocking.
	if err := unix.SetNonblock(fd, true); err != nil {
		d.shut(fd, one, err)
		return
	}
	for range maxAccept {
		conn, source, errno := accept(fd)
		switch errno {
		case 0:
			d.enter(conn, source, one.admin)
		case unix.EAGAIN:
			return
		case unix.EINTR, unix.ECONNABORTED, unix.EPROTO:
		default:
			d.shut(fd, one, errno)
			return
		}
	}
}

// shut stops watching a listener for a while: connections that can't be accepted
// now, most likely for want of file descriptors, wait in the kernel, and trying
// again and again would take all of the time. A listener that was shut down is
// closed.
func (d *doors) shut(fd int, one *door, why error) {
	d.round.count.AcceptErrors++
	if err := d.poller.remove(fd); err != nil {
		d.rare.Error().Err(err).Msg("cannot stop waiting for connections")
	}
	if errors.Is(why, unix.EINVAL) {
		d.log.Warn().Err(why).Msg("a listener was shut down: no connections come in there any more")
		d.mu.Lock()
		delete(d.open, fd)
		d.mu.Unlock()
		_ = unix.Close(fd)
		return
	}
	d.rare.Error().Err(why).Msg("cannot accept a connection: trying again soon")
	one.shut = true
	d.anyShut = true
}

// reopen watches the listeners again that were shut.
func (d *doors) reopen() {
	if !d.anyShut {
		return
	}
	d.anyShut = false
	d.mu.Lock()
	defer d.mu.Unlock()
	for fd, one := range d.open {
		if !one.shut {
			continue
		}
		if err := d.poller.add(fd); err != nil {
			d.anyShut = true
			continue
		}
		one.shut = false
	}
}

// end closes all listeners.
func (d *doors) end() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ended = true
	for fd := range d.open {
		_ = unix.Close(fd)
	}
	d.open = nil
}
