package provision

import (
	"context"
	"sync"
	"time"

	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/store"
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
func (e *NodeEngine) Counters(ctx context.Context) <-chan workload.ProvisionCounters {
	out := make(chan workload.ProvisionCounters)
	go func() {
		defer close(out)
		changed := e.changes.next()
		value := e.count(workload.ProvisionCounters{})
		for e.offer(ctx, out, &value, &changed) && e.awaitChange(ctx, &value, &changed) {
		}
	}()
	return out
}

// offer gets the newest value to the reader.
func (e *NodeEngine) offer(ctx context.Context, out chan<- workload.ProvisionCounters, value *workload.ProvisionCounters, changed *<-chan struct{}) bool {
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
func (e *NodeEngine) awaitChange(ctx context.Context, value *workload.ProvisionCounters, changed *<-chan struct{}) bool {
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

// count asks the records; last is the answer when they can't be read.
func (e *NodeEngine) count(last workload.ProvisionCounters) workload.ProvisionCounters {
	if c, ok := e.records.(*cacheRecords); ok {
		return c.cache.Counters() // it knows more than the records, and can't list it
	}
	recs, err := e.records.List()
	if err != nil {
		e.log.Error().Err(err).Msg("cannot count the workloads")
		return last
	}
	now, trusted := e.clock.Now()
	return countRecords(recs, now, trusted)
}

// countRecords counts what is deployed and, by a clock that can be trusted,
// not over. A network that was updated counts once.
func countRecords(recs []store.Record, now time.Time, trusted bool) workload.ProvisionCounters {
	var c workload.ProvisionCounters
	networks := map[store.NetworkKey]bool{}
	for _, rec := range recs {
		if rec.Phase != store.Deployed || trusted && rec.Reservation.ExpiredAt(now) {
			continue
		}
		if n, named := store.KeyOf(rec.Reservation); named {
			if networks[n] {
				continue
			}
			networks[n] = true
		}
		if field := counterOf(&c, rec.Reservation.Type); field != nil {
			*field++
		}
	}
	return c
}

func counterOf(c *workload.ProvisionCounters, t workload.Type) *int64 {
	switch t {
	case workload.TypeContainer:
		return &c.Container
	case workload.TypeVolume:
		return &c.Volume
	case workload.TypeNetwork:
		return &c.Network
	case workload.TypeZDB:
		return &c.ZDB
	case workload.TypeKubernetes:
		return &c.VM
	case workload.TypeDebug:
		return &c.Debug
	}
	return nil
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
