package loop

import (
	"time"

	"github.com/croft-edge/croft/pkg/resp"
)

// Conn is a client's connection. It belongs to the loop's thread. The zero value is
// a connection without a socket, for tests of handlers.
type Conn struct {
	// Out is the bytes to send. Handlers append to it, in Command, or before they call
	// Release.
	Out []byte
	// Admin is true for a connection that came over an admin's listener.
	Admin bool
	// State is the handler's.
	State any

	// The loop's parts that a handler reaches through a connection; nil without a loop.
	round  *round
	agenda *agenda
	places *places

	socket   socket
	in       input
	reply    reply
	member   member
	schedule schedule
	life     life
}

// socket is a connection's end in the kernel.
type socket struct {
	fd     int
	events uint32    // the events that the poller watches for
	last   time.Time // of the last byte received or sent
}

// input holds a client's requests that haven't run yet.
type input struct {
	parser resp.Parser
	// buf[at:] is the beginning of a request, or requests that wait for their turn.
	buf   []byte
	at    int
	begun time.Time // when the incomplete request began
	eof   bool      // the client sends no more
}

func (in *input) pending() []byte { return in.buf[in.at:] }

// used forgets n bytes that have run. It reports whether nothing is left.
func (in *input) used(n int, now time.Time) (empty bool) {
	if in.at += n; n > 0 {
		in.begun = now
	}
	return in.at == len(in.buf)
}

// reserve makes room for n bytes of requests. It reports whether the buffer may
// have another size now.
func (in *input) reserve(pool *buffers, n int) bool {
	if cap(in.buf)-in.at >= n && (in.at == 0 || len(in.buf) != in.at) {
		return false
	}
	if cap(in.buf) >= n {
		in.buf = in.buf[:copy(in.buf[:cap(in.buf)], in.buf[in.at:])]
	} else {
		grown := append(pool.get(n), in.buf[in.at:]...)
		pool.put(in.buf)
		in.buf = grown
	}
	in.at = 0
	return true
}

// release gives the buffer back. It reports whether there was one.
func (in *input) release(pool *buffers) bool {
	if in.buf == nil {
		return false
	}
	pool.put(in.buf)
	in.buf, in.at = nil, 0
	return true
}

// reply is how far Out has been sent.
type reply struct {
	sent  int       // bytes of Out that the client has
	usual int       // length of earlier replies, for the next buffer's size
	stuck time.Time // since when the client takes nothing; zero when it isn't so
}

// took counts n sent bytes of out, and returns the buffer, shortened if that pays.
func (r *reply) took(out []byte, n int) []byte {
	r.sent += n
	if left := len(out) - r.sent; left > 0 && r.sent >= left {
		out = out[:copy(out, out[r.sent:])]
		r.sent = 0
	}
	return out
}

// done forgets a reply of that length, all of which was sent.
func (r *reply) done(length int) {
	// A usual reply fits into the next buffer.
	r.usual = max(length, r.usual-r.usual/8)
	r.sent, r.stuck = 0, time.Time{}
}

// life has the states in which a connection runs no requests, up to its end.
type life struct {
	held     bool // between Hold and Release
	awaiting bool // called AwaitFlush in this round
	closing  bool // closes once Out is sent
	draining bool // was told of its end; input is thrown away
	evicted  bool // its buffers were too large for the limits
	dead     bool // closes when the round ends
	drained  int  // bytes thrown away
}

// stopped reports whether no further request runs for now.
func (l *life) stopped() bool { return l.held || l.closing || l.dead }

// Now is the time when this round began.
func (c *Conn) Now() time.Time {
	if c.round == nil {
		return time.Now()
	}
	return c.round.now
}

// Traffic is how many bytes came from all clients, and went to them, so far.
func (c *Conn) Traffic() (received, sent uint64) {
	if c.round == nil {
		return 0, 0
	}
	return c.round.count.Received, c.round.count.Sent
}

// TickBy has Tick called by then, if that is sooner than the last Tick asked for.
func (c *Conn) TickBy(then time.Time) {
	if c.round != nil && then.Before(c.round.tick) {
		c.round.tick = then
	}
}

// AwaitFlush makes this round's reply to c depend on Flush: it is sent only if that
// succeeds.
func (c *Conn) AwaitFlush() { c.life.awaiting = true }

// CloseAfter closes the connection once Out is sent; no further request runs.
func (c *Conn) CloseAfter() {
	c.life.closing = true
	if c.agenda != nil && !c.life.dead {
		c.agenda.touch(c)
	}
}

// Hold keeps further requests of this connection from running, until Release.
// When the client goes meanwhile, the connection is closed.
func (c *Conn) Hold() { c.life.held = true }

// Release lets requests run again and sends Out. It does nothing when c isn't held,
// or is closed.
func (c *Conn) Release() {
	if !c.life.held || c.life.dead {
		return
	}
	c.life.held = false
	if c.agenda != nil {
		c.places.settle(c)
		c.agenda.touch(c)
		c.agenda.queue(c)
	}
}

// size is the bytes of its buffers.
func (c *Conn) size() int { return cap(c.in.buf) + cap(c.Out) }

func (c *Conn) unsent() int { return len(c.Out) - c.reply.sent }

// slow reports whether the client takes its replies too slowly to be served on.
func (c *Conn) slow() bool { return c.unsent() > maxUnsent }
