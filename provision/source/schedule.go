package source

import (
	"cmp"
	"container/heap"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/pkg/workload"
)

// Schedule yields the ID of each record when its time has come, with one
// timer on the earliest. What has been yielded is forgotten: whoever handles it
// sets it again where there is a next time.
type Schedule struct {
	// Log gets what goes wrong. It may be set before Items is called.
	Log zerolog.Logger

	kind Kind
	// now is the clock that the times are of; false while it can't be trusted.
	now func() (time.Time, bool)
	// look is the longest sleep: a wall clock may be set meanwhile.
	look time.Duration

	mu     sync.Mutex
	queue  dueQueue
	byID   map[string]*due
	notify chan struct{}
}

// NewExpiry makes a schedule by the wall clock that now reads. While now says
// false nothing comes due. A clock that was set is noticed within look.
func NewExpiry(now func() (time.Time, bool), look time.Duration) *Schedule {
	return newSchedule(Expiry, now, look)
}

// NewRetry makes a schedule by the time that passes, whatever the wall clock says.
func NewRetry() *Schedule {
	passing := func() (time.Time, bool) { return time.Now(), true }
	return newSchedule(Retry, passing, time.Hour)
}

func newSchedule(kind Kind, now func() (time.Time, bool), look time.Duration) *Schedule {
	return &Schedule{kind: kind, now: now, look: look, byID: map[string]*due{}, notify: make(chan struct{}, 1)}
}

// Set makes the record of that ID come due at that time, instead of at any
// earlier or later one.
func (s *Schedule) Set(id string, t workload.Type, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if d, ok := s.byID[id]; ok {
		d.at = at
		heap.Fix(&s.queue, d.index)
	} else {
		d = &due{id: id, rank: Rank(t), at: at}
		heap.Push(&s.queue, d)
		s.byID[id] = d
	}
	if s.queue[0].id == id {
		s.wake()
	}
}

// Remove makes the record of that ID not come due.
func (s *Schedule) Remove(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if d, ok := s.byID[id]; ok {
		heap.Remove(&s.queue, d.index)
		delete(s.byID, id)
	}
}

// Items yields what comes due until ctx is done; one reader at a time.
func (s *Schedule) Items(ctx context.Context) <-chan Item {
	return yield(ctx, s.Log, "schedule", s.run)
}

func (s *Schedule) run(ctx context.Context, out chan<- Item) error {
	for {
		batch, sleep := s.take()
		for _, d := range batch {
			if !send(ctx, out, Item{Kind: s.kind, ID: d.id}) {
				return ctx.Err()
			}
		}
		if len(batch) == 0 && !s.sleep(ctx, sleep) {
			return ctx.Err()
		}
	}
}

func (s *Schedule) wake() {
	select {
	case s.notify <- struct{}{}:
	default:
	}
}

func (s *Schedule) sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
	case <-s.notify:
	}
	return true
}

// take removes what is due, users of a thing before the thing, or says how long nothing will be.
func (s *Schedule) take() ([]due, time.Duration) {
	now, trusted := s.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !trusted || len(s.queue) == 0 {
		return nil, s.look
	}
	if first := s.queue[0].at; now.Before(first) {
		return nil, min(first.Sub(now), s.look)
	}
	var batch []due
	for len(s.queue) > 0 && !now.Before(s.queue[0].at) {
		d := heap.Pop(&s.queue).(*due)
		delete(s.byID, d.id)
		batch = append(batch, *d)
	}
	slices.SortStableFunc(batch, func(a, b due) int { return cmp.Compare(b.rank, a.rank) })
	return batch, 0
}

// due is a record's place in the queue.
type due struct {
	id    string
	rank  int
	at    time.Time
	index int
}

// dueQueue is a heap by time.
type dueQueue []*due

func (q dueQueue) Len() int           { return len(q) }
func (q dueQueue) Less(i, j int) bool { return q[i].at.Before(q[j].at) }
func (q dueQueue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].index, q[j].index = i, j
}

func (q *dueQueue) Push(x any) {
	d := x.(*due)
	d.index = len(*q)
	*q = append(*q, d)
}

func (q *dueQueue) Pop() any {
	old := *q
	d := old[len(old)-1]
	old[len(old)-1] = nil
	*q = old[:len(old)-1]
	return d
}
