package limit

import (
	"container/list"
	"sync"
)

// Turns is a queue in which those who have something waiting take turns: one thing
// of each, then one more of each, however much one of them has brought. No more is
// in hand at a time than the limit's Each of one key and Total of all. It may be
// used by several goroutines, and keeps nothing of a key that has nothing in it.
type Turns[T any] struct {
	limit Limit

	mu    sync.Mutex
	of    map[string]*turn[T]
	ready *list.List
	total int64
	len   int
}

// turn is what a key has: what waits, and how much is in hand.
type turn[T any] struct {
	key     string
	waiting list.List
	held    int64
	// place is where it is in the ring of those whose turn comes, nil when it is in none.
	place *list.Element
}

// NewTurns returns a queue with nothing in it. Each and Total of l are in slots; 0 is
// no limit, Kept has no meaning.
func NewTurns[T any](l Limit) *Turns[T] {
	return &Turns[T]{limit: l, of: map[string]*turn[T]{}, ready: list.New()}
}

// Add puts an item behind those of its key. Where it can't be taken at once for the
// limit, that is counted.
func (q *Turns[T]) Add(key string, item T) {
	q.mu.Lock()
	defer q.mu.Unlock()
	t := q.of[key]
	if t == nil {
		t = &turn[T]{key: key}
		q.of[key] = t
	}
	if q.full() || q.most(t, t.held+int64(t.waiting.Len())) {
		q.limit.Reached()
	}
	t.waiting.PushBack(item)
	q.len++
	q.settle(t)
}

// Next takes the item whose turn it is in hand, until done is called; false when none
// waits or none more may be in hand. Calls of done after the first do nothing.
func (q *Turns[T]) Next() (item T, done func(), ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	front := q.ready.Front()
	if front == nil || q.full() {
		return item, nil, false
	}
	t := front.Value.(*turn[T])
	item = t.waiting.Remove(t.waiting.Front()).(T)
	q.len--
	q.ready.Remove(front)
	t.place = nil
	t.held++
	q.total++
	q.settle(t)
	return item, sync.OnceFunc(func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		t.held--
		q.total--
		q.settle(t)
	}), true
}

// Len is how many items wait.
func (q *Turns[T]) Len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.len
}

func (q *Turns[T]) full() bool { return q.limit.Total > 0 && q.total >= q.limit.Total }

func (q *Turns[T]) most(t *turn[T], n int64) bool { return q.limit.Each > 0 && n >= q.limit.Each }

// settle puts t at the ring's end if its turn may come and it isn't in it, and
// forgets it when it has nothing.
func (q *Turns[T]) settle(t *turn[T]) {
	if t.waiting.Len() > 0 && t.place == nil && !q.most(t, t.held) {
		t.place = q.ready.PushBack(t)
	}
	if t.waiting.Len() == 0 && t.held == 0 {
		delete(q.of, t.key)
	}
}
