package source

import (
	"context"
	"sync"

	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/pkg/supervise"
)

// yield runs f in a goroutine of its own; f sends to the returned channel. f is run
// again when it panics or returns early; the channel is closed when ctx is done or f
// returns supervise.ErrEnded.
func yield[T any](ctx context.Context, log zerolog.Logger, name string, f func(ctx context.Context, out chan<- T) error) <-chan T {
	out := make(chan T)
	go func() {
		defer close(out)
		_ = supervise.Keep(ctx, log, name, PollBackoff(), func(ctx context.Context) error { return f(ctx, out) })
	}()
	return out
}

// yieldAll is yield for several functions that send to one channel.
func yieldAll[T any](ctx context.Context, log zerolog.Logger, name string, all []func(ctx context.Context, out chan<- T) error) <-chan T {
	out := make(chan T)
	var open sync.WaitGroup
	for _, f := range all {
		open.Go(func() {
			_ = supervise.Keep(ctx, log, name, PollBackoff(), func(ctx context.Context) error { return f(ctx, out) })
		})
	}
	go func() {
		open.Wait()
		close(out)
	}()
	return out
}

// forward sends in's values to out, until in is closed or ctx is done.
func forward[T any](ctx context.Context, in <-chan T, out chan<- T) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case v, ok := <-in:
			if !ok {
				return supervise.ErrEnded
			}
			if !send(ctx, out, v) {
				return ctx.Err()
			}
		}
	}
}

// send reports whether v went out before ctx was done.
func send[T any](ctx context.Context, out chan<- T, v T) bool {
	select {
	case out <- v:
		return true
	case <-ctx.Done():
		return false
	}
}
