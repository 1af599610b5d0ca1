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

// waitFor holds the connection until another one runs a command in the same
// namespace.
func (s *Server) waitFor(c *session, args [][]byte) {
	if len(args) != 2 && len(args) != 3 {
		c.fail("Invalid arguments")
		return
	}
	cmd := s.table.find(args[1])
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
	s.waiting = append(s.waiting, c)
	c.conn.TickBy(c.waiting.until)
	c.conn.Hold()
}

// wake answers those that wait for cmd in the namespace where by just ran it.
func (s *Server) wake(by *session, cmd *command) {
	ns := by.ns
	for i := 0; i < len(ns.waiting); {
		c := ns.waiting[i]
		if c == by || c.waiting.command != nil && c.waiting.command != cmd {
			i++
			continue
		}
		s.endWait(c)
		if ns.wrote { // what it hears of may be undone
			c.conn.AwaitFlush()
		}
		c.conn.Out = append(c.conn.Out, cmd.reply...)
		c.conn.Release()
	}
}

// endWait takes c off those that wait.
func (s *Server) endWait(c *session) {
	if c.waiting == nil {
		return
	}
	c.waiting = nil
	c.ns.waiting = without(c.ns.waiting, c)
	s.waiting = without(s.waiting, c)
}

func without(list []*session, c *session) []*session {
	if i := slices.Index(list, c); i >= 0 {
		return slices.Delete(list, i, i+1)
	}
	return list
}

// expire answers those whose time is over, and says when the next one's will be:
// the zero time when none is left.
func (s *Server) expire(now time.Time) (next time.Time) {
	for i := 0; i < len(s.waiting); {
		c := s.waiting[i]
		if until := c.waiting.until; until.After(now) {
			if next.IsZero() || until.Before(next) {
				next = until
			}
			i++
			continue
		}
		s.endWait(c)
		c.fail("Timeout")
		c.conn.Release()
	}
	return next
}
