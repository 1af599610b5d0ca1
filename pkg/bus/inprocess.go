package bus

import (
	"bytes"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/threefoldtech/zbus"

	"github.com/croft-edge/croft/pkg/bus/transport"
	"github.com/croft-edge/croft/pkg/node"
)

// The bounds of an in-process bus's queues. A push beyond them fails.
const (
	maxQueues     = 4096
	maxQueued     = 1024
	maxQueueBytes = 64 << 20
	maxWaiting    = 4096
)

// InProcess is a bus inside this process. Its queues are bounded and drop frames
// that nobody takes in time.
type InProcess struct {
	mu      sync.Mutex
	queues  map[string]*queue
	waiting map[string][]*waiter
	waiters int
	feeds   transport.Feeds
	latest  transport.Latest
	// audience has a channel for each channel whose first or last reader somebody waits for; it is closed then.
	audience map[string]chan struct{}
	served   map[string]bool
	bytes    int
	sweep    time.Time
	closed   bool
	count    transport.Counters
}

type queue struct {
	frames  [][]byte
	expires time.Time
}

// waiter is a puller that waits because its queues were empty.
type waiter struct {
	keys []string
	came chan item
}

// item is a frame and its queue.
type item struct {
	key   string
	frame []byte
}

// NewInProcess makes a bus inside this process.
func NewInProcess() *InProcess {
	return &InProcess{
		queues: map[string]*queue{}, waiting: map[string][]*waiter{},
		feeds: transport.Feeds{}, latest: transport.Latest{}, audience: map[string]chan struct{}{}, served: map[string]bool{},
	}
}

// Close implements Bus.
func (b *InProcess) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	b.queues, b.bytes, b.latest = map[string]*queue{}, 0, transport.Latest{}
	for _, ws := range b.waiting {
		for _, w := range slices.Clone(ws) { // forget changes the list
			if w.keys != nil {
				b.forget(w)
				close(w.came)
			}
		}
	}
	b.feeds.CloseAll()
	return nil
}

// Counters implements Bus.
func (b *InProcess) Counters() *transport.Counters { return &b.count }

// Push implements Bus.
func (b *InProcess) Push(_ context.Context, key string, frame []byte, ttl time.Duration) (bool, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return false, transport.ErrClosed()
	}
	if ws := b.waiting[key]; len(ws) > 0 {
		w := ws[0]
		b.forget(w)
		w.came <- item{key, frame}
		return true, nil
	}
	now := time.Now()
	b.expire(now)
	q, err := b.room(key, len(frame), now)
	if err != nil {
		return false, err
	}
	q.frames = append(q.frames, frame)
	q.expires = now.Add(ttl)
	b.bytes += len(frame)
	return true, nil
}

// room finds or makes the queue for a frame of size bytes.
func (b *InProcess) room(key string, size int, now time.Time) (*queue, error) {
	if b.bytes+size > maxQueueBytes {
		return nil, node.Errorf(node.Transient, "cannot queue %d bytes for %s: the bus holds %d of %d", size, key, b.bytes, maxQueueBytes)
	}
	q := b.live(key, now)
	if q == nil {
		if len(b.queues) >= maxQueues {
			return nil, node.Errorf(node.Transient, "cannot make a queue for %s: there are %d already", key, maxQueues)
		}
		q = &queue{}
		b.queues[key] = q
	}
	if len(q.frames) >= maxQueued {
		return nil, node.Errorf(node.Transient, "cannot queue for %s: %d frames wait already", key, maxQueued)
	}
	return q, nil
}

// live is the queue of key unless it has expired.
func (b *InProcess) live(key string, now time.Time) *queue {
	q := b.queues[key]
	if q != nil && now.After(q.expires) {
		b.drop(key, q)
		return nil
	}
	return q
}

func (b *InProcess) drop(key string, q *queue) {
	for _, frame := range q.frames {
		b.bytes -= len(frame)
	}
	delete(b.queues, key)
}

// expire drops every expired queue, at most once a second.
func (b *InProcess) expire(now time.Time) {
	if now.Before(b.sweep) {
		return
	}
	b.sweep = now.Add(time.Second)
	for key, q := range b.queues {
		if now.After(q.expires) {
			b.drop(key, q)
		}
	}
}

// Serve implements Bus.
func (b *InProcess) Serve(keys ...string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, key := range keys {
		b.served[key] = true
	}
}

// Serves reports whether a server of this bus has answered key.
func (b *InProcess) Serves(key string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.served[key]
}

// Publish implements Bus.
func (b *InProcess) Publish(_ context.Context, channel string, frame []byte) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return transport.ErrClosed()
	}
	if b.feeds.Deliver(channel, frame, &b.count) {
		b.latest[channel] = bytes.Clone(frame)
	}
	return nil
}

// IsRead implements Bus.
func (b *InProcess) IsRead(channel string) (read bool, changed <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.audience[channel] == nil {
		b.audience[channel] = make(chan struct{})
	}
	return len(b.feeds[channel]) > 0, b.audience[channel]
}

// changed says that a channel has its first reader, or its last one no more.
func (b *InProcess) changed(channel string) {
	if waiting := b.audience[channel]; waiting != nil {
		delete(b.audience, channel)
		close(waiting)
	}
}

// Silent implements Bus.
func (b *InProcess) Silent(channel string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.latest, channel)
}

// Subscribe implements Bus.
func (b *InProcess) Subscribe(ctx context.Context, channel string) (<-chan zbus.Event, error) {
	if err := ctx.Err(); err != nil {
		return nil, node.Errorf(node.Transient, "cannot subscribe to %s: %w", channel, err)
	}
	f := transport.NewFeed(&b.count)
	b.mu.Lock()
	if b.closed {
		b.mu.Unlock()
		return nil, transport.ErrClosed()
	}
	if b.feeds.Add(channel, f) {
		b.changed(channel)
	}
	b.latest.Greet(channel, f)
	b.mu.Unlock()
	f.EndWith(ctx, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.feeds.Remove(channel, f) {
			b.changed(channel)
		}
		f.Close()
	})
	return f.Events(), nil
}
