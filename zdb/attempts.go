package zdb

import (
	"slices"
	"time"

	"github.com/croft-edge/croft/zdb/throttle"
)

const textTries = "Too many wrong passwords, try again later"

// attempts runs checks of passwords, and holds the connections whose check is
// delayed.
type attempts struct {
	sources *throttle.Attempts
	now     func() time.Time
	// held are the sessions whose check is delayed, by time.
	held []*session
}

// attempt is a delayed check.
type attempt struct {
	at    time.Time
	check func()
}

// try runs a check of a password, at once or after a delay in which the connection
// is held. Connections of the admin's socket are never delayed.
func (a *attempts) try(c *session, check func()) {
	if c.conn.Admin {
		check()
		return
	}
	now := a.now()
	delay, ok := a.sources.Wait(c.conn.Source(), now)
	switch {
	case !ok:
		c.fail(textTries)
	case delay <= 0:
		check()
	default:
		c.held = &attempt{at: now.Add(delay), check: check}
		i, _ := slices.BinarySearchFunc(a.held, c, func(a, b *session) int { return a.held.at.Compare(b.held.at) })
		a.held = slices.Insert(a.held, i, c)
		c.conn.TickBy(c.held.at)
		c.conn.Hold()
	}
}

// wrong counts a wrong password of c.
func (a *attempts) wrong(c *session) {
	c.wrong++
	if !c.conn.Admin {
		a.sources.Wrong(c.conn.Source(), a.now())
	}
}

// resume runs the delayed checks whose time has come. It returns the time of the next
// one: the zero time when there is none.
func (a *attempts) resume(now time.Time) time.Time {
	for len(a.held) > 0 {
		c := a.held[0]
		if c.held.at.After(now) {
			return c.held.at
		}
		check := c.held.check
		a.end(c)
		if c.ns.gone {
			c.fail(textRemoved)
			c.conn.CloseAfter()
		} else {
			check()
		}
		c.conn.Release()
	}
	return time.Time{}
}

// end forgets c's delayed check.
func (a *attempts) end(c *session) {
	if c.held != nil {
		a.held = without(a.held, c)
		c.held = nil
	}
}
