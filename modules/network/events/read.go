package events

import (
	"bytes"
	"encoding/binary"
	"syscall"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"
)

// mostMessage is more than the kernel puts into one datagram of notices.
const mostMessage = 64 << 10

// socket is one of a Listener's.
type socket struct {
	raw    syscall.RawConn
	handle func(namespace int, m message)
}

// read handles a socket's messages until that fails.
func (l *Listener) read(s socket) error {
	for {
		var failed error
		err := s.raw.Read(func(fd uintptr) (some bool) {
			some, failed = l.receive(s, int(fd))
			return some || failed != nil
		})
		if err == nil {
			err = failed
		}
		if err != nil {
			return errors.Wrap(err, "cannot listen for changes")
		}
	}
}

// receive handles the next datagram of a socket; some is false when none waits.
func (l *Listener) receive(s socket, fd int) (some bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n, controls, flags, _, err := unix.Recvmsg(fd, l.buf, l.control, unix.MSG_DONTWAIT)
	switch {
	case errors.Is(err, unix.EAGAIN):
		return false, nil
	case errors.Is(err, unix.EINTR):
		return true, nil
	case errors.Is(err, unix.ENOBUFS) || err == nil && flags&unix.MSG_TRUNC != 0:
		return true, l.overrun(fd)
	case err != nil:
		return false, err
	}
	namespace := namespaceOf(l.control[:controls])
	for rest := l.buf[:n]; ; {
		var m message
		var ok bool
		if m, rest, ok = next(rest); !ok {
			return true, nil
		}
		s.handle(namespace, m)
	}
}

// overrun begins anew after a socket's queue was full. The links that the lost notices told of are learnt; what still waits in
// the queue is older than that, and dropped.
func (l *Listener) overrun(fd int) error {
	l.cfg.Lost()
	for range mostPending {
		if _, _, _, _, err := unix.Recvmsg(fd, l.buf, nil, unix.MSG_DONTWAIT); errors.Is(err, unix.EAGAIN) {
			break
		}
	}
	if err := l.learn(); err != nil {
		if l.abort != nil { // else listen has ended
			l.abort(err)
		}
		return err
	}
	l.cfg.Began()
	return nil
}

// mostPending bounds what CatchUp handles: somebody may change things faster.
const mostPending = 10000

// CatchUp handles what the kernel has told until now. The kernel tells a change before it
// reports its success: so whatever has happened before the call was handled after it.
func (l *Listener) CatchUp() {
	l.mu.Lock()
	sockets := l.sockets
	l.mu.Unlock()
	for _, s := range sockets {
		_ = s.raw.Control(func(fd uintptr) {
			for range mostPending {
				if some, err := l.receive(s, int(fd)); !some || err != nil {
					return // read fails, too
				}
			}
		})
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
		if name := l.own[indexOf(m)]; name != "" && l.cfg.Watched(name) {
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
	before := l.own[index]
	switch {
	case len(m.body) > 0 && m.body[0] != unix.AF_UNSPEC: // of its place in a bridge: the link stays
	case m.kind == unix.RTM_DELLINK:
		delete(l.own, index)
	default:
		l.own[index] = name
	}
	if l.cfg.Watched(name) {
		l.cfg.Changed(Event{Namespace: Own, Link: name})
	}
	if before != "" && before != name && l.cfg.Watched(before) {
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
