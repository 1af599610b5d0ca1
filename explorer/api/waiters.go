package api

import (
	"context"
	"slices"
	"sync"
	"time"
)

// maxWaitersOfNode is how many long polls of one node wait at a time. A node
// has one; anybody may read, and who comes when it is full wakes the oldest.
const maxWaitersOfNode = 16

// waiter is one long poll that waits. There are many, so it is small: one
// channel serves all that can end the wait. woken is closed by the node's next
// change; over is set before when something else ended it: the time, a newer
// poll that needs the room, or the explorer's end.
type waiter struct {
	node string
	// own is whether it is the node's own, as far as is known.
	own   bool
	woken chan struct{}
	over  bool
}

// Waiters are the long polls that wait. A push wakes exactly those of its
// node, without looking at the database.
type Waiters struct {
	mu    sync.Mutex
	nodes map[string][]*waiter
	count int
	done  bool
}

// NewWaiters makes an empty set.
func NewWaiters() *Waiters {
	return &Waiters{nodes: map[string][]*waiter{}}
}

// Changed wakes who waits for the node. It is store.Config's Changed.
func (w *Waiters) Changed(nodeID string, _ uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	waiting := w.nodes[nodeID]
	delete(w.nodes, nodeID)
	w.count -= len(waiting)
	for _, one := range waiting {
		close(one.woken)
	}
}

// add makes a waiter that is woken by the node's next change. Where the node has
// as many as may be, the oldest is over, one of a stranger before the node's own.
func (w *Waiters) add(nodeID string, own bool) *waiter {
	w.mu.Lock()
	defer w.mu.Unlock()
	one := &waiter{node: nodeID, own: own, woken: make(chan struct{})}
	if w.done {
		one.over = true
		close(one.woken)
		return one
	}
	if waiting := w.nodes[nodeID]; len(waiting) >= maxWaitersOfNode {
		oldest := slices.IndexFunc(waiting, func(other *waiter) bool { return !other.own })
		w.end(waiting[max(oldest, 0)])
	}
	w.nodes[nodeID] = append(w.nodes[nodeID], one)
	w.count++
	return one
}

// sleep returns true when the waiter is woken or over, at the latest after
// most, and false when ctx is done.
func (w *Waiters) sleep(ctx context.Context, one *waiter, most time.Duration) bool {
	timer := time.AfterFunc(most, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.end(one)
	})
	defer timer.Stop()
	select {
	case <-one.woken:
		return true
	case <-ctx.Done():
		w.remove(one)
		return false
	}
}

// end makes a waiter over if it still waits. The lock is held.
func (w *Waiters) end(one *waiter) {
	if w.forget(one) {
		one.over = true
		close(one.woken)
	}
}

// remove forgets a waiter that nobody waits with any more.
func (w *Waiters) remove(one *waiter) {
	if one == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.forget(one)
}

// forget takes a waiter out, and reports whether it was in. The lock is held.
func (w *Waiters) forget(one *waiter) bool {
	waiting := w.nodes[one.node]
	i := slices.Index(waiting, one)
	if i < 0 {
		return false
	}
	w.count--
	if len(waiting) == 1 {
		delete(w.nodes, one.node)
	} else {
		w.nodes[one.node] = slices.Delete(waiting, i, i+1)
	}
	return true
}

// Close ends all waits, now and later: the explorer is stopping.
func (w *Waiters) Close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.done = true
	for _, waiting := range w.nodes {
		for _, one := range slices.Clone(waiting) {
			w.end(one)
		}
	}
}

func (w *Waiters) closed() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.done
}

func (w *Waiters) waiting() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.count
}
