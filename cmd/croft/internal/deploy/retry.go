package deploy

import (
	"context"
	"time"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/pkg/explorer"
	"github.com/croft-edge/croft/pkg/node"
)

// How often and how long a call that may succeed later is tried again.
const (
	tries     = 5
	firstWait = 200 * time.Millisecond
	mostWait  = 5 * time.Second
)

// again calls f until it succeeds, fails for good, or has been tried enough.
// Every call that goes through it is idempotent at the explorer.
func again(ctx context.Context, f func() error) error {
	wait := firstWait
	for try := 1; ; try++ {
		err := f()
		if err == nil || try == tries || ctx.Err() != nil || !later(err) {
			return err
		}
		pause := wait
		var answer *explorer.AnswerError
		if errors.As(err, &answer) && answer.RetryAfter > 0 {
			pause = answer.RetryAfter
		}
		if !sleep(ctx, pause) {
			return err
		}
		wait = min(2*wait, mostWait)
	}
}

// later reports whether another try may help.
func later(err error) bool {
	switch node.KindOf(err) {
	case node.Transient, node.Busy, node.Unknown:
		return true
	}
	return false
}

// sleep waits; false when ctx ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
