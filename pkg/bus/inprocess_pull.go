package bus

import (
	"context"
	"slices"
	"time"

	"github.com/croft-edge/croft/pkg/bus/transport"
	"github.com/croft-edge/croft/pkg/node"
)

// memoryPuller takes frames off queues of an InProcess. It starts with each queue
// in turn, so that a busy one doesn't starve the others.
type memoryPuller struct {
	bus   *InProcess
	keys  []string
	first int
}

// Pull implements Bus.
func (b *InProcess) Pull(keys ...string) transport.Puller {
	return &memoryPuller{bus: b, keys: keys}
}

// Close implements transport.Puller.
func (p *memoryPuller) Close() {}

// Next implements transport.Puller.
func (p *memoryPuller) Next(ctx context.Context) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	p.first = (p.first + 1) % len(p.keys)
	keys := slices.Concat(p.keys[p.first:], p.keys[:p.first])
	_, frame, err := p.bus.Pop(ctx, keys)
	return frame, err
}

// Pop waits for the first frame of the queues keys, and returns its queue's key, too.
func (b *InProcess) Pop(ctx context.Context, keys []string) (key string, frame []byte, err error) {
	got, w, err := b.take(keys)
	if w != nil {
		got, err = b.await(ctx, w)
	}
	return got.key, got.frame, err
}

// await waits for a frame after take found none.
func (b *InProcess) await(ctx context.Context, w *waiter) (item, error) {
	select {
	case got, ok := <-w.came:
		if !ok {
			return item{}, transport.ErrClosed()
		}
		return got, nil
	case <-ctx.Done():
	}
	// A frame may have arrived in between.
	b.abandon(w)
	select {
	case got, ok := <-w.came:
		if ok {
			return got, nil
		}
	default:
	}
	return item{}, ctx.Err()
}

// take returns the first frame of the keys' queues, or else a waiter for one.
func (b *InProcess) take(keys []string) (item, *waiter, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return item{}, nil, transport.ErrClosed()
	}
	now := time.Now()
	for _, key := range keys {
		q := b.live(key, now)
		if q == nil {
			continue
		}
		frame := q.frames[0]
		q.frames[0] = nil
		q.frames = q.frames[1:]
		b.bytes -= len(frame)
		if len(q.frames) == 0 {
			delete(b.queues, key)
		}
		return item{key, frame}, nil, nil
	}
	if b.waiters >= maxWaiting {
		return item{}, nil, node.Errorf(node.Transient, "cannot wait for a frame: %d wait already", maxWaiting)
	}
	w := &waiter{keys: keys, came: make(chan item, 1)}
	b.waiters++
	for _, key := range keys {
		b.waiting[key] = append(b.waiting[key], w)
	}
	return item{}, w, nil
}

func (b *InProcess) abandon(w *waiter) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.forget(w)
}

// forget takes w off all lists; a second call changes nothing. The bus is locked.
func (b *InProcess) forget(w *waiter) {
	if w.keys == nil {
		return
	}
	for _, key := range w.keys {
		rest := slices.DeleteFunc(b.waiting[key], func(other *waiter) bool { return other == w })
		if len(rest) == 0 {
			delete(b.waiting, key)
			continue
		}
		b.waiting[key] = rest
	}
	w.keys = nil
	b.waiters--
}
