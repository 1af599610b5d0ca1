package image

import (
	"context"
	"slices"
	"sync"

	"github.com/croft-edge/croft/pkg/limit"
)

// Pulls are how many images are fetched at once, Unpacks how many layers are
// unpacked at once. Kept is for layers in their first turn: those that take long
// leave a place to those that don't.
var (
	Pulls   = limit.Limit{Name: "image-pulls", Per: "user", Each: 2, Total: 8}
	Unpacks = limit.Limit{Name: "image-unpacks", Per: "user", Each: 1, Total: 3, Kept: 1}
)

// queue hands out the slots of a limit. Those who wait are served round robin by
// user, so that nobody waits for more than one slot of each other user.
type queue struct {
	limit limit.Limit

	mu sync.Mutex
	// users are those who wait, in the order in which they are served.
	users   []string
	waiting map[string][]*waiter
	held    map[string]int64
	// total are the slots that are held, late those of who isn't in a first turn.
	total, late int64
}

// waiter is one who waits for a slot.
type waiter struct {
	first bool
	ready chan struct{}
}

func newQueue(l limit.Limit) *queue {
	return &queue{limit: l, waiting: map[string][]*waiter{}, held: map[string]int64{}}
}

// take waits for a slot, and returns what gives it back. first is whether it is
// the first turn of what it is for.
func (q *queue) take(ctx context.Context, user string, first bool) (func(), error) {
	w := &waiter{first: first, ready: make(chan struct{})}
	q.mu.Lock()
	if len(q.waiting[user]) == 0 {
		q.users = append(q.users, user)
	}
	q.waiting[user] = append(q.waiting[user], w)
	q.serve()
	q.mu.Unlock()
	back := sync.OnceFunc(func() { q.give(user, first) })
	select {
	case <-w.ready:
		return back, nil
	default:
		q.limit.Reached()
	}
	select {
	case <-w.ready:
		return back, nil
	case <-ctx.Done():
	}
	q.mu.Lock()
	left := q.leave(user, w)
	q.mu.Unlock()
	if !left {
		// It was served just now.
		back()
	}
	return nil, ctx.Err()
}

func (q *queue) give(user string, first bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.hold(user, first, -1)
	q.serve()
}

// hold notes that a user has n slots more. q.mu is held.
func (q *queue) hold(user string, first bool, n int64) {
	q.total += n
	if !first {
		q.late += n
	}
	if q.held[user] += n; q.held[user] == 0 {
		delete(q.held, user)
	}
}

// serve gives what is free to those who wait. q.mu is held.
func (q *queue) serve() {
	for q.serveOne() {
	}
}

func (q *queue) serveOne() bool {
	for i, user := range q.users {
		for _, w := range q.waiting[user] {
			if !q.fits(user, w.first) {
				continue
			}
			q.hold(user, w.first, 1)
			// Whoever waits for more does so behind all others.
			q.users = append(slices.Delete(q.users, i, i+1), user)
			q.leave(user, w)
			close(w.ready)
			return true
		}
	}
	return false
}

func (q *queue) fits(user string, first bool) bool {
	return q.held[user] < q.limit.Each && q.total < q.limit.Total && (first || q.late < q.limit.Total-q.limit.Kept)
}

// leave takes one who waits out, and reports whether it was there. q.mu is held.
func (q *queue) leave(user string, w *waiter) bool {
	i := slices.Index(q.waiting[user], w)
	if i < 0 {
		return false
	}
	if q.waiting[user] = slices.Delete(q.waiting[user], i, i+1); len(q.waiting[user]) == 0 {
		delete(q.waiting, user)
		q.users = slices.DeleteFunc(q.users, func(u string) bool { return u == user })
	}
	return true
}

// wanted reports whether another user waits who may have a user's slot, or that
// user themselves where own counts too.
func (q *queue) wanted(user string, own bool) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, u := range q.users {
		if u == user && own || u != user && q.held[u] < q.limit.Each {
			return true
		}
	}
	return false
}

// keyed lets one at a time hold a key.
type keyed struct {
	mu   sync.Mutex
	held map[string]chan struct{}
}

// take waits for a key, and returns what gives it back.
func (k *keyed) take(ctx context.Context, key string) (func(), error) {
	for {
		k.mu.Lock()
		if k.held == nil {
			k.held = map[string]chan struct{}{}
		}
		busy := k.held[key]
		if busy == nil {
			mine := make(chan struct{})
			k.held[key] = mine
			k.mu.Unlock()
			return func() {
				k.mu.Lock()
				delete(k.held, key)
				k.mu.Unlock()
				close(mine)
			}, nil
		}
		k.mu.Unlock()
		select {
		case <-busy:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}
