package longpoll

import (
	"context"
	"slices"
	"sync"
	"time"
)

// MaxOfNode is the number of long polls of one node that wait at a time. A node needs one, but
// anybody may poll; one more poll ends the oldest.
const MaxOfNode = 16

// waiter is one long poll that waits. There are many, so it is small: one channel serves for all
// that can end the wait.
type waiter struct {
	node string
	// own: the poll comes from the source of the node's signed writes.
	own bool
	// woken is closed at the end of the wait.
	woken chan struct{}
	// over is set before woken is closed where the wait ended without a change of the node: its
	// time was over, a newer poll needed the place, or the explorer is stopping.
	over bool
}

// Waiters are the long polls that wait. A push wakes exactly those of its
// node, without reading the database.
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

// Changed wakes the polls of the node. It is store.Config's Changed.
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

// add makes a waiter that the node's next change wakes. Where the node has MaxOfNode, the oldest
// ends, a stranger's before the node's own.
func (w *Waiters) add(nodeID string, own bool) *waiter {
	w.mu.Lock()
	defer w.mu.Unlock()
	one := &waiter{node: nodeID, own: own, woken: make(chan struct{})}
	if w.done {
		one.over = true
		close(one.woken)
		return one
	}
	if waiting := w.nodes[nodeID]; len(waiting) >= MaxOfNode {
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

// end ends a wait without a change. The lock is held.
func (w *Waiters) end(one *waiter) {
	if w.forget(one) {
		one.over = true
		close(one.woken)
	}
}

// remove removes an abandoned waiter.
func (w *Waiters) remove(one *waiter) {
	if one == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.forget(one)
}

// forget removes a waiter and reports whether it was there. The lock is held.
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

// Closed reports whether Close was called.
func (w *Waiters) Closed() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.done
}

// Waiting is the number of polls that wait.
func (w *Waiters) Waiting() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.count
}
