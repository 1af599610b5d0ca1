package provision

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/provisioner"
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
}

func newStrays(book StrayBook) *strays { return &strays{book: book} }

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
func (e *NodeEngine) quarantine(ctx context.Context, there present, recs []store.Record) {
	wanted := make(map[string]bool, len(recs))
	for _, rec := range recs {
		wanted[rec.ID()] = wants(rec)
	}
	old, err := e.strays.load()
	if err != nil {
		e.log.Error().Err(err).Msg("cannot read since when strays are known: their grace begins anew")
	}
	now, trusted := e.clock.Now()
	var known []Stray
	for _, s := range e.found(there, wanted, old) {
		if s.Since.IsZero() && trusted {
			s.Since = now
		}
		over := trusted && e.clock.Removable() && !s.Since.IsZero() && now.Sub(s.Since) >= e.limits.Grace
		if over && !e.lost(s) && e.removeStray(ctx, s) {
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

// found is what is there and not wanted, with since when from old. What a
// module that didn't answer may have stays as it was.
func (e *NodeEngine) found(there present, wanted map[string]bool, old []Stray) []Stray {
	before := make(map[Stray]time.Time, len(old))
	var out []Stray
	for _, s := range old {
		before[Stray{Type: s.Type, ID: s.ID}] = s.Since
		if there[s.Type] == nil && !wanted[s.ID] {
			out = append(out, s)
		}
	}
	for t, ids := range there {
		for id := range ids {
			if wanted[id] {
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
	e.log.Warn().Str("id", s.ID).Str("type", string(s.Type)).Time("since", s.Since).AnErr("err", err).Msg("stray removed: its grace is over")
	return err == nil
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
