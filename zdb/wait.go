package zdb

import (
	"slices"
	"time"
)

// Bounds of WAIT, in milliseconds.
const (
	waitDefault = 5000
	leastWait   = 100
	mostWait    = 30 * 60 * 1000
)

// waits are the sessions in WAIT.
type waits struct {
	find     func(name []byte) *command
	sessions []*session
}

// wait is a session's pending WAIT.
type wait struct {
	command *command // nil for any
	until   time.Time
}

// hold is WAIT: it holds the connection until another one runs a command in the same
// namespace.
func (w *waits) hold(c *session, args [][]byte) {
	if len(args) != 2 && len(args) != 3 {
		c.fail("Invalid arguments")
		return
	}
	cmd := w.find(args[1])
	if cmd == nil || len(args[1]) == 0 {
		c.fail("Unknown command to watch")
		return
	}
	timeout := int64(waitDefault)
	if len(args) == 3 {
		timeout = number(args[2])
		if len(args[2]) > 16 || timeout < leastWait || timeout > mostWait {
			c.fail("Invalid timeout")
			return
		}
	}
	if cmd.name == "*" {
		cmd = nil
	}
	c.waiting = &wait{command: cmd, until: c.conn.Now().Add(time.Duration(timeout) * time.Millisecond)}
	c.ns.waiting = append(c.ns.waiting, c)
	w.sessions = append(w.sessions, c)
	c.conn.TickBy(c.waiting.until)
	c.conn.Hold()
}

// wake answers the sessions that wait for cmd in the namespace where by just ran it.
func (w *waits) wake(by *session, cmd *command) {
	ns := by.ns
	for i := 0; i < len(ns.waiting); {
		c := ns.waiting[i]
		if c == by || c.waiting.command != nil && c.waiting.command != cmd {
			i++
			continue
		}
		w.end(c)
		if ns.care.unflushed { // the command may be undone
			c.conn.AwaitFlush()
		}
		c.conn.Out = append(c.conn.Out, cmd.reply...)
		c.conn.Release()
	}
}

// end takes c off the waiting sessions.
func (w *waits) end(c *session) {
	if c.waiting == nil {
		return
	}
	c.waiting = nil
	c.ns.waiting = without(c.ns.waiting, c)
	w.sessions = without(w.sessions, c)
}

// disband answers the sessions that wait in a removed namespace, and closes them.
func (w *waits) disband(ns *namespace) {
	for len(ns.waiting) > 0 {
		c := ns.waiting[0]
		w.end(c)
		c.fail(textRemoved)
		c.conn.CloseAfter()
		c.conn.Release()
	}
}

// expire answers the sessions whose time is over. It returns when the next one's is:
// the zero time when none is left.
func (w *waits) expire(now time.Time) (next time.Time) {
	for i := 0; i < len(w.sessions); {
		c := w.sessions[i]
		if until := c.waiting.until; until.After(now) {
			if next.IsZero() || until.Before(next) {
				next = until
			}
			i++
			continue
		}
		w.end(c)
		c.fail("Timeout")
		c.conn.Release()
	}
	return next
}

func without(list []*session, c *session) []*session {
	if i := slices.Index(list, c); i >= 0 {
		return slices.Delete(list, i, i+1)
	}
	return list
}
