package bus

import (
	"bytes"
	"context"
	"sync"

	"github.com/threefoldtech/zbus"
)

// feedBuffer is how many events wait for a reader before the oldest is dropped.
const feedBuffer = 64

// feed is one reader of one channel. Giving it an event never blocks.
type feed struct {
	mu     sync.Mutex
	events chan zbus.Event
	closed bool
	// stop forgets the context that would end it.
	stop  func() bool
	count *streamCounters
}

func newFeed(count *streamCounters) *feed {
	return &feed{events: make(chan zbus.Event, feedBuffer), count: count}
}

// endWith calls end when ctx does.
func (f *feed) endWith(ctx context.Context, end func()) {
	stop := context.AfterFunc(ctx, end)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stop = stop
	if f.closed {
		stop()
	}
}

// offer gives the feed an event of its own. The newest wins.
func (f *feed) offer(frame []byte) {
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
			f.count.dropped.Add(1)
		default:
		}
	}
}

func (f *feed) close() {
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

// feeds are the readers of all channels of a bus. Its owner locks.
type feeds map[string]map[*feed]struct{}

// add reports whether f is the first of its channel.
func (fs feeds) add(channel string, f *feed) bool {
	first := len(fs[channel]) == 0
	if first {
		fs[channel] = map[*feed]struct{}{}
	}
	fs[channel][f] = struct{}{}
	return first
}

// remove reports whether f was the last of its channel.
func (fs feeds) remove(channel string, f *feed) bool {
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

// deliver skips what can't be decoded, and says so.
func (fs feeds) deliver(channel string, frame []byte, count *streamCounters) bool {
	if err := checkFrame(frame); err != nil {
		if len(fs[channel]) > 0 {
			count.skipped.Add(1)
		}
		return false
	}
	for f := range fs[channel] {
		f.offer(frame)
	}
	return true
}

// latest is what came last on each channel, for who comes later. Its owner locks.
type latest map[string][]byte

// greet gives a new reader what came last.
func (l latest) greet(channel string, f *feed) {
	if frame, some := l[channel]; some {
		f.offer(frame)
	}
}

func (fs feeds) closeAll() {
	for channel, readers := range fs {
		for f := range readers {
			f.close()
		}
		delete(fs, channel)
	}
}
