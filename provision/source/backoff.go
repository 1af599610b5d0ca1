package source

import (
	"context"
	"math/rand/v2"
	"time"
)

// Backoff doubles a wait from Base to Max with the number of failures. Jitter
// keeps a fleet that lost its explorer from asking it again all at once.
type Backoff struct {
	Base time.Duration
	Max  time.Duration
}

// PollBackoff is the wait between polls that failed.
func PollBackoff() Backoff { return Backoff{Base: time.Second, Max: time.Minute} }

// Delay is how long to wait after that many failures in a row, from 1: half of
// it fixed, half by chance.
func (b Backoff) Delay(failures int) time.Duration {
	d := b.Base
	for i := 1; i < failures && d < b.Max; i++ {
		d *= 2
	}
	d = min(d, b.Max)
	if d <= 1 {
		return d
	}
	return d/2 + rand.N(d/2+1)
}

// wait returns after d, or false at once when ctx is done.
func wait(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
