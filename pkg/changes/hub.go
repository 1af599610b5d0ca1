// Package changes gathers whose objects on the node have changed, and streams it: the
// implementation of node.Changes that modules share. It owns nothing, and knows no module:
// sources of changes call Tell and Lost.
package changes

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/croft-edge/croft/pkg/backoff"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
)

// gather is how long the first change of a value waits for others.
const gather = 30 * time.Millisecond

// Hub implements node.Changes. Tell and Lost never block. It is safe for concurrent use.
type Hub struct {
	mu      sync.Mutex
	readers map[*reader]struct{}
}

// New makes a Hub.
func New() *Hub { return &Hub{readers: map[*reader]struct{}{}} }

// reader is one stream.
type reader struct {
	// ids and lost are what isn't sent yet; the Hub's mu guards them.
	ids  map[string]struct{}
	lost bool
	// woken has a token when there is something to send.
	woken chan struct{}
}

// Tell tells that objects of these owners have changed. Names that aren't reservations' IDs
// are left out: their objects belong to no reservation.
func (h *Hub) Tell(ids ...string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for r := range h.readers {
		r.add(ids)
	}
}

// Lost tells that anything may have changed.
func (h *Hub) Lost() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for r := range h.readers {
		r.lose()
	}
}

func (r *reader) add(ids []string) {
	for _, id := range ids {
		switch _, known := r.ids[id]; {
		case r.lost:
			return
		case known || !workload.IsID(id):
		case len(r.ids) >= node.ChangesMost:
			r.lose()
		default:
			r.ids[id] = struct{}{}
			r.wake()
		}
	}
}

func (r *reader) lose() {
	clear(r.ids)
	r.lost = true
	r.wake()
}

func (r *reader) wake() {
	select {
	case r.woken <- struct{}{}:
	default:
	}
}

// Changes implements node.Changes.
func (h *Hub) Changes(ctx context.Context) <-chan node.Change {
	out := make(chan node.Change)
	r := &reader{ids: map[string]struct{}{}, lost: true, woken: make(chan struct{}, 1)}
	h.mu.Lock()
	h.readers[r] = struct{}{}
	h.mu.Unlock()
	go h.stream(ctx, r, out)
	return out
}

func (h *Hub) stream(ctx context.Context, r *reader, out chan<- node.Change) {
	defer close(out)
	defer h.leave(r)
	name := rand.Uint64()
	beat := time.NewTimer(backoff.Together(node.ChangesEvery))
	defer beat.Stop()
	for number := uint64(1); ; number++ {
		next := h.take(r)
		next.Stream, next.Number = name, number
		select {
		case <-ctx.Done():
			return
		case out <- next:
		}
		beat.Reset(backoff.Together(node.ChangesEvery))
		select {
		case <-ctx.Done():
			return
		case <-beat.C:
			continue
		case <-r.woken:
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(gather):
		}
	}
}

// take returns what isn't sent yet, and forgets it.
func (h *Hub) take(r *reader) node.Change {
	h.mu.Lock()
	defer h.mu.Unlock()
	next := node.Change{IDs: make([]string, 0, len(r.ids)), Lost: r.lost}
	for id := range r.ids {
		next.IDs = append(next.IDs, id)
	}
	slices.Sort(next.IDs)
	clear(r.ids)
	r.lost = false
	return next
}

func (h *Hub) leave(r *reader) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.readers, r)
}
