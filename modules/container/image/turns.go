package image

import (
	"context"
	"sync"
	"time"

	"github.com/croft-edge/croft/pkg/clock"
	"github.com/croft-edge/croft/pkg/limit"
)

// Pulls are how many images are fetched at once, Unpacks how many layers are
// unpacked at once. Kept is for layers in their first turn: those that take long
// leave a place to those that don't.
var (
	Pulls   = limit.Limit{Name: "image-pulls", Per: "user", Each: 2, Total: 8}
	Unpacks = limit.Limit{Name: "image-unpacks", Per: "user", Each: 1, Total: 3, Kept: 1}
)

// turns are places in a line. A place held for long while others wait is taken away:
// a registry that sends a byte now and then would else keep all other users from
// pulling.
type turns struct {
	line  *limit.Line
	clock clock.Clock
}

// turn is one turn of a user.
type turn struct {
	user string
	// first is set for a first turn: it may have the places that are kept for those.
	first bool
	// own is whether the turn also ends for others of the same user.
	own bool
	// length is the time after which the turn ends if others wait, pause the time
	// until that is checked again.
	length, pause time.Duration
	// endable reports whether the turn may end now.
	endable func() bool
}

// take waits for a turn and calls do in it, with a context that ends with the turn, and
// with back, which frees the place before do returns. again is set when do failed
// because the turn has ended.
func (s turns) take(ctx context.Context, t turn, do func(ctx context.Context, back func()) error) (again bool, err error) {
	back, err := s.line.Take(ctx, t.user, t.first)
	if err != nil {
		return false, err
	}
	defer back()
	in, end := context.WithCancel(ctx)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		s.watch(in, end, t)
	}()
	err = do(in, back)
	over := in.Err() != nil && ctx.Err() == nil
	end()
	<-watched
	return over && err != nil, err
}

// watch ends a turn that was long enough when somebody else wants its place.
func (s turns) watch(ctx context.Context, end context.CancelFunc, t turn) {
	for length := t.length; ; length = t.pause {
		timer := s.clock.NewTimer(length)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C():
		}
		if s.line.Wanted(t.user, t.own) && t.endable() {
			end()
			return
		}
	}
}

// keyed is a lock for each key.
type keyed struct {
	mu   sync.Mutex
	held map[string]chan struct{}
}

// take waits for a key, and returns the func that gives it back.
func (k *keyed) take(ctx context.Context, key string) (func(), error) {
	for {
		k.mu.Lock()
		if k.held == nil {
			k.held = map[string]chan struct{}{}
		}
		busy := k.held[key]
		if busy == nil {
			mine := make(chan struct{})
			k.held[key] = mine
			k.mu.Unlock()
			return func() {
				k.mu.Lock()
				delete(k.held, key)
				k.mu.Unlock()
				close(mine)
			}, nil
		}
		k.mu.Unlock()
		select {
		case <-busy:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}
