// Package port makes the listening sockets of zdb containers' ports, and tells the sockets that
// a zdb hands back from those that aren't the node's. A Listener takes connections only: with
// it a zdb can't reach the node's network (passive.go). The package keeps no records.
package port

import (
	"context"
	"net"
	"net/netip"
	"os"
	"strconv"
	"sync"
	"syscall"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/modules/zdb/socket"
)

// Listener is a listening TCP socket that is shared with a zdb. Go's poller doesn't know
// it: every connection would wake that for nothing.
type Listener struct {
	// Port is where it listens.
	Port uint16
	// cookie identifies the socket, whichever process has it open.
	cookie uint64

	mu sync.Mutex
	fd int // below 0 once it is closed
}

// bind makes a listener in the network namespace of this process.
func bind(ctx context.Context, at netip.Addr, port uint16) (*Listener, error) {
	host := ""
	if at.IsValid() && !(at.IsUnspecified() && at.Is6()) {
		host = at.String()
	}
	var c net.ListenConfig
	// A listener of MPTCP makes every connection slower, and few clients speak it.
	c.SetMultipathTCP(false)
	l, err := c.Listen(ctx, "tcp", net.JoinHostPort(host, strconv.Itoa(int(port))))
	if err != nil {
		return nil, socket.Reason(err)
	}
	defer l.Close()
	return adopt(l.(*net.TCPListener))
}

// adopt makes a listener of a socket's duplicate.
func adopt(of syscall.Conn) (*Listener, error) {
	l := &Listener{fd: -1}
	err := control(of, func(fd int) (err error) {
		if l.cookie, err = unix.GetsockoptUint64(fd, unix.SOL_SOCKET, unix.SO_COOKIE); err != nil {
			return err
		}
		var at netip.AddrPort
		if at, err = address(fd); err != nil {
			return err
		}
		l.Port = at.Port()
		if err = keepPassive(fd); err != nil {
			return err
		}
		l.fd, err = unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 3)
		return err
	})
	if err != nil {
		return nil, errors.Wrap(err, "cannot use a listener")
	}
	return l, nil
}

// control calls do with the descriptor. Fd would make the socket a blocking one,
// also for the zdb that has it open.
func control(of syscall.Conn, do func(fd int) error) error {
	raw, err := of.SyscallConn()
	if err != nil {
		return err
	}
	var doErr error
	if err := raw.Control(func(fd uintptr) { doErr = do(int(fd)) }); err != nil {
		return err
	}
	return doErr
}

// address is where a TCP socket is bound.
func address(fd int) (netip.AddrPort, error) {
	name, err := unix.Getsockname(fd)
	if err != nil {
		return netip.AddrPort{}, err
	}
	switch a := name.(type) {
	case *unix.SockaddrInet4:
		return netip.AddrPortFrom(netip.AddrFrom4(a.Addr), uint16(a.Port)), nil
	case *unix.SockaddrInet6:
		return netip.AddrPortFrom(netip.AddrFrom16(a.Addr).Unmap(), uint16(a.Port)), nil
	}
	return netip.AddrPort{}, errors.New("it isn't a TCP socket")
}

// boundHere is the address of a socket that a zdb has, if that is a TCP socket of this
// network namespace: this process or an earlier one made it.
func boundHere(of syscall.Conn) (at netip.AddrPort, here bool) {
	err := control(of, func(fd int) (err error) {
		if at, err = address(fd); err == nil {
			here, err = inOurNamespace(fd)
		}
		return err
	})
	return at, err == nil && here
}

// alike reports whether two addresses to listen at are the same. All addresses of IPv6
// include all of IPv4.
func alike(a, b netip.Addr) bool { return a == b || Everywhere(a) && Everywhere(b) }

// inOurNamespace reports whether a socket was made in the network namespace of the calling
// thread. /proc/self would show that of the main thread, on which a goroutine may have
// entered another one.
func inOurNamespace(fd int) (bool, error) {
	theirs, err := unix.IoctlRetInt(fd, unix.SIOCGSKNS)
	if err != nil {
		return false, os.NewSyscallError("ioctl", err)
	}
	defer unix.Close(theirs)
	var a, b unix.Stat_t
	if err = unix.Fstat(theirs, &a); err == nil {
		err = unix.Stat("/proc/thread-self/ns/net", &b)
	}
	return a.Dev == b.Dev && a.Ino == b.Ino, err
}

// File is a duplicate of the socket, to be handed over.
func (l *Listener) File() (*os.File, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	fd, err := unix.FcntlInt(uintptr(l.fd), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return nil, errors.Wrap(err, "cannot hand a listener over")
	}
	return os.NewFile(uintptr(fd), "listener"), nil
}

// Listens reports whether it takes connections. A zdb that has it too may end that.
func (l *Listener) Listens() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	accepts, err := unix.GetsockoptInt(l.fd, unix.SOL_SOCKET, unix.SO_ACCEPTCONN)
	return err == nil && accepts == 1
}

// Close closes this process' descriptor: a zdb that has the socket goes on.
func (l *Listener) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.fd >= 0 {
		_ = unix.Close(l.fd)
		l.fd = -1
	}
}

// End shuts the socket down for all processes that have it, and gives its port back.
func (l *Listener) End() {
	l.mu.Lock()
	_ = unix.Shutdown(l.fd, unix.SHUT_RDWR)
	l.mu.Unlock()
	l.Close()
}

// Among reports whether the listener is one of the sockets that a zdb has.
func (l *Listener) Among(theirs []*os.File) bool {
	for _, f := range theirs {
		other, err := adopt(f)
		if err != nil {
			continue
		}
		other.Close()
		if other.cookie == l.cookie {
			return true
		}
	}
	return false
}

// Find returns the listener of a port among the sockets that a zdb has; nil for none.
func Find(theirs []*os.File, port uint16) *Listener {
	for _, f := range theirs {
		if at, here := boundHere(f); !here || at.Port() != port {
			continue
		}
		if l, err := adopt(f); err == nil {
			return l
		}
	}
	return nil
}

// Everywhere reports whether an address to listen at is all of the machine's.
func Everywhere(a netip.Addr) bool { return !a.IsValid() || a.IsUnspecified() }
