// Package throttle slows down guessing of passwords: it remembers the wrong passwords of
// each source and delays the source's further attempts. It waits for nothing itself.
package throttle

import (
	"time"

	"github.com/croft-edge/croft/pkg/limit"
)

// WrongPasswords is how many wrong passwords a source may give before each further
// attempt, right or wrong, is delayed; Total is how many sources are remembered. A
// source is forgotten 10 minutes after its last wrong password.
var WrongPasswords = limit.Limit{Name: "zdb-wrong-passwords", Per: "source", Each: 8, Total: 8192}

const (
	// firstPause is the delay of the first attempt beyond the limit. Each further one
	// is delayed twice as long, up to lastPause.
	firstPause = time.Second
	lastPause  = 16 * time.Second
	// kept is how long a source's wrong passwords are remembered.
	kept = 10 * time.Minute
	// longestQueue is how long an attempt may wait for those before it; one that
	// would wait longer is refused.
	longestQueue = 30 * time.Second
)

// Attempts remembers the wrong passwords of sources, over all their connections. New
// makes one; it isn't safe for concurrent use.
type Attempts struct {
	// Pause is the first delay.
	Pause   time.Duration
	sources map[string]*source
}

// New makes an empty memory.
func New() *Attempts { return &Attempts{Pause: firstPause, sources: map[string]*source{}} }

type source struct {
	wrong int64
	last  time.Time
	// next is the time of the last delayed attempt.
	next time.Time
}

// Wrong counts a wrong password of a source; "" has none.
func (a *Attempts) Wrong(from string, now time.Time) {
	if from == "" {
		return
	}
	s := a.sources[from]
	if s == nil {
		if int64(len(a.sources)) >= WrongPasswords.Total {
			a.forget(now)
		}
		s = &source{}
		a.sources[from] = s
	}
	if now.Sub(s.last) >= kept {
		s.wrong = 0
	}
	s.wrong++
	s.last = now
}

// forget forgets old sources; if there are none, the oldest one.
func (a *Attempts) forget(now time.Time) {
	oldest := ""
	for from, s := range a.sources {
		if now.Sub(s.last) >= kept {
			delete(a.sources, from)
		} else if oldest == "" || s.last.Before(a.sources[oldest].last) {
			oldest = from
		}
	}
	if int64(len(a.sources)) >= WrongPasswords.Total {
		WrongPasswords.Reached()
		delete(a.sources, oldest)
	}
}

// Wait is the delay of a source's next attempt; later ones wait for it too. It returns
// false, and changes nothing, when the delay is too long.
func (a *Attempts) Wait(from string, now time.Time) (time.Duration, bool) {
	s := a.sources[from]
	if s == nil || s.wrong < WrongPasswords.Each || now.Sub(s.last) >= kept {
		return 0, true
	}
	WrongPasswords.Reached()
	at := s.last
	if s.next.After(at) {
		at = s.next
	}
	at = at.Add(min(a.Pause<<min(s.wrong-WrongPasswords.Each, 16), lastPause))
	wait := at.Sub(now)
	if wait > longestQueue {
		return 0, false
	}
	s.next = at
	return wait, true
}
