package supervise

import (
	"context"
	"time"

	"github.com/pkg/errors"
	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/pkg/backoff"
	"github.com/croft-edge/croft/pkg/node"
)

// ErrEnded is returned to Keep by a function that has nothing left to do.
var ErrEnded = errors.New("it has nothing left to do")

// DefaultBackoff is the pause between two runs after a panic.
func DefaultBackoff() backoff.Backoff { return backoff.Backoff{Base: time.Second, Max: time.Minute} }

// Keep runs f until ctx is done, and again, after b, when it panics or returns
// before that, with or without an error. Each early end is logged, a panic with its
// stack. A run longer than b.Max resets the failures.
//
// Keep returns f's error once ctx is done; or nil when f returned ErrEnded,
// which isn't early. A ctx that is done before f first runs is no error.
func Keep(ctx context.Context, log zerolog.Logger, name string, b backoff.Backoff, f func(ctx context.Context) error) error {
	failures := 0
	for ctx.Err() == nil {
		began := time.Now()
		err := Catch(name, func() error { return f(ctx) })
		if errors.Is(err, ErrEnded) {
			return nil
		}
		if ctx.Err() != nil {
			logPanic(log, err)
			return err
		}
		if time.Since(began) > b.Max {
			failures = 0
		}
		failures++
		again := b.Delay(failures)
		logEarly(log.Error().Str("goroutine", name).Int("attempts", failures).Dur("again", again), err)
		timer := time.NewTimer(again)
		select {
		case <-ctx.Done():
			timer.Stop()
		case <-timer.C:
		}
	}
	return nil
}

// logEarly logs an early end.
func logEarly(event *zerolog.Event, err error) {
	if err == nil {
		err = node.Errorf(node.Internal, "it ended by itself")
	}
	if p := panicToLog(err); p != nil {
		event = event.Bytes("stack", p.Stack)
	}
	event.Err(err).Msg("ended too early: run again")
}
