package provision

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/provisioner"
	"github.com/croft-edge/croft/provision/source"
	"github.com/croft-edge/croft/provision/store"
)

// Stray is something on the node that carries a reservation's label while no
// record wants it. It is left alone for the grace period, then removed.
type Stray struct {
	Type workload.Type `json:"type"`
	ID   string        `json:"id"`
	// Since is when it was first seen, by a clock that could be trusted; zero
	// while there was none.
	Since time.Time `json:"since"`
}

// strays is what is known of them.
type strays struct {
	book StrayBook

	mu    sync.Mutex
	known []Stray
	// failed counts the removals in a row that failed, retry is when one is
	// tried again.
	failed map[Stray]int
	retry  map[Stray]time.Time
}

func newStrays(book StrayBook) *strays {
	return &strays{book: book, failed: map[Stray]int{}, retry: map[Stray]time.Time{}}
}

// Strays returns what is on the node that no record wants, by type and ID.
func (e *NodeEngine) Strays() []Stray {
	e.strays.mu.Lock()
	known := slices.Clone(e.strays.known)
	e.strays.mu.Unlock()
	return slices.DeleteFunc(known, func(s Stray) bool {
		rec, err := e.records.Record(s.ID)
		return err == nil && wants(rec) // it was adopted since
	})
}

// wants reports whether rec is of a workload that is or may be on the node.
func wants(rec store.Record) bool { return !rec.Tombstone() }

// quarantine notes the strays, and removes those whose grace is over.
func (e *NodeEngine) quarantine(ctx context.Context, there seen, recs []store.Record) {
	old, err := e.strays.load()
	if err != nil {
		e.log.Error().Err(err).Msg("cannot read since when strays are known: their grace begins anew")
	}
	now, trusted := e.clock.Now()
	var known []Stray
	for _, s := range e.found(there, e.wanted(recs), old) {
		if s.Since.IsZero() && trusted {
			s.Since = now
		}
		if there[s.Type] != nil && e.strayOver(s) && e.removeStray(ctx, s) {
			continue
		}
		known = append(known, s)
	}
	if slices.Equal(known, old) {
		known = old
	} else if err := e.strays.save(known); err != nil {
		e.log.Error().Err(err).Msg("cannot keep since when strays are known")
	}
	e.strays.mu.Lock()
	e.strays.known = known
	e.strays.mu.Unlock()
}

// wanted tells whether a record wants what was seen under an ID: it is the
// record's, or nobody knows whose it is.
func (e *NodeEngine) wanted(recs []store.Record) func(id string, s provisioner.Seen) bool {
	listed := make(map[string]store.Record, len(recs))
	for _, rec := range recs {
		listed[rec.ID()] = rec
	}
	return func(id string, s provisioner.Seen) bool {
		rec, known := listed[id]
		if !known { // a cache can't list what it had before this process began
			var err error
			if rec, err = e.records.Record(id); err != nil {
				return false
			}
		}
		return wants(rec) && isOf(s, rec)
	}
}

// strayOver reports whether a stray is to be removed now: its grace is over by
// a time that can be trusted.
func (e *NodeEngine) strayOver(s Stray) bool {
	now, trusted := e.clock.Now()
	return trusted && e.clock.Removable() && !s.Since.IsZero() && now.Sub(s.Since) >= e.limits.Grace &&
		!e.strays.postponed(s) && !e.lost(s)
}

// straysDiffer reports whether quarantine has anything to do about what was
// seen of a type. It may be asked from anywhere.
func (e *NodeEngine) straysDiffer(t workload.Type, found map[string]provisioner.Seen, recs []store.Record) bool {
	wanted := e.wanted(recs)
	_, trusted := e.clock.Now()
	known := map[string]bool{}
	e.strays.mu.Lock()
	all := slices.Clone(e.strays.known)
	e.strays.mu.Unlock()
	for _, s := range all {
		if s.Type != t {
			continue
		}
		known[s.ID] = true
		seen, there := found[s.ID]
		if !there || wanted(s.ID, seen) || s.Since.IsZero() && trusted || e.strayOver(s) {
			return true
		}
	}
	for id, seen := range found {
		if !known[id] && !wanted(id, seen) {
			return true
		}
	}
	return false
}

