package dns

import (
	"net"
	"os"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/pkg/netns"
	"github.com/croft-edge/croft/pkg/node"
)

// port is the port that members send queries to.
const port = 53

// sockets are the sockets of one namespace.
type sockets struct {
	// inode is the inode of their namespace.
	inode uint64
	udp   []*net.UDPConn
	tcp   []net.Listener
}

// listen makes the sockets of a namespace: UDP and TCP, IPv4 and IPv6. They
// are made by system calls: package net probes the kernel's abilities once a process,
// and would keep the results of a namespace whose loopback is down.
func listen(namespace string) (*sockets, error) {
	var made []int
	var here unix.Stat_t
	err := netns.Do(namespace, func() error {
		if err := unix.Stat("/proc/thread-self/ns/net", &here); err != nil {
			return errors.Wrap(err, "cannot look at the namespace")
		}
		for _, family := range []int{unix.AF_INET, unix.AF_INET6} {
			for _, kind := range []int{unix.SOCK_DGRAM, unix.SOCK_STREAM} {
				fd, err := socket(family, kind)
				if errors.Is(err, unix.EAFNOSUPPORT) && family == unix.AF_INET6 {
					continue // a kernel without IPv6
				}
				if err != nil {
					return err
				}
				made = append(made, fd)
			}
		}
		return nil
	})
	if err != nil {
		for _, fd := range made {
			_ = unix.Close(fd) // nothing was sent on it
		}
		return nil, failedListen(namespace, err)
	}
	return adopt(here.Ino, made)
}

func failedListen(namespace string, err error) error {
	kind := node.Internal
	switch {
	case errors.Is(err, unix.EADDRINUSE):
		kind = node.Busy
	case errors.Is(err, unix.EMFILE), errors.Is(err, unix.ENFILE), errors.Is(err, unix.ENOBUFS), errors.Is(err, unix.ENOMEM):
		kind = node.Transient
	case errors.Is(err, node.NotExist):
		kind = node.NotExist
	}
	return node.Errorf(kind, "cannot listen on port %d in network namespace %s: %w", port, namespace, err)
}

// socket makes one, bound to the wildcard address of its family.
func socket(family, kind int) (int, error) {
	fd, err := unix.Socket(family, kind|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return -1, errors.Wrap(err, "cannot make a socket")
	}
	if err := prepare(fd, family, kind); err != nil {
		_ = unix.Close(fd) // nothing was sent on it
		return -1, err
	}
	return fd, nil
}

func prepare(fd, family, kind int) error {
	options := [][2]int{}
	var addr unix.Sockaddr = &unix.SockaddrInet4{Port: port}
	if family == unix.AF_INET6 {
		addr = &unix.SockaddrInet6{Port: port}
		options = append(options, [2]int{unix.IPPROTO_IPV6, unix.IPV6_V6ONLY})
	}
	switch {
	case kind == unix.SOCK_STREAM:
		// Connections of the last listener may linger.
		options = append(options, [2]int{unix.SOL_SOCKET, unix.SO_REUSEADDR})
	case family == unix.AF_INET6:
		options = append(options, [2]int{unix.IPPROTO_IPV6, unix.IPV6_RECVPKTINFO})
	default:
		// Says which address was asked: the answer leaves from there.
		options = append(options, [2]int{unix.IPPROTO_IP, unix.IP_PKTINFO})
	}
	for _, o := range options {
		if err := unix.SetsockoptInt(fd, o[0], o[1], 1); err != nil {
			return errors.Wrap(err, "cannot prepare a socket")
		}
	}
	if err := unix.Bind(fd, addr); err != nil {
		return errors.Wrap(err, "cannot bind a socket")
	}
	if kind == unix.SOCK_STREAM {
		return errors.Wrap(unix.Listen(fd, 128), "cannot listen on a socket")
	}
	return nil
}

// adopt gives bound sockets to package net. It takes them over, also when it fails.
func adopt(inode uint64, fds []int) (*sockets, error) {
	out := &sockets{inode: inode}
	var first error
	for _, fd := range fds {
		if err := out.add(fd); err != nil && first == nil {
			first = err
		}
	}
	if first != nil {
		out.close()
		return nil, node.Errorf(node.Transient, "cannot use a socket: %w", first)
	}
	return out, nil
}

func (s *sockets) add(fd int) error {
	file := os.NewFile(uintptr(fd), "dns")
	defer file.Close() // package net has a copy of its own
	kind, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TYPE)
	if err != nil {
		return err
	}
	if kind == unix.SOCK_STREAM {
		l, err := net.FileListener(file)
		if err == nil {
			s.tcp = append(s.tcp, l)
		}
		return err
	}
	conn, err := net.FilePacketConn(file)
	if err != nil {
		return err
	}
	udp, ok := conn.(*net.UDPConn)
	if !ok {
		conn.Close()
		return errors.Errorf("it is a %T", conn)
	}
	s.udp = append(s.udp, udp)
	return nil
}

func (s *sockets) close() {
	for _, c := range s.udp {
		c.Close()
	}
	for _, l := range s.tcp {
		l.Close()
	}
}
