package transport

import (
	"context"
	"time"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/pkg/backoff"
)

// Backoff spaces attempts at a failing operation, with jitter.
type Backoff struct {
	failures int
	failed   bool
}

// NewBackoff makes one without failures.
func NewBackoff() *Backoff { return &Backoff{} }

// First reports whether this is the first failure in a row, which is logged.
func (b *Backoff) First() bool {
	was := b.failed
	b.failed = true
	return !was
}

// Next is the next pause: 10 ms at first, doubled up to 2 s, half of it random.
func (b *Backoff) Next() time.Duration {
	b.failed = true
	b.failures++
	return backoff.Backoff{Base: 10 * time.Millisecond, Max: 2 * time.Second}.Delay(b.failures)
}

// Reset records a success.
func (b *Backoff) Reset() { *b = Backoff{} }

// Pause waits for d, or for ctx.
func Pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return errors.Wrapf(ctx.Err(), "cannot wait %s", d)
	}
}
