package api

import (
	"slices"
	"sync"
)

// maxWaitersOfNode is how many long polls of one node wait at a time. A node
// has one; anybody may read, and who comes when it is full wakes the oldest.
const maxWaitersOfNode = 16

// waiter is one long poll that waits. woken is closed by the node's next
// change, or, with crowded set before, to make room for a newer one.
type waiter struct {
	woken   chan struct{}
	crowded bool
}

// Waiters are the long polls that wait. A push wakes exactly those of its
// node, without looking at the database.
type Waiters struct {
	mu    sync.Mutex
	nodes map[string][]*waiter
	count int
	done  chan struct{}
}

// NewWaiters makes an empty set.
func NewWaiters() *Waiters {
	return &Waiters{nodes: map[string][]*waiter{}, done: make(chan struct{})}
}

// Changed wakes who waits for the node. It is store.Config's Changed.
func (w *Waiters) Changed(nodeID string, _ uint64) {
	w.mu.Lock()
	waiting := w.nodes[nodeID]
	delete(w.nodes, nodeID)
	w.count -= len(waiting)
	w.mu.Unlock()
	for _, one := range waiting {
		close(one.woken)
	}
}

// add makes a waiter that is woken by the node's next change. Nil when most
// are waiting already.
func (w *Waiters) add(nodeID string, most int) *waiter {
	w.mu.Lock()
	defer w.mu.Unlock()
	waiting := w.nodes[nodeID]
	if len(waiting) >= maxWaitersOfNode {
		waiting[0].crowded = true
		close(waiting[0].woken)
		waiting = append([]*waiter(nil), waiting[1:]...)
		w.nodes[nodeID] = waiting
		w.count--
	}
	if w.count >= most {
		return nil
	}
	one := &waiter{woken: make(chan struct{})}
	w.nodes[nodeID] = append(waiting, one)
	w.count++
	return one
}

// remove forgets a waiter that nobody waits with any more.
func (w *Waiters) remove(nodeID string, one *waiter) {
	w.mu.Lock()
	defer w.mu.Unlock()
	waiting := w.nodes[nodeID]
	i := slices.Index(waiting, one)
	if i < 0 {
		return
	}
	w.count--
	if len(waiting) == 1 {
		delete(w.nodes, nodeID)
		return
	}
	w.nodes[nodeID] = slices.Delete(waiting, i, i+1)
}

// Close wakes all, now and later: the explorer is stopping.
func (w *Waiters) Close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	select {
	case <-w.done:
	default:
		close(w.done)
	}
}

func (w *Waiters) closed() bool {
	select {
	case <-w.done:
		return true
	default:
		return false
	}
}

func (w *Waiters) waiting() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.count
}
