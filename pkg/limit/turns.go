package limit

import (
	"container/list"
	"sync"
)

// Turns is a queue in which keys with waiting items take turns: one item of each, then
// one more of each, however many one key has added. No more items are in progress at a
// time than the limit's Each of one key and Total of all. It may be used by several
// goroutines, and keeps nothing of a key that has no item in it.
type Turns[T any] struct {
	limit Limit

	mu    sync.Mutex
	of    map[string]*turn[T]
	ready *list.List
	total int64
	len   int
}

// turn is a key's state: its waiting items, and the number of those in progress.
type turn[T any] struct {
	key     string
	waiting list.List
	held    int64
	// place is its place in the ring of the keys whose turn comes, nil when it has none.
	place *list.Element
}

// NewTurns returns a queue with nothing in it. Each and Total of l are in slots; 0 is
// no limit, Kept has no meaning.
func NewTurns[T any](l Limit) *Turns[T] {
	return &Turns[T]{limit: l, of: map[string]*turn[T]{}, ready: list.New()}
}

// Add puts an item behind those of its key. An item that has to wait because of the
// limit counts as reaching it.
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

// Next takes the item whose turn it is; it is in progress until done is called; false
// when none waits or no more may be in progress. Later calls of done do nothing.
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

// Len is the number of waiting items.
func (q *Turns[T]) Len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.len
}

func (q *Turns[T]) full() bool { return q.limit.Total > 0 && q.total >= q.limit.Total }

func (q *Turns[T]) most(t *turn[T], n int64) bool { return q.limit.Each > 0 && n >= q.limit.Each }

// settle puts t at the ring's end if its turn may come and it has no place there, and
// forgets it when it is empty.
func (q *Turns[T]) settle(t *turn[T]) {
	if t.waiting.Len() > 0 && t.place == nil && !q.most(t, t.held) {
		t.place = q.ready.PushBack(t)
	}
	if t.waiting.Len() == 0 && t.held == 0 {
		delete(q.of, t.key)
	}
}
