package engine

import (
	"cmp"
	"slices"
	"time"

	"github.com/croft-edge/croft/pkg/clock"
	"github.com/croft-edge/croft/pkg/resources/work"
	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/drift"
	"github.com/croft-edge/croft/provision/lifecycle"
	"github.com/croft-edge/croft/provision/provisioner"
	"github.com/croft-edge/croft/provision/store"
)

// Orphans returns the workloads on the node that no record wants, by type and ID.
func (e *Engine) Orphans() []drift.Orphan {
	return slices.DeleteFunc(e.notes.orphans.All(), func(o drift.Orphan) bool {
		rec, err := e.parts.Records.Record(o.ID)
		return err == nil && adopts(rec, o.Hash) // it was adopted since
	})
}

// adopts reports whether a workload with a record's ID and the hash h is the record's.
func adopts(rec store.Record, h workload.Hash) bool {
	return !rec.Tombstone() && drift.Owns(rec, h)
}

// wanted returns a func that tells whether a record wants the workload with a label.
func (c *compared) wanted(recs []store.Record) func(l provisioner.Label) bool {
	listed := make(map[string]store.Record, len(recs))
	for _, rec := range recs {
		listed[rec.ID()] = rec
	}
	return func(l provisioner.Label) bool {
		rec, known := listed[l.ID]
		if !known { // of another type, or ended; and a cache can't list its records from before this process began
			var err error
			if rec, err = c.parts.Records.Record(l.ID); err != nil {
				return false
			}
		}
		return adopts(rec, l.Hash)
	}
}

// orphaned notes the orphans, and starts the removal of those whose grace is over.
func (c *compared) orphaned(there drift.Seen, recs []store.Record) {
	o := c.notes.orphans
	old, err := o.Load()
	if err != nil {
		c.parts.Log.Error().Err(err).Msg("cannot read when orphans were first seen: their grace period restarts")
	}
	known := c.found(there, c.wanted(recs), old)
	if !slices.Equal(known, old) {
		if err := o.Save(known); err != nil {
			c.parts.Log.Error().Err(err).Msg("cannot keep when orphans were first seen")
		}
	}
	o.Set(known)
	c.panel.orphans(known)
	for _, each := range known {
		if there[each.Type] == nil || c.parts.Provisioners[each.Type] == nil || !o.Due(each, c.now, c.grace(each)) || c.lost(each) {
			continue
		}
		rec := store.Record{Reservation: &workload.Reservation{ID: each.ID, Type: each.Type}}
		if err := c.flights.begin(&flight{kind: removeOrphan, rec: rec, orphan: each, queued: time.Now()}); err == nil {
			o.Removing(each)
		}
	}
}

// grace is how long an orphan is left alone. One with the hash of an ended
// reservation needs none: its end was proven and it was taken down, so a module made
// it after that, for a call that had no waiter any more. It may run in nobody's name.
func (c *compared) grace(o drift.Orphan) time.Duration {
	if rec, err := c.parts.Records.ByHash(o.Hash); err == nil && rec.Phase == lifecycle.Ended && rec.Reservation.Type == o.Type {
		return 0
	}
	return c.parts.Limits.Grace
}

// found lists the workloads that no record wants, with their first sighting from
// old. The orphans of a module that didn't answer are kept.
func (c *compared) found(there drift.Seen, wanted func(provisioner.Label) bool, old []drift.Orphan) []drift.Orphan {
	before := make(map[drift.OrphanKey]drift.Orphan, len(old))
	var out []drift.Orphan
	for _, each := range old {
		before[each.Key()] = each
		if there[each.Type] == nil && !wanted(each.Label()) {
			out = append(out, each)
		}
	}
	for t, labels := range there {
		for l := range labels {
			if wanted(l) {
				continue
			}
			one, known := before[drift.OrphanKey{Type: t, Label: l}]
			if !known {
				one = drift.Orphan{Type: t, ID: l.ID, Hash: l.Hash}
				c.parts.Log.Warn().Str("id", l.ID).Str("type", string(t)).Str("hash", hashText(l.Hash)).Dur("grace", c.parts.Limits.Grace).
					Msg("orphan: it has a reservation's label and no record wants it")
				c.panel.orphaned(one, work.ReasonOrphaned)
			}
			if !one.From.Known {
				one.From = lifecycle.From(c.now)
			}
			if one.Since.IsZero() && c.now.Level >= clock.Stop {
				one.Since = c.now.Now
			}
			out = append(out, one)
		}
	}
	slices.SortFunc(out, func(a, b drift.Orphan) int {
		return cmp.Or(cmp.Compare(a.Type, b.Type), a.Label().Compare(b.Label()))
	})
	return out
}

// lost reports whether an orphan holds the data of a workload that was validly
// reserved and, as far as is known, hasn't ended. One whose record was damaged
// stays until the record is back, or the operator removes the damaged file; one
// whose reservation a lying explorer sent under another ID stays until its end.
func (c *compared) lost(o drift.Orphan) bool {
	if !provisioner.FactsOf(c.parts.Provisioners[o.Type]).HoldsData {
		return false
	}
	if rec, found, err := c.ledger.byHash(o.Hash); err != nil || found && rec.Phase != lifecycle.Ended && !lifecycle.Proven(rec.Reservation.Expires(), rec.Since, c.now) {
		return true
	}
	records, ok := c.parts.Records.(damaged)
	return ok && slices.ContainsFunc(records.Quarantined(), func(q store.Quarantine) bool { return q.ID == o.ID })
}

// orphanEnded handles the outcome of an orphan's removal.
func (c *compared) orphanEnded(f *flight, err error) error {
	o := f.orphan
	if err != nil {
		again := c.notes.orphans.Postpone(o, c.now.Uptime, c.parts.Limits.Retry)
		c.parts.Log.Error().Str("id", o.ID).Str("type", string(o.Type)).Str("hash", hashText(o.Hash)).Str("step", "remove orphan").Time("since", o.Since).Dur("again", again).
			Err(err).Msg("cannot remove an orphan: tried again")
		return nil
	}
	c.notes.orphans.Removed(o)
	c.panel.orphans(c.notes.orphans.All())
	c.panel.orphaned(o, work.ReasonOrphanRemoved)
	c.free()
	c.parts.Log.Warn().Str("id", o.ID).Str("type", string(o.Type)).Str("hash", hashText(o.Hash)).Time("since", o.Since).Msg("orphan removed")
	return nil
}

// hashText is a label's hash for the log, empty when it has none.
func hashText(h workload.Hash) string {
	if h == (workload.Hash{}) {
		return ""
	}
	return h.Hex()
}
