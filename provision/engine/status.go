package engine

import (
	"context"
	"sync"
	"time"

	"github.com/croft-edge/croft/pkg/backoff"
	"github.com/croft-edge/croft/pkg/clock"
	"github.com/croft-edge/croft/pkg/resources/work"
	"github.com/croft-edge/croft/pkg/supervise"
	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/lifecycle"
	"github.com/croft-edge/croft/provision/store"
)

// Status returns the view of every record, by ID: a query on the records, which needs no Run. It has no effects in
// flight and no users.
func (e *Engine) Status() ([]work.WorkloadSpec, error) {
	recs, err := e.parts.Records.List()
	if err != nil {
		return nil, err
	}
	out := make([]work.WorkloadSpec, 0, len(recs))
	for _, rec := range recs {
		out = append(out, viewOf(rec, e.parts, e.notes, e.parts.Clock.Read()))
	}
	return out, nil
}

// StatusOf returns the status of one reservation. NotExist when it has no record.
func (e *Engine) StatusOf(id string) (work.WorkloadSpec, error) {
	rec, err := e.parts.Records.Record(id)
	if err != nil {
		return work.WorkloadSpec{}, err
	}
	return viewOf(rec, e.parts, e.notes, e.parts.Clock.Read()), nil
}

// Refused counts by cause, since the start of this process, the reservations that weren't taken.
func (e *Engine) Refused() map[string]uint64 { return e.parts.Refusals.All() }

// pending says what rec waits for.
func pending(rec store.Record, n *notes, now clock.Reading) string {
	switch rec.Phase {
	case lifecycle.Fetching, lifecycle.Intent:
		if fetch, fetching := n.progress.text(rec.ID()); fetching {
			return fetch
		}
		return "provision"
	case lifecycle.Waiting:
		return "to be judged"
	case lifecycle.Retry:
		return "provision"
	case lifecycle.Stopping:
		return "to be stopped; its data is kept for now"
	case lifecycle.Held:
		return "its data is kept for now"
	case lifecycle.Blocked:
		return "decommission, once nothing uses it"
	case lifecycle.Leaving:
		return "decommission"
	}
	if !rec.Delivered && rec.Result != nil {
		return "the explorer"
	}
	if rec.Phase == lifecycle.Deployed && now.Level < clock.Stop {
		return "a clock that can be trusted, to expire"
	}
	return ""
}

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

// offer hands the newest value to the reader.
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

// awaitChange returns when the value has changed, or after countersEvery.
func (e *Engine) awaitChange(ctx context.Context, value *workload.ProvisionCounters, changed *<-chan struct{}) bool {
	latest := time.NewTimer(backoff.Together(countersEvery))
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

// count asks the records; it returns last when that fails.
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
