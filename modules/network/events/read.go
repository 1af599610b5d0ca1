package events

import (
	"bytes"
	"encoding/binary"
	"os"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"
)

// mostMessage is more than the kernel puts into one datagram of notices.
const mostMessage = 64 << 10

// read handles a socket's messages until that fails.
func (l *Listener) read(socket *os.File, handle func(namespace int, m message)) error {
	raw, err := socket.SyscallConn()
	if err != nil {
		return errors.Wrap(err, "cannot listen for changes")
	}
	buf, control := make([]byte, mostMessage), make([]byte, unix.CmsgSpace(4)*4)
	for {
		var n, controls, flags int
		var failed error
		err := raw.Read(func(fd uintptr) bool {
			n, controls, flags, _, failed = unix.Recvmsg(int(fd), buf, control, 0)
			return !errors.Is(failed, unix.EAGAIN)
		})
		switch {
		case err != nil:
			return errors.Wrap(err, "cannot listen for changes")
		case errors.Is(failed, unix.EINTR):
			continue
		case errors.Is(failed, unix.ENOBUFS) || failed == nil && flags&unix.MSG_TRUNC != 0:
			// The socket's queue was full.
			l.cfg.Lost()
			l.cfg.Began()
			continue
		case failed != nil:
			return errors.Wrap(failed, "cannot read a change")
		}
		namespace := namespaceOf(control[:controls])
		for rest := buf[:n]; ; {
			var m message
			var ok bool
			if m, rest, ok = next(rest); !ok {
				break
			}
			handle(namespace, m)
		}
	}
}

// namespaceOf is the ID of the namespace that a message comes from.
func namespaceOf(control []byte) int {
	all, err := unix.ParseSocketControlMessage(control)
	if err != nil {
		return Own
	}
	for _, c := range all {
		if c.Header.Level == unix.SOL_NETLINK && c.Header.Type == unix.NETLINK_LISTEN_ALL_NSID && len(c.Data) >= 4 {
			return int(int32(binary.NativeEndian.Uint32(c.Data)))
		}
	}
	return Own
}

// message is one of a datagram's.
type message struct {
	kind uint16
	body []byte
}

// next takes the first message off a datagram.
func next(raw []byte) (m message, rest []byte, ok bool) {
	if len(raw) < unix.NLMSG_HDRLEN {
		return m, nil, false
	}
	size := int(binary.NativeEndian.Uint32(raw))
	if size < unix.NLMSG_HDRLEN || size > len(raw) {
		return m, nil, false
	}
	m = message{kind: binary.NativeEndian.Uint16(raw[4:]), body: raw[unix.NLMSG_HDRLEN:size]}
	return m, raw[min(align(size), len(raw)):], true
}

func align(n int) int { return (n + 3) &^ 3 }

// attribute is the value of a message's attribute; header is the size of what is before
// the attributes.
func (m message) attribute(header int, kind uint16) ([]byte, bool) {
	for raw := m.body[min(header, len(m.body)):]; len(raw) >= unix.SizeofRtAttr; {
		size := int(binary.NativeEndian.Uint16(raw))
		if size < unix.SizeofRtAttr || size > len(raw) {
			break
		}
		if binary.NativeEndian.Uint16(raw[2:])&^unix.NLA_F_NESTED == kind {
			return raw[unix.SizeofRtAttr:size], true
		}
		raw = raw[min(align(size), len(raw)):]
	}
	return nil, false
}

// number is a 32-bit number in the message's body.
func (m message) number(at int) (uint32, bool) {
	if len(m.body) < at+4 {
		return 0, false
	}
	return binary.NativeEndian.Uint32(m.body[at:]), true
}

// rule handles a notice of nftables.
func (l *Listener) rule(namespace int, _ message) {
	// Tables of the process's own namespace are of no network.
	if namespace != Own {
		l.cfg.Changed(Event{Namespace: namespace})
	}
}

// route handles a notice of links, addresses, routes, queueing disciplines and IDs.
func (l *Listener) route(namespace int, m message) {
	switch m.kind {
	case unix.RTM_NEWNSID:
	case unix.RTM_DELNSID:
		if id, ok := m.attribute(align(unix.SizeofRtGenmsg), unix.NETNSA_NSID); ok && len(id) >= 4 && namespace == Own {
			l.cfg.Changed(Event{Namespace: int(int32(binary.NativeEndian.Uint32(id))), Ended: true})
		}
	case unix.RTM_NEWLINK, unix.RTM_DELLINK:
		l.link(namespace, m)
	default:
		if namespace != Own {
			l.cfg.Changed(Event{Namespace: namespace})
			return
		}
		if name, watched := l.own[indexOf(m)]; watched {
			l.cfg.Changed(Event{Namespace: Own, Link: name})
		}
	}
}

// link handles a notice of a link.
func (l *Listener) link(namespace int, m message) {
	raw, _ := m.attribute(unix.SizeofIfInfomsg, unix.IFLA_IFNAME)
	name := string(bytes.TrimRight(raw, "\x00"))
	if namespace != Own {
		l.cfg.Changed(Event{Namespace: namespace, Link: name})
		return
	}
	index := indexOf(m)
	before, watched := l.own[index]
	delete(l.own, index)
	if l.cfg.Watched(name) {
		l.cfg.Changed(Event{Namespace: Own, Link: name})
		if m.kind == unix.RTM_NEWLINK {
			l.own[index] = name
		}
	}
	if watched && before != name {
		l.cfg.Changed(Event{Namespace: Own, Link: before}) // it was renamed
	}
}

// indexOf is the index of the link that a notice is about, 0 when it is about none.
func indexOf(m message) (index uint32) {
	switch m.kind {
	case unix.RTM_NEWROUTE, unix.RTM_DELROUTE:
		if raw, ok := m.attribute(unix.SizeofRtMsg, unix.RTA_OIF); ok && len(raw) >= 4 {
			index = binary.NativeEndian.Uint32(raw)
		}
	default: // struct ifinfomsg, ifaddrmsg and tcmsg have it in one place
		index, _ = m.number(4)
	}
	return index
}
