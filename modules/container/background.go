package container

import (
	"context"
	"sync"
)

// background runs a module's goroutines, until it is closed.
type background struct {
	ctx  context.Context //nolint:containedctx // it ends the waits of the contract's calls, which have none
	stop context.CancelFunc

	mu     sync.Mutex
	closed bool
	work   sync.WaitGroup
}

func newBackground() *background {
	b := &background{}
	b.ctx, b.stop = context.WithCancel(context.Background())
	return b
}

// spawn runs a function in a goroutine, unless it is closed. It reports whether it does.
func (b *background) spawn(do func(ctx context.Context)) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return false
	}
	b.work.Go(func() { do(b.ctx) })
	return true
}

// close ends the context of the goroutines and waits for them. It reports false when that was
// done already.
func (b *background) close() bool {
	b.mu.Lock()
	if b.closed {
		b.mu.Unlock()
		return false
	}
	b.closed = true
	b.mu.Unlock()
	b.stop()
	b.work.Wait()
	return true
}
