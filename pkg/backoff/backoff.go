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

// Around is a wait between 80 % and 120 % of d, for periodic work.
func Around(d time.Duration) time.Duration {
	if d < 5 {
		return d
	}
	return d - d/5 + rand.N(2*(d/5)+1)
}
