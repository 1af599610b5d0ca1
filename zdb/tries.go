package zdb

import (
	"slices"
	"time"

	"github.com/croft-edge/croft/pkg/limit"
)

// WrongPasswords is how many wrong passwords a source may give before it has to
// wait for each further try, right or wrong; Total is of how many sources that is
// remembered. A source's are forgotten with its last one being triesKept ago.
var WrongPasswords = limit.Limit{Name: "zdb-wrong-passwords", Per: "source", Each: 8, Total: 8192}

const (
	// triesPause is how long the first try beyond has to wait, each further one
	// twice as long, up to mostPause.
	triesPause = time.Second
	mostPause  = 16 * time.Second
	triesKept  = 10 * time.Minute
	// mostQueue is how long a try may have to wait for those before it; one that
	// would wait longer is refused.
	mostQueue = 30 * time.Second

	textTries = "Too many wrong passwords, try again later"
)

// tries are the wrong passwords of sources, over all their connections.
type tries struct {
	of    map[string]*source
	pause time.Duration
	// held are the sessions whose try waits, in the order of their times.
	held []*session
}

type source struct {
	wrong int64
	last  time.Time
	// next is when the next try may be.
	next time.Time
}

// heldTry is a try that waits.
type heldTry struct {
	at  time.Time
	run func()
}

// wrong counts a wrong password.
func (t *tries) wrong(from string, now time.Time) {
	if from == "" {
		return
	}
	s := t.of[from]
	if s == nil {
		if int64(len(t.of)) >= WrongPasswords.Total {
			t.forget(now)
		}
		s = &source{}
		t.of[from] = s
	}
	if now.Sub(s.last) >= triesKept {
		s.wrong = 0
	}
	s.wrong++
	s.last = now
}

// forget forgets what is long ago, and when that is nothing, the oldest one.
func (t *tries) forget(now time.Time) {
	oldest := ""
	for from, s := range t.of {
		if now.Sub(s.last) >= triesKept {
			delete(t.of, from)
		} else if oldest == "" || s.last.Before(t.of[oldest].last) {
			oldest = from
		}
	}
	if int64(len(t.of)) >= WrongPasswords.Total {
		WrongPasswords.Reached()
		delete(t.of, oldest)
	}
}

// wait is how long a source's next try has to wait; later ones wait for it too.
// It says false, and changes nothing, when that is too long.
func (t *tries) wait(from string, now time.Time) (time.Duration, bool) {
	s := t.of[from]
	if s == nil || s.wrong < WrongPasswords.Each || now.Sub(s.last) >= triesKept {
		return 0, true
	}
	WrongPasswords.Reached()
	at := s.last
	if s.next.After(at) {
		at = s.next
	}
	at = at.Add(min(t.pause<<min(s.wrong-WrongPasswords.Each, 16), mostPause))
	wait := at.Sub(now)
	if wait > mostQueue {
		return 0, false
	}
	s.next = at
	return wait, true
}

// try runs what looks at a password, at once or after a while, in which the
// connection is held. Who came over the admin's socket never waits.
func (s *Server) try(c *session, run func()) {
	if c.conn.Admin {
		run()
		return
	}
	now := s.now()
	wait, ok := s.tries.wait(c.conn.Source(), now)
	switch {
	case !ok:
		c.fail(textTries)
	case wait <= 0:
		run()
	default:
		c.held = &heldTry{at: now.Add(wait), run: run}
		i, _ := slices.BinarySearchFunc(s.tries.held, c, func(a, b *session) int { return a.held.at.Compare(b.held.at) })
		s.tries.held = slices.Insert(s.tries.held, i, c)
		c.conn.TickBy(c.held.at)
		c.conn.Hold()
	}
}

// tryAgain runs the tries whose time has come, and says when the next one's will
// be: the zero time when there is none.
func (s *Server) tryAgain(now time.Time) time.Time {
	for len(s.tries.held) > 0 {
		c := s.tries.held[0]
		if c.held.at.After(now) {
			return c.held.at
		}
		run := c.held.run
		s.endTry(c)
		if c.ns.gone {
			c.fail(textRemoved)
			c.conn.CloseAfter()
		} else {
			run()
		}
		c.conn.Release()
	}
	return time.Time{}
}

// endTry takes c's try off those that wait.
func (s *Server) endTry(c *session) {
	if c.held != nil {
		s.tries.held = without(s.tries.held, c)
		c.held = nil
	}
}
