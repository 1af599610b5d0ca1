package limit

import (
	"context"
	"slices"
	"sync"
)

// Line hands out the slots of a limit. Keys are served in turn, and requests of one key
// in their order: nobody waits for more than one slot of each other key, however many
// that key asks for. It may be used by several goroutines, and keeps nothing of a key
// that neither waits nor has a slot.
//
// Turns is the same for items that wait without a goroutine of their own.
type Line struct {
	limit Limit

	mu   sync.Mutex
	keys map[string]*asker
	// ring are the keys whose turn comes, in order: those that wait and have room.
	ring []*asker
	// total are the slots in use, strange those of unknown keys.
	total, strange int64
}

// asker is a key that waits for slots or has some.
type asker struct {
	key     string
	waiting []*Ticket
	held    int64
}

// Ticket is a request for a slot.
type Ticket struct {
	line  *Line
	of    *asker
	known bool
	given chan struct{}
	ended bool
}

// NewLine returns a line in which nobody waits. Each and Total of l are in slots and
// more than 0; Kept are the slots reserved for known keys.
func NewLine(l Limit) *Line { return &Line{limit: l, keys: map[string]*asker{}} }

// Ask asks for a slot without waiting. The ticket must be ended, whether its slot was
// given or not. Waiting tickets don't count as reaching the limit: a caller that finds
// the wait too long calls Limit.Reached.
func (q *Line) Ask(key string, known bool) *Ticket {
	q.mu.Lock()
	defer q.mu.Unlock()
	a := q.keys[key]
	if a == nil {
		a = &asker{key: key}
		q.keys[key] = a
	}
	t := &Ticket{line: q, of: a, known: known, given: make(chan struct{})}
	a.waiting = append(a.waiting, t)
	q.settle(a)
	return t
}

// Take waits for a slot, and returns the function that gives it back. Having to wait
// counts as reaching the limit. The error is ctx's.
func (q *Line) Take(ctx context.Context, key string, known bool) (end func(), err error) {
	t := q.Ask(key, known)
	if t.Has() {
		return t.End, nil
	}
	q.limit.Reached()
	select {
	case <-t.given:
		return t.End, nil
	case <-ctx.Done():
		t.End()
		return nil, ctx.Err()
	}
}

// Wanted reports whether another key waits that could have a slot of this one, or, with
// own, this key itself.
func (q *Line) Wanted(key string, own bool) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if a := q.keys[key]; own && a != nil && len(a.waiting) > 0 {
		return true
	}
	return slices.ContainsFunc(q.ring, func(a *asker) bool { return a.key != key })
}

// Given is closed when the slot is given.
func (t *Ticket) Given() <-chan struct{} { return t.given }

// Has reports whether the slot is given.
func (t *Ticket) Has() bool {
	select {
	case <-t.given:
		return true
	default:
		return false
	}
}

// End gives the slot back, or stops waiting for it. Calls after the first do nothing.
func (t *Ticket) End() {
	t.line.mu.Lock()
	defer t.line.mu.Unlock()
	if t.ended {
		return
	}
	t.ended = true
	if t.Has() {
		t.line.hold(t, -1)
	} else {
		t.of.leave(t)
	}
	t.line.settle(t.of)
}

func (a *asker) leave(t *Ticket) {
	a.waiting = slices.DeleteFunc(a.waiting, func(w *Ticket) bool { return w == t })
}

// hold records that n more slots are in use. q.mu is held, here and below.
func (q *Line) hold(t *Ticket, n int64) {
	t.of.held += n
	q.total += n
	if !t.known {
		q.strange += n
	}
}

// settle puts a key at its place after a change, and gives the slots that may be given.
func (q *Line) settle(a *asker) {
	q.place(a)
	for q.giveOne() {
	}
}

// place puts a key whose turn may come at the ring's end, takes out one that must not
// get more, and forgets one that has nothing.
func (q *Line) place(a *asker) {
	i := slices.Index(q.ring, a)
	switch may := len(a.waiting) > 0 && a.held < q.limit.Each; {
	case may && i < 0:
		q.ring = append(q.ring, a)
	case !may && i >= 0:
		q.ring = slices.Delete(q.ring, i, i+1)
	}
	if len(a.waiting) == 0 && a.held == 0 {
		delete(q.keys, a.key)
	}
}

// giveOne gives the next slot to the first in the ring that may have it.
func (q *Line) giveOne() bool {
	if q.total >= q.limit.Total {
		return false
	}
	for i, a := range q.ring {
		t := a.next(q.strange < q.limit.Total-q.limit.Kept)
		if t == nil {
			continue
		}
		q.hold(t, 1)
		a.leave(t)
		close(t.given)
		// A key that waits for more does so behind all others.
		q.ring = slices.Delete(q.ring, i, i+1)
		q.place(a)
		return true
	}
	return false
}

// next is the key's first waiting ticket, of known requesters only unless
// strangersToo; nil when there is none.
func (a *asker) next(strangersToo bool) *Ticket {
	for _, t := range a.waiting {
		if t.known || strangersToo {
			return t
		}
	}
	return nil
}
