package workqueue

import (
	"cmp"
	"container/heap"
	"iter"
	"slices"
	"time"

	"github.com/croft-edge/croft/pkg/backoff"
)

// Schedule holds when each key comes due, and how often it failed. It reads no clock and starts no
// goroutine: its owner asks Next when to Take. Times are nanoseconds of one clock of the owner's
// choice, for instance Unix time or the time since the start. It isn't safe for concurrent use.
type Schedule[K comparable] struct {
	compare  func(a, b K) int
	queue    dueHeap[K]
	byKey    map[K]*due[K]
	failures map[K]int
	// set counts calls of Set, for the order of keys that compare doesn't order.
	set uint64
}

// NewSchedule makes an empty schedule. compare orders keys of one rank and one time; nil is the order in
// which they were set.
func NewSchedule[K comparable](compare func(a, b K) int) *Schedule[K] {
	if compare == nil {
		compare = func(K, K) int { return 0 }
	}
	return &Schedule[K]{compare: compare, byKey: map[K]*due[K]{}, failures: map[K]int{}}
}

// Set makes a key come due at that time, instead of at any earlier or later one. Of those taken together
// the highest rank comes first.
func (s *Schedule[K]) Set(key K, rank int, at int64) {
	s.set++
	if d, ok := s.byKey[key]; ok {
		d.rank, d.at, d.set = rank, at, s.set
		heap.Fix(&s.queue, d.index)
		return
	}
	d := &due[K]{key: key, rank: rank, at: at, set: s.set}
	heap.Push(&s.queue, d)
	s.byKey[key] = d
}

// Remove makes a key not come due. Its failures are kept.
func (s *Schedule[K]) Remove(key K) {
	if d, ok := s.byKey[key]; ok {
		heap.Remove(&s.queue, d.index)
		delete(s.byKey, key)
	}
}

// At is when a key comes due; false when it doesn't.
func (s *Schedule[K]) At(key K) (at int64, ok bool) {
	d, ok := s.byKey[key]
	if !ok {
		return 0, false
	}
	return d.at, true
}

// All are the keys that come due, with their times, in no order.
func (s *Schedule[K]) All() iter.Seq2[K, int64] {
	return func(yield func(K, int64) bool) {
		for _, d := range s.queue {
			if !yield(d.key, d.at) {
				return
			}
		}
	}
}

// Next is the earliest time at which a key comes due; false when none does.
func (s *Schedule[K]) Next() (at int64, ok bool) {
	if len(s.queue) == 0 {
		return 0, false
	}
	return s.queue[0].at, true
}

// Len is the number of keys that come due.
func (s *Schedule[K]) Len() int { return len(s.queue) }

// Take removes the keys that are due at now and returns them: by rank, the highest first, so that users
// of a thing come before the thing; those of one rank by time.
func (s *Schedule[K]) Take(now int64) []K {
	var taken []*due[K]
	for len(s.queue) > 0 && s.queue[0].at <= now {
		taken = append(taken, s.pop())
	}
	slices.SortFunc(taken, func(a, b *due[K]) int {
		return cmp.Or(cmp.Compare(b.rank, a.rank), cmp.Compare(a.at, b.at), s.compare(a.key, b.key), cmp.Compare(a.set, b.set))
	})
	keys := make([]K, len(taken))
	for i, d := range taken {
		keys[i] = d.key
	}
	return keys
}

// First removes and returns the key that has been due for longest at now; false when none is due.
func (s *Schedule[K]) First(now int64) (key K, ok bool) {
	if len(s.queue) == 0 || s.queue[0].at > now {
		return key, false
	}
	return s.pop().key, true
}

func (s *Schedule[K]) pop() *due[K] {
	d := heap.Pop(&s.queue).(*due[K])
	delete(s.byKey, d.key)
	return d
}

// Fail counts a failure of a key, and returns how many there were in a row.
func (s *Schedule[K]) Fail(key K) int {
	s.failures[key]++
	return s.failures[key]
}

// Retry counts a failure of a key, makes it come due after a backoff, and returns that wait.
func (s *Schedule[K]) Retry(key K, now int64, b backoff.Backoff) time.Duration {
	wait := b.Delay(s.Fail(key))
	s.Set(key, 0, now+int64(wait))
	return wait
}

// Failures is how often a key failed in a row.
func (s *Schedule[K]) Failures(key K) int { return s.failures[key] }

// Failing is the number of keys that failed and weren't forgotten since.
func (s *Schedule[K]) Failing() int { return len(s.failures) }

// Forget forgets the failures of a key. When it comes due is kept.
func (s *Schedule[K]) Forget(key K) { delete(s.failures, key) }

// Drop removes a key and forgets its failures.
func (s *Schedule[K]) Drop(key K) {
	s.Remove(key)
	s.Forget(key)
}

// DropUnless drops the keys that aren't wanted any more.
func (s *Schedule[K]) DropUnless(wanted func(key K) bool) {
	for _, d := range slices.Clone(s.queue) {
		if !wanted(d.key) {
			s.Drop(d.key)
		}
	}
	for key := range s.failures {
		if !wanted(key) {
			s.Forget(key)
		}
	}
}

// due is a key's place in a schedule.
type due[K comparable] struct {
	key   K
	rank  int
	at    int64
	set   uint64
	index int
}

// dueHeap is a heap by time; of one time, in the order of being set.
type dueHeap[K comparable] []*due[K]

func (q dueHeap[K]) Len() int { return len(q) }

func (q dueHeap[K]) Less(i, j int) bool {
	if q[i].at != q[j].at {
		return q[i].at < q[j].at
	}
	return q[i].set < q[j].set
}

func (q dueHeap[K]) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].index, q[j].index = i, j
}

func (q *dueHeap[K]) Push(x any) {
	d := x.(*due[K])
	d.index = len(*q)
	*q = append(*q, d)
}

func (q *dueHeap[K]) Pop() any {
	old := *q
	d := old[len(old)-1]
	old[len(old)-1] = nil
	*q = old[:len(old)-1]
	return d
}
