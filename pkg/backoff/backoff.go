// Package backoff spaces repeated attempts and periodic work, with jitter: a fleet that
// failed at once, or was started at once, doesn't come back at once. It owns nothing.
package backoff

import (
	"math/rand/v2"
	"time"
)

// Backoff is a wait that doubles from Base to Max with the number of failures.
type Backoff struct {
	Base time.Duration
	Max  time.Duration
	// Chance is the source of jitter, for one goroutine alone; nil is the process's. A
	// simulation sets its own, so that its seed decides everything.
	Chance *rand.Rand
}

// Delay is the wait after that many failures in a row, from 1: half of it fixed, half
// by chance.
func (b Backoff) Delay(failures int) time.Duration {
	d := b.Base
	for i := 1; i < failures && d < b.Max; i++ {
		d *= 2
	}
	d = min(d, b.Max)
	if d <= 1 {
		return d
	}
	if b.Chance != nil {
		return d/2 + time.Duration(b.Chance.Int64N(int64(d/2+1)))
	}
	return d/2 + rand.N(d/2+1)
}

// started is the zero of the grid that Together puts the ends of waits on.
var started = time.Now()

// Together is a wait of d or a little less, for periodic work inside a process: the waits of all its parts end at the same moments. These are
// the whole seconds since the process started, for a d from 8 s on each second of them, from 16 s on each fourth, and so on. An idle
// processor pays for being woken, often more than for the look at a counter or a file that it is woken for, and so pays once for all of them.
// The wait is longer than 3/4 of d, or than d less a second where that is shorter; a d below a second is left as it is.
func Together(d time.Duration) time.Duration { return together(time.Since(started), d) }

// EndTogether is the end of such a wait that begins at from.
func EndTogether(from time.Time, d time.Duration) time.Time {
	return from.Add(together(from.Sub(started), d))
}

func together(now, d time.Duration) time.Duration {
	grid := time.Second
	if d < grid {
		return d
	}
	for grid <= d/8 {
		grid *= 2
	}
	over := (now + d) % grid
	if over < 0 { // a test's clock may be behind
		over += grid
	}
	return d - over
}

// Around is a wait between 80 % and 120 % of d, for periodic work.
func Around(d time.Duration) time.Duration {
	if d < 5 {
		return d
	}
	return d - d/5 + rand.N(2*(d/5)+1)
}
