package image

import (
	"context"
	"sync"

	"github.com/croft-edge/croft/pkg/limit"
)

// Pulls are how many images are fetched at once, Unpacks how many layers are
// unpacked at once. Kept is for layers in their first turn: those that take long
// leave a place to those that don't.
var (
	Pulls   = limit.Limit{Name: "image-pulls", Per: "user", Each: 2, Total: 8}
	Unpacks = limit.Limit{Name: "image-unpacks", Per: "user", Each: 1, Total: 3, Kept: 1}
)

// keyed lets one at a time hold a key.
type keyed struct {
	mu   sync.Mutex
	held map[string]chan struct{}
}

// take waits for a key, and returns what gives it back.
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
