package transport

import (
	"bytes"
	"context"
	"sync"

	"github.com/threefoldtech/zbus"
)

// feedBuffer is how many events wait for a reader before the oldest is dropped.
const feedBuffer = 64

// Feed is one reader of one channel. Adding an event never blocks.
type Feed struct {
	mu     sync.Mutex
	events chan zbus.Event
	closed bool
	// stop forgets the context that would end it.
	stop  func() bool
	count *Counters
}

// NewFeed makes a reader that counts in count.
func NewFeed(count *Counters) *Feed {
	return &Feed{events: make(chan zbus.Event, feedBuffer), count: count}
}

// EndWith calls end when ctx does.
func (f *Feed) EndWith(ctx context.Context, end func()) {
	stop := context.AfterFunc(ctx, end)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stop = stop
	if f.closed {
		stop()
	}
}

// Events are the reader's events; closed when it ends.
func (f *Feed) Events() <-chan zbus.Event { return f.events }

// offer adds an event of its own to the feed. The newest wins.
func (f *Feed) offer(frame []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return
	}
	event := zbus.Event(bytes.Clone(frame))
	for {
		select {
		case f.events <- event:
			return
		default:
		}
		select {
		case <-f.events:
			f.count.Dropped.Add(1)
		default:
		}
	}
}

// Close ends the reader.
func (f *Feed) Close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return
	}
	f.closed = true
	close(f.events)
	if f.stop != nil {
		f.stop()
	}
}

// Feeds are the readers of all channels of a bus. Its owner locks.
type Feeds map[string]map[*Feed]struct{}

// Add reports whether f is the first of its channel.
func (fs Feeds) Add(channel string, f *Feed) bool {
	first := len(fs[channel]) == 0
	if first {
		fs[channel] = map[*Feed]struct{}{}
	}
	fs[channel][f] = struct{}{}
	return first
}

// Remove reports whether f was the last of its channel.
func (fs Feeds) Remove(channel string, f *Feed) bool {
	if _, ok := fs[channel][f]; !ok {
		return false
	}
	delete(fs[channel], f)
	if len(fs[channel]) > 0 {
		return false
	}
	delete(fs, channel)
	return true
}

// Deliver gives a frame to the readers of a channel. It skips and counts a frame that
// can't be decoded, and reports false then.
func (fs Feeds) Deliver(channel string, frame []byte, count *Counters) bool {
	if err := CheckFrame(frame); err != nil {
		if len(fs[channel]) > 0 {
			count.Skipped.Add(1)
		}
		return false
	}
	for f := range fs[channel] {
		f.offer(frame)
	}
	return true
}

// Latest is the last event of each channel, for later readers. Its owner locks.
type Latest map[string][]byte

// Greet gives a new reader the last event.
func (l Latest) Greet(channel string, f *Feed) {
	if frame, some := l[channel]; some {
		f.offer(frame)
	}
}

// CloseAll ends all readers.
func (fs Feeds) CloseAll() {
	for channel, readers := range fs {
		for f := range readers {
			f.Close()
		}
		delete(fs, channel)
	}
}
