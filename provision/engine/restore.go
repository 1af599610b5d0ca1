package engine

import (
	"cmp"
	"slices"
	"time"

	"github.com/croft-edge/croft/provision/drift"
	"github.com/croft-edge/croft/provision/lifecycle"
	"github.com/croft-edge/croft/provision/source"
	"github.com/croft-edge/croft/provision/store"
	"github.com/croft-edge/croft/provision/timers"
)

// restore sets all timers, and begins to bring the node to the records' state.
// look lists the modules' workloads.
func (d *desk) restore(recs []store.Record, look func() drift.Seen) {
	start := time.Now()
	d.now = d.parts.Clock.Read()
	for _, rec := range recs {
		d.written(rec)
		d.timers.Try(rec, d.now, d.firstTry(rec))
	}
	there := look()
	slices.SortStableFunc(recs, func(a, b store.Record) int {
		return cmp.Compare(source.Rank(a.Reservation.Type), source.Rank(b.Reservation.Type))
	})
	var inputs []input
	for _, rec := range recs {
		if rec.Phase.InFlight() && rec.Phase.Wanted() && !d.compared.authentic(rec) {
			continue // neither made again nor taken away
		}
		inputs = append(inputs, d.input(rec.ID(), lifecycle.Event{Kind: lifecycle.Restart}))
	}
	for _, rec := range drift.Unlabelled(recs, there) {
		if !d.compared.overNow(rec) && d.compared.authentic(rec) {
			inputs = append(inputs, d.input(rec.ID(), lifecycle.Event{Kind: lifecycle.Drift}))
		}
	}
	differ := drift.Differences(recs, there)
	for _, diff := range differ {
		if !d.notes.drifts.Resting(diff.Record.ID(), d.now.Uptime) && !d.compared.overNow(diff.Record) && !d.compared.beingReplaced(diff.Record) && d.compared.authentic(diff.Record) {
			inputs = append(inputs, d.compared.drift(diff, true))
		}
	}
	d.round(inputs)
	d.compared.orphaned(there, recs)
	d.flights.pump()
	d.parts.Log.Info().Int("records", len(recs)).Int("differences", len(differ)).Dur("took", time.Since(start)).Msg("restored")
}

// firstTry is the delay before a record is looked at. The wall clock may have been
// set since NextAttempt was planned, so it never exceeds the longest backoff.
func (d *desk) firstTry(rec store.Record) time.Duration {
	if rec.Tombstone() {
		return timers.BuryLater
	}
	if rec.NextAttempt.IsZero() {
		return d.parts.Limits.Look
	}
	return min(max(rec.NextAttempt.Sub(d.now.Now), 0), d.parts.Limits.Retry.Max)
}
