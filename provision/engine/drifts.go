package engine

import (
	"maps"
	"sync"
	"time"

	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/source"
	"github.com/croft-edge/croft/provision/store"
)

// drifts is what is known of drift since the start. Moments are the node's
// uptime. It is safe for concurrent use.
type drifts struct {
	mu    sync.Mutex
	of    map[string]*drift
	total map[workload.Type]uint64
	said  map[string]bool
	// ends are the last ends of effects, for as long as a look may be older; those
	// that don't matter any more are dropped when there are sweepAt.
	ends    map[string]time.Time
	sweepAt int
}

// drift is one workload's.
type drift struct {
	kind workload.Type
	last Drift
	// open is whether it isn't right yet, since when.
	open  bool
	since time.Duration
	// restored counts how often it was made right.
	restored int
	// row counts the times in a row that it was made right and the same differed
	// at the next look; until rest it isn't attempted again.
	row  int
	rest time.Duration
}

func newDrifts() *drifts {
	return &drifts{of: map[string]*drift{}, total: map[workload.Type]uint64{}, said: map[string]bool{}, ends: map[string]time.Time{}, sweepAt: endsMost}
}

// endsMost is how many ends are remembered before any is dropped; endsFor is how
// long one may matter: no look takes longer.
const (
	endsMost = 4096
	endsFor  = time.Minute
)

// settled notes that an effect of a workload has ended.
func (d *drifts) settled(id string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	if len(d.ends) >= d.sweepAt {
		maps.DeleteFunc(d.ends, func(_ string, at time.Time) bool { return now.Sub(at) > endsFor })
		d.sweepAt = max(endsMost, 2*len(d.ends))
	}
	d.ends[id] = now
}

// changedSince reports whether an effect of a workload has ended since then.
func (d *drifts) changedSince(id string, began time.Time) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	at, known := d.ends[id]
	return known && !at.Before(began)
}

// notice notes what differs, and reports whether that is news. What doesn't
// stay right is attempted ever more seldom.
func (d *drifts) notice(rec store.Record, last Drift, now time.Duration, backoff source.Backoff) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	id, t := rec.ID(), rec.Reservation.Type
	w := d.of[id]
	if w == nil {
		w = &drift{kind: t}
		d.of[id] = w
	}
	if w.last.What != last.What {
		w.row = 0 // something else has happened to it
	}
	if w.row++; w.row > 1 {
		w.rest = now + backoff.Delay(w.row)
	}
	if w.open && w.last.What == last.What {
		return false
	}
	if !w.open {
		d.total[t]++
		w.since = now
	}
	w.open, w.last = true, last
	return true
}

// right notes that it is as it was made, and reports whether it wasn't: how
// long, and how often it has been made right.
func (d *drifts) right(id string, now time.Duration) (took time.Duration, times int, was bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	w := d.of[id]
	if w == nil || !w.open {
		return 0, 0, false
	}
	w.open = false
	w.restored++
	return now - w.since, w.restored, true
}

// calm notes that the workloads of a type that aren't in differing stayed right.
func (d *drifts) calm(t workload.Type, differing []difference) {
	d.mu.Lock()
	defer d.mu.Unlock()
	still := make(map[string]bool, len(differing))
	for _, each := range differing {
		still[each.rec.ID()] = true
	}
	for id, w := range d.of {
		if w.kind == t && !w.open && !still[id] {
			w.row, w.rest = 0, 0
		}
	}
}

// resting reports whether a workload that doesn't stay right is left alone for now.
func (d *drifts) resting(id string, now time.Duration) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	w := d.of[id]
	return w != nil && now < w.rest
}

// forget drops a workload that isn't wanted any more.
func (d *drifts) forget(id string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.of, id)
	delete(d.said, "verify "+id)
}

// shown is how often a workload was made right, and what differed last.
func (d *drifts) shown(id string) (restored int, last *Drift) {
	d.mu.Lock()
	defer d.mu.Unlock()
	w := d.of[id]
	if w == nil {
		return 0, nil
	}
	c := w.last
	return w.restored, &c
}

func (d *drifts) totals() map[workload.Type]uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return maps.Clone(d.total)
}

// once calls say the first time that key comes.
func (d *drifts) once(key string, say func()) {
	d.mu.Lock()
	known := d.said[key]
	d.said[key] = true
	d.mu.Unlock()
	if !known {
		say()
	}
}
