package loop

import (
	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"
)

// maxUnsent is how much a client may leave unread before it is served no more.
const maxUnsent = 1 << 20

// writer sends replies, and decides which events a connection waits for.
type writer struct {
	rare   zerolog.Logger
	poller *poller
	round  *round
	agenda *agenda
	conns  *connections
	places *places
	pool   *buffers
}

// finish ends a round for c: its replies are sent, unless they depend on a flush
// that failed.
func (w *writer) finish(c *Conn, flushed bool) {
	if !flushed && c.life.awaiting {
		w.round.count.Unflushed++
		w.conns.drop(c)
	}
	c.life.awaiting = false
	if !c.life.dead {
		w.places.settle(c)
		w.transmit(c)
	}
}

// transmit sends c's replies, and sets the events that c waits for next.
func (w *writer) transmit(c *Conn) {
	if c.unsent() > 0 && !w.send(c) {
		return
	}
	if c.unsent() == 0 {
		w.emptied(c)
		if c.life.closing && !c.life.draining {
			w.sayNoMore(c)
		}
		if c.in.eof {
			w.conns.drop(c)
		}
	}
	if c.life.evicted && c.unsent() > 0 {
		w.conns.drop(c)
	}
	if c.life.dead {
		return
	}
	if c.schedule.later && !c.life.stopped() && !c.slow() {
		w.agenda.queue(c)
	}
	w.interest(c)
}

// send sends once. The rest is sent when the client has taken some.
func (w *writer) send(c *Conn) bool {
	n, errno := send(c.socket.fd, c.Out[c.reply.sent:])
	switch {
	case errno == unix.EAGAIN || errno == unix.EINTR:
		if c.reply.stuck.IsZero() {
			c.reply.stuck = w.round.now
		}
		return true
	case errno != 0:
		w.conns.drop(c)
		return false
	}
	c.socket.last, c.reply.stuck = w.round.now, w.round.now
	w.round.count.Sent += uint64(n)
	c.Out = c.reply.took(c.Out, n)
	return true
}

// emptied gives c's buffer for replies back.
func (w *writer) emptied(c *Conn) {
	if c.Out == nil {
		return
	}
	c.reply.done(len(c.Out))
	w.pool.put(c.Out)
	c.Out = nil
	w.places.settle(c)
}

// interest sets the events that c waits for.
func (w *writer) interest(c *Conn) {
	var want uint32
	if c.unsent() > 0 {
		want |= unix.EPOLLOUT
	}
	switch {
	case c.in.eof:
	case c.life.draining:
		want |= unix.EPOLLIN
	case c.life.closing || c.slow():
	case c.life.held:
		want |= unix.EPOLLRDHUP
	default:
		want |= unix.EPOLLIN
	}
	if want == c.socket.events {
		return
	}
	c.socket.events = want
	if err := w.poller.change(c.socket.fd, want); err != nil {
		w.rare.Error().Err(err).Msg("cannot wait for a connection: it is closed")
		w.conns.drop(c)
	}
}

// sayNoMore ends the connection's sending side. The client has a while to read the
// rest: if the socket were closed at once, input that still comes would have the
// kernel throw the reply away.
func (w *writer) sayNoMore(c *Conn) {
	if c.in.eof || unix.Shutdown(c.socket.fd, unix.SHUT_WR) != nil {
		w.conns.drop(c)
		return
	}
	c.life.draining = true
	if c.in.release(w.pool) {
		w.places.settle(c)
	}
}
