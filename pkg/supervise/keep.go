package supervise

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/pkg/node"
)

// ErrEnded is returned to Keep by a function that has nothing left to do.
var ErrEnded = errors.New("it has nothing left to do")

// Backoff doubles a wait from Base to Max with the number of failures. Jitter
// keeps a fleet that failed at once from coming back at once.
type Backoff struct {
	Base time.Duration
	Max  time.Duration
	// Chance is what jitter is drawn from, for one goroutine alone; nil is the
	// process's. A simulation gives its own, so that its seed decides everything.
	Chance *rand.Rand
}

// DefaultBackoff is between two runs of what ended by a panic.
func DefaultBackoff() Backoff { return Backoff{Base: time.Second, Max: time.Minute} }

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
	if b.Chance != nil {
		return d/2 + time.Duration(b.Chance.Int64N(int64(d/2+1)))
	}
	return d/2 + rand.N(d/2+1)
}

// Keep runs f until ctx is done, and again, after b, when it panics or returns
// before that, with or without an error. Each end that is too early is logged,
// a panic with its stack. What ran for longer than b.Max counts as well again.
//
// Keep returns what f returned once ctx is done; or nil when f returned
// ErrEnded, which isn't too early. A ctx that is done before f first runs is no error.
func Keep(ctx context.Context, log zerolog.Logger, name string, b Backoff, f func(ctx context.Context) error) error {
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

// logEarly logs an end that is too early.
func logEarly(event *zerolog.Event, err error) {
	if err == nil {
		err = node.Errorf(node.Internal, "it ended by itself")
	}
	if p := panicToLog(err); p != nil {
		event = event.Bytes("stack", p.Stack)
	}
	event.Err(err).Msg("ended too early: run again")
}
