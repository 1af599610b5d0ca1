package loop

import (
	"time"

	"github.com/croft-edge/croft/pkg/resp"
)

// Conn is a client's connection. It belongs to the loop's thread.
type Conn struct {
	// Out is what is to be sent. Handlers append to it, in Command, or before they
	// call Release.
	Out []byte
	// Admin says that it came over an admin's listener.
	Admin bool
	// State is the handler's.
	State any

	l      *Loop
	fd     int
	parser resp.Parser
	// in[at:] came and hasn't run: the beginning of a request, or requests that
	// wait for their turn.
	in []byte
	at int
	// sent is how much of Out the client has.
	sent int
	// charged is how much of both buffers is counted in the loop's sum.
	charged int
	// usual is how long Out was the last time.
	usual  int
	events uint32    // what epoll tells of it
	last   time.Time // when something came or went

	// source and group are whom it counts for, known and stranger what Standing says.
	source, group   *party
	known, stranger bool
	// begun is when the request began that isn't complete, stuck since when the
	// client takes nothing of what it is sent: zero when it isn't so.
	begun, stuck time.Time

	touched  bool // in this round's list
	later    bool // there are requests in in that may be complete
	unread   bool // its turn to be read from has yet to come
	queued   bool // in the list of those whose requests wait for their turn
	held     bool
	awaiting bool // said AwaitFlush in this round
	closing  bool // once Out is sent
	draining bool // the client was told, what it still sends is thrown away
	evicted  bool // had more than all may have
	eof      bool // the client sends no more
	dead     bool
	drained  int // bytes thrown away
}

// Now is when this round began.
func (c *Conn) Now() time.Time {
	if c.l == nil {
		return time.Now()
	}
	return c.l.now
}

// Traffic is how many bytes came from all clients, and went to them, so far.
func (c *Conn) Traffic() (received, sent uint64) {
	if c.l == nil {
		return 0, 0
	}
	return c.l.count.Received, c.l.count.Sent
}

// TickBy has Tick called by then, where that is sooner than the last one asked for.
func (c *Conn) TickBy(then time.Time) {
	if c.l != nil && then.Before(c.l.tick) {
		c.l.tick = then
	}
}

// AwaitFlush says that what this round replies to c holds only if Flush succeeds.
func (c *Conn) AwaitFlush() { c.awaiting = true }

// CloseAfter closes the connection once Out is sent; no further request runs.
func (c *Conn) CloseAfter() {
	c.closing = true
	if c.l != nil && !c.dead {
		c.l.touch(c)
	}
}

// Hold keeps further requests of this connection from running, until Release.
// When the client goes meanwhile, the connection is closed.
func (c *Conn) Hold() { c.held = true }

// Release lets requests run again and sends what was appended to Out. It does
// nothing when c isn't held, or is closed.
func (c *Conn) Release() {
	if !c.held || c.dead {
		return
	}
	c.held = false
	if c.l != nil {
		c.l.settle(c)
		c.l.touch(c)
		c.l.queue(c)
	}
}

func (c *Conn) unsent() int { return len(c.Out) - c.sent }

// stopped says that no further request of it runs for now.
func (c *Conn) stopped() bool { return c.held || c.closing || c.dead }

// slow says that the client takes its replies too slowly to be given more.
func (c *Conn) slow() bool { return c.unsent() > maxUnsent }
