package source

import (
	"context"
	"time"

	"github.com/croft-edge/croft/pkg/backoff"
)

// Backoff doubles a wait with the number of failures.
type Backoff = backoff.Backoff

// PollBackoff is the wait between polls that failed.
func PollBackoff() Backoff { return Backoff{Base: time.Second, Max: time.Minute} }

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
