package engine

import (
	"context"
	"sync"
	"time"

	"github.com/croft-edge/croft/pkg/supervise"
	"github.com/croft-edge/croft/pkg/workload"
)

const (
	// countersEvery is the longest time between two values.
	countersEvery = 2 * time.Second
	// countersPause is the shortest time between two looks at the records.
	countersPause = 50 * time.Millisecond
)

// Counters streams the deployed, unexpired workloads by type: the first value
// at once, then on change and at least every two seconds. A slow reader gets
// the newest value. The channel is closed soon after ctx is done. It needs no
// Run: it is a query on the records.
func (e *Engine) Counters(ctx context.Context) <-chan workload.ProvisionCounters {
	out := make(chan workload.ProvisionCounters)
	go supervise.Do(e.parts.Log, "counters", func() {
		defer close(out)
		changed := e.changes.next()
		value := e.count(workload.ProvisionCounters{})
		for e.offer(ctx, out, &value, &changed) && e.awaitChange(ctx, &value, &changed) {
		}
	})
	return out
}

// offer gets the newest value to the reader.
func (e *Engine) offer(ctx context.Context, out chan<- workload.ProvisionCounters, value *workload.ProvisionCounters, changed *<-chan struct{}) bool {
	for {
		select {
		case out <- *value:
			return true
		case <-*changed:
			*changed = e.changes.next()
			*value = e.count(*value)
			if !pause(ctx, countersPause) {
				return false
			}
		case <-ctx.Done():
			return false
		}
	}
}

// awaitChange returns with another value, or after countersEvery.
func (e *Engine) awaitChange(ctx context.Context, value *workload.ProvisionCounters, changed *<-chan struct{}) bool {
	latest := time.NewTimer(countersEvery)
	defer latest.Stop()
	for {
		select {
		case <-*changed:
			*changed = e.changes.next()
			if now := e.count(*value); now != *value {
				*value = now
				return true
			}
			if !pause(ctx, countersPause) {
				return false
			}
		case <-latest.C:
			*value = e.count(*value)
			return true
		case <-ctx.Done():
			return false
		}
	}
}

// count asks the records; last is the answer when that fails.
func (e *Engine) count(last workload.ProvisionCounters) workload.ProvisionCounters {
	value := last
	_ = supervise.Guard(e.parts.Log, "count", func() error {
		value = e.parts.Records.Counters()
		return nil
	})
	return value
}

// broadcast tells any number of waiters that something changed.
type broadcast struct {
	mu sync.Mutex
	ch chan struct{}
}

func newBroadcast() *broadcast { return &broadcast{ch: make(chan struct{})} }

// next returns a channel that is closed at the next tell.
func (b *broadcast) next() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.ch
}

func (b *broadcast) tell() {
	b.mu.Lock()
	defer b.mu.Unlock()
	close(b.ch)
	b.ch = make(chan struct{})
}