// found is what is there and not wanted, with since when from old. What a
// module that didn't answer may have stays as it was.
func (e *NodeEngine) found(there seen, wanted func(id string, s provisioner.Seen) bool, old []Stray) []Stray {
	before := make(map[Stray]time.Time, len(old))
	var out []Stray
	for _, s := range old {
		before[Stray{Type: s.Type, ID: s.ID}] = s.Since
		if there[s.Type] == nil && !wanted(s.ID, provisioner.Seen{}) {
			out = append(out, s)
		}
	}
	for t, ids := range there {
		for id, one := range ids {
			if wanted(id, one) {
				continue
			}
			s := Stray{Type: t, ID: id}
			since, seen := before[s]
			if !seen {
				e.log.Warn().Str("id", id).Str("type", string(t)).Dur("grace", e.limits.Grace).
					Msg("stray: it has a reservation's label and no record wants it")
			}
			s.Since = since
			out = append(out, s)
		}
	}
	slices.SortFunc(out, func(a, b Stray) int {
		return cmp.Or(cmp.Compare(a.Type, b.Type), cmp.Compare(a.ID, b.ID))
	})
	return out
}

// lost reports whether a stray holds the data of a workload whose record was
// damaged: that it was validly asked for is known, that it has ended isn't. It
// stays until its record is back, or the operator removes the damaged file.
func (e *NodeEngine) lost(s Stray) bool {
	h, ok := e.provisioners[s.Type].(provisioner.DataHolder)
	if !ok || !h.HoldsData() {
		return false
	}
	records, ok := e.records.(damaged)
	return ok && slices.ContainsFunc(records.Quarantined(), func(q store.Quarantine) bool { return q.ID == s.ID })
}

func (e *NodeEngine) removeStray(ctx context.Context, s Stray) bool {
	p := e.provisioners[s.Type]
	if p == nil {
		return false
	}
	err := e.step(ctx, "remove stray", s.ID, e.limits.Decommission, func(ctx context.Context) error {
		return p.Decommission(ctx, &workload.Reservation{ID: s.ID, Type: s.Type})
	})
	if err != nil {
		again := e.strays.postpone(s, e.limits.Retry)
		e.log.Error().Str("id", s.ID).Str("type", string(s.Type)).Str("step", "remove stray").Time("since", s.Since).Time("again", again).
			Err(err).Msg("cannot remove a stray whose grace is over: tried again")
		return false
	}
	e.strays.removed(s)
	e.freed()
	e.log.Warn().Str("id", s.ID).Str("type", string(s.Type)).Time("since", s.Since).Msg("stray removed: its grace is over")
	return true
}

// key is what a stray is known by.
func (s Stray) key() Stray { return Stray{Type: s.Type, ID: s.ID} }

// postpone notes that a removal failed, and returns when it is tried again.
func (s *strays) postpone(stray Stray, backoff source.Backoff) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := stray.key()
	s.failed[k]++
	s.retry[k] = time.Now().Add(backoff.Delay(s.failed[k]))
	return s.retry[k]
}

func (s *strays) removed(stray Stray) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.failed, stray.key())
	delete(s.retry, stray.key())
}

// postponed reports whether a removal failed a moment ago.
func (s *strays) postponed(stray Stray) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Now().Before(s.retry[stray.key()])
}

// load reads the book once; without one it knows what it saw itself.
func (s *strays) load() ([]Stray, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.known != nil || s.book == nil {
		return s.known, nil
	}
	return s.book.Load()
}

func (s *strays) save(known []Stray) error {
	if s.book == nil {
		return nil
	}
	return s.book.Save(known)
}
