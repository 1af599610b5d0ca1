package loop

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/pkg/resp"
)

const (
	// drainTime is how long a client that was told why it is closed has to read
	// it, drainSize how much it may send meanwhile: were it closed at once, what it
	// sends would have the kernel throw the reply away.
	drainTime = time.Second
	drainSize = 64 << 20
	// errFull is the last that a connection hears whose request is too much for
	// what all may hold.
	errFull = "Server has too many requests pending"
)

// finish ends a round: what was written is flushed, then the replies are sent.
func (l *Loop) finish() {
	err := l.config.Handler.Flush()
	if err != nil {
		l.rare.Error().Err(err).Msg("what clients wrote cannot be acknowledged: they are closed")
	}
	for i := 0; i < len(l.touched); i++ {
		c := l.touched[i]
		l.touched[i] = nil
		c.touched = false
		if err != nil && c.awaiting {
			l.count.Unflushed++
			l.drop(c)
		}
		c.awaiting = false
		if !c.dead {
			l.settle(c)
			l.transmit(c)
		}
	}
	l.touched = l.touched[:0]
}

// transmit sends what there is for c, and finds out what c waits for next.
func (l *Loop) transmit(c *Conn) {
	if c.unsent() > 0 && !l.send(c) {
		return
	}
	if c.unsent() == 0 {
		l.emptied(c)
		if c.closing && !c.draining {
			l.sayNoMore(c)
		}
		if c.eof {
			l.drop(c)
		}
	}
	if c.evicted && c.unsent() > 0 {
		l.drop(c)
	}
	if c.dead {
		return
	}
	if c.later && !c.stopped() && !c.slow() {
		l.queue(c)
	}
	l.interest(c)
}

// send sends once. What doesn't go is sent when the client has taken some.
func (l *Loop) send(c *Conn) bool {
	n, errno := send(c.fd, c.Out[c.sent:])
	switch {
	case errno == unix.EAGAIN || errno == unix.EINTR:
		if c.stuck.IsZero() {
			c.stuck = l.now
		}
		return true
	case errno != 0:
		l.drop(c)
		return false
	}
	c.last, c.stuck = l.now, l.now
	c.sent += n
	l.count.Sent += uint64(n)
	if left := c.unsent(); left > 0 && c.sent >= left {
		c.Out = c.Out[:copy(c.Out, c.Out[c.sent:])]
		c.sent = 0
	}
	return true
}

// emptied gives c's buffer for replies back.
func (l *Loop) emptied(c *Conn) {
	if c.Out == nil {
		return
	}
	// What a client usually gets fits into what it is given next.
	c.usual = max(len(c.Out), c.usual-c.usual/8)
	l.pool.put(c.Out)
	c.Out, c.sent, c.stuck = nil, 0, time.Time{}
	l.settle(c)
}

// interest tells epoll what c waits for.
func (l *Loop) interest(c *Conn) {
	var want uint32
	if c.unsent() > 0 {
		want |= unix.EPOLLOUT
	}
	switch {
	case c.eof:
	case c.draining:
		want |= unix.EPOLLIN
	case c.closing || c.slow():
	case c.held:
		want |= unix.EPOLLRDHUP
	default:
		want |= unix.EPOLLIN
	}
	if want == c.events {
		return
	}
	c.events = want
	if err := watch(l.epoll, unix.EPOLL_CTL_MOD, c.fd, want); err != nil {
		l.rare.Error().Err(err).Msg("cannot wait for a connection: it is closed")
		l.drop(c)
	}
}

// sayNoMore tells the client that nothing more comes, and waits a little until it
// goes.
func (l *Loop) sayNoMore(c *Conn) {
	if c.eof || unix.Shutdown(c.fd, unix.SHUT_WR) != nil {
		l.drop(c)
		return
	}
	c.draining = true
	l.draining++
	l.release(c)
}

func (l *Loop) drain(c *Conn) {
	n, errno := recv(c.fd, l.shared)
	if errno == unix.EAGAIN || errno == unix.EINTR {
		return
	}
	if c.drained += n; errno != 0 || n == 0 || c.drained > drainSize {
		l.drop(c)
	}
}

// settle counts what c's buffers take. When all together take too much, whoever
// has the most goes.
func (l *Loop) settle(c *Conn) {
	size := cap(c.in) + cap(c.Out)
	if size == c.charged || c.dead || c.evicted {
		return
	}
	l.charge(c, size)
	l.fit(c)
}

// evict closes a connection whose buffers are too large. They may be in use now:
// it goes when the round ends.
func (l *Loop) evict(most *Conn) {
	l.count.Evicted++
	l.charge(most, 0)
	most.evicted = true
	if most.unsent() > 0 || most.draining {
		// Instead of the replies of what has run, an error would be wrong.
		l.drop(most)
		return
	}
	most.Out = resp.AppendError(most.Out, errFull)
	most.CloseAfter()
}

// drop closes a connection, when the round ends.
func (l *Loop) drop(c *Conn) {
	if c.dead {
		return
	}
	c.dead = true
	l.gone = append(l.gone, c)
	l.depart(c)
}

// reap closes what was dropped: its descriptor isn't used again within a round.
func (l *Loop) reap() {
	for i := 0; i < len(l.gone); i++ {
		c := l.gone[i]
		l.gone[i] = nil
		if c.draining {
			l.draining--
		}
		l.conns[c.fd] = nil
		l.connections--
		_ = unix.Close(c.fd)
		l.config.Handler.Closed(c)
		l.pool.put(c.in)
		l.pool.put(c.Out)
		c.in, c.Out = nil, nil
	}
	l.gone = l.gone[:0]
}
