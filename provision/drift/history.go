package drift

import (
	"maps"
	"sync"
	"time"

	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/pkg/workqueue"
	"github.com/croft-edge/croft/provision/source"
	"github.com/croft-edge/croft/provision/store"
)

// Drift is a workload's last difference from how it was made.
type Drift struct {
	At   time.Time `json:"at"`
	What string    `json:"what"`
}

// History holds the noticed drifts since the start. Times are the node's uptime.
// It is safe for concurrent use.
type History struct {
	mu    sync.Mutex
	of    map[string]*entry
	total map[workload.Type]uint64
	// logged are the keys of LogOnce.
	logged map[string]bool
	// rests holds how often in a row each drifted again in the same way, and until when it isn't attempted.
	rests *workqueue.Schedule[string]
	// ends are the last ends of effects, for as long as a look may be older; at
	// sweepAt entries the outdated ones are dropped.
	ends    map[string]time.Time
	sweepAt int
}

// entry is the history of one workload.
type entry struct {
	kind workload.Type
	last Drift
	// open is whether the drift isn't repaired yet; since is when it began.
	open  bool
	since time.Duration
	// restored counts the repairs.
	restored int
}

// NewHistory returns an empty history.
func NewHistory() *History {
	return &History{of: map[string]*entry{}, total: map[workload.Type]uint64{}, logged: map[string]bool{}, rests: workqueue.NewSchedule[string](nil), ends: map[string]time.Time{}, sweepAt: endsMost}
}

// endsMost is how many ends are remembered before any is dropped; endsFor is how
// long one may matter: no look takes longer.
const (
	endsMost = 4096
	endsFor  = time.Minute
)

// EffectEnded notes that an effect of a workload has ended now.
func (h *History) EffectEnded(id string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	if len(h.ends) >= h.sweepAt {
		maps.DeleteFunc(h.ends, func(_ string, at time.Time) bool { return now.Sub(at) > endsFor })
		h.sweepAt = max(endsMost, 2*len(h.ends))
	}
	h.ends[id] = now
}

// ChangedSince reports whether an effect of a workload has ended since began.
func (h *History) ChangedSince(id string, began time.Time) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	at, known := h.ends[id]
	return known && !at.Before(began)
}

// Notice notes a drift, and reports whether it is news. The pauses between attempts grow
// while a workload drifts in the same way again and again.
func (h *History) Notice(rec store.Record, last Drift, now time.Duration, backoff source.Backoff) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	id, t := rec.ID(), rec.Reservation.Type
	w := h.of[id]
	if w == nil {
		w = &entry{kind: t}
		h.of[id] = w
	}
	if w.last.What != last.What {
		h.rests.Forget(id) // something else has happened to it
	}
	if row := h.rests.Fail(id); row > 1 {
		h.rests.Set(id, 0, int64(now+backoff.Delay(row)))
	}
	if w.open && w.last.What == last.What {
		return false
	}
	if !w.open {
		h.total[t]++
		w.since = now
	}
	w.open, w.last = true, last
	return true
}

// Restored notes that a workload is as it was made, and reports whether it had drifted: for
// how long, and how often it was restored so far.
func (h *History) Restored(id string, now time.Duration) (took time.Duration, times int, was bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	w := h.of[id]
	if w == nil || !w.open {
		return 0, 0, false
	}
	w.open = false
	w.restored++
	return now - w.since, w.restored, true
}

// Calm notes that the workloads of a type that aren't in differing stayed as they were made.
func (h *History) Calm(t workload.Type, differing []Difference) {
	h.mu.Lock()
	defer h.mu.Unlock()
	still := make(map[string]bool, len(differing))
	for _, each := range differing {
		still[each.Record.ID()] = true
	}
	for id, w := range h.of {
		if w.kind == t && !w.open && !still[id] {
			h.rests.Drop(id)
		}
	}
}

// Resting reports whether a workload that drifts again and again is left alone for now.
func (h *History) Resting(id string, now time.Duration) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	until, rests := h.rests.At(id)
	return rests && int64(now) < until
}

// Forget drops a workload that isn't wanted any more.
func (h *History) Forget(id string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.of, id)
	h.rests.Drop(id)
	delete(h.logged, ProblemVerify+" "+id)
}

// Last returns how often a workload was restored, and its last drift; nil without one.
func (h *History) Last(id string) (restored int, last *Drift) {
	h.mu.Lock()
	defer h.mu.Unlock()
	w := h.of[id]
	if w == nil {
		return 0, nil
	}
	c := w.last
	return w.restored, &c
}

// Open reports whether a workload's last drift isn't repaired yet.
func (h *History) Open(id string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	w := h.of[id]
	return w != nil && w.open
}

// Totals are the numbers of drifts since the start, by type.
func (h *History) Totals() map[workload.Type]uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return maps.Clone(h.total)
}

// ProblemVerify is the problem of a record that doesn't verify.
const ProblemVerify = "verify"

// LogOnce calls log for the first problem of that kind of a workload.
func (h *History) LogOnce(problem, id string, log func()) {
	key := problem + " " + id
	h.mu.Lock()
	known := h.logged[key]
	h.logged[key] = true
	h.mu.Unlock()
	if !known {
		log()
	}
}

// Size is the number of workloads in the history.
func (h *History) Size() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return max(len(h.of), h.rests.Failing(), h.rests.Len())
}
