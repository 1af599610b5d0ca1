package provision

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/source"
	"github.com/croft-edge/croft/provision/store"
)

// present is what the modules say is on the node: by type, the IDs. A type
// whose module didn't answer isn't in it.
type present map[workload.Type]map[string]bool

// restore brings the node to what the records say, without any explorer, and
// sets all timers. Whatever can't be done now is tried again by a timer.
func (e *NodeEngine) restore(work, stop context.Context) {
	start := time.Now()
	failures := 0
	recs, err := e.records.List()
	for err != nil {
		failures++
		e.log.Error().Err(err).Int("attempts", failures).Msg("cannot list the records: nothing is done before")
		if !pause(stop, e.limits.Retry.Delay(failures)) {
			return
		}
		recs, err = e.records.List()
	}
	for _, rec := range recs {
		e.schedule(rec)
	}
	made := e.compare(work, stop, recs)
	e.resyncLost()
	e.ready.Store(true)
	e.log.Info().Int("records", len(recs)).Int("differences", made).Dur("took", time.Since(start)).Msg("restored")
}

// sweep is restore's comparison while the node runs: what vanished is made
// again, what nobody knows is quarantined.
func (e *NodeEngine) sweep(work, stop context.Context) {
	recs, err := e.records.List()
	if err != nil {
		e.log.Error().Err(err).Msg("cannot list the records")
		return
	}
	e.compare(work, stop, recs)
}

// compare holds records against what is on the node, types in the order in
// which they need each other, and works off the differences. It returns their number.
func (e *NodeEngine) compare(work, stop context.Context, recs []store.Record) int {
	slices.SortStableFunc(recs, func(a, b store.Record) int {
		return cmp.Compare(source.Rank(a.Reservation.Type), source.Rank(b.Reservation.Type))
	})
	there := e.list(work)
	e.quarantine(work, there, recs)
	differences := 0
	for _, rec := range recs {
		if stop.Err() != nil {
			return differences
		}
		if !e.missing(rec, there) {
			continue
		}
		differences++
		if err := e.again(rec.ID(), e.attempt(work, rec)); err != nil {
			continue
		}
		e.skipBroken(rec, there)
	}
	return differences
}

// list asks every module what it has, once.
func (e *NodeEngine) list(ctx context.Context) present {
	there := present{}
	failed := false
	for _, t := range workload.Types() {
		p := e.provisioners[t]
		if p == nil {
			continue
		}
		var ids []string
		err := e.step(ctx, "list", string(t), e.limits.List, func(ctx context.Context) (err error) {
			ids, err = p.List(ctx)
			return err
		})
		if err != nil {
			failed = true
			e.log.Warn().Str("type", string(t)).Str("step", "list").Err(err).Msg("cannot compare: looked at again")
			continue
		}
		set := make(map[string]bool, len(ids))
		for _, id := range ids {
			set[id] = true
		}
		there[t] = set
	}
	if failed {
		e.listLater()
	} else {
		e.unlisted = 0
	}
	return there
}

// missing reports whether rec's workload should be on the node, may be
// provisioned, and isn't there, or may be there by half.
func (e *NodeEngine) missing(rec store.Record, there present) bool {
	listed, answered := there[rec.Reservation.Type]
	switch {
	case rec.Phase != store.Intent && rec.Phase != store.Deployed:
		return false // nothing to be there, or a timer of its own
	case rec.Phase == store.Deployed && listed[rec.ID()]:
		return false
	case e.over(rec):
		return false // its timer is about to end it
	}
	if err := e.guard("verify", rec.ID(), func() error { return e.policy.Authentic(rec.Reservation) }); err != nil {
		e.said.log(e.log.Error(), "restore"+rec.ID()).Str("id", rec.ID()).Str("type", string(rec.Reservation.Type)).
			Str("step", "verify").Err(err).Msg("not restored: its record doesn't verify; what is on the node stays")
		return false
	}
	if answered {
		return true
	}
	if rec.Phase == store.Intent {
		e.retries.Set(rec.ID(), rec.Reservation.Type, time.Now().Add(e.limits.Retry.Delay(1)))
	}
	return false
}

// skipBroken takes a type out of this comparison whose module has just
// failed: the others of it need not wait for their deadlines one by one.
func (e *NodeEngine) skipBroken(rec store.Record, there present) {
	now, err := e.records.Record(rec.ID())
	if err == nil && now.Phase == store.Retry {
		delete(there, rec.Reservation.Type)
		e.listLater()
	}
}

// listLater has the modules asked again, later each time in a row.
func (e *NodeEngine) listLater() {
	e.unlisted++
	e.relist = time.Now().Add(min(e.limits.Retry.Delay(e.unlisted), time.Minute))
}

// damaged is what a store that sets damaged files aside tells.
type damaged interface {
	Quarantined() []store.Quarantine
}

// resyncLost asks the explorer for everything again when a record's file was
// damaged: its reservation comes again and adopts what is on the node.
func (e *NodeEngine) resyncLost() {
	records, ok := e.records.(damaged)
	if !ok {
		return
	}
	for _, q := range records.Quarantined() {
		if q.ID == "" {
			continue
		}
		if _, err := e.records.Record(q.ID); node.KindOf(err) == node.NotExist {
			e.log.Warn().Str("id", q.ID).Str("cause", q.Cause).Msg("a record was lost: the explorer is asked for everything again")
			e.resync()
			return
		}
	}
}

// resync makes the sources that can bring everything again do so.
func (e *NodeEngine) resync() {
	for _, s := range e.sources {
		if r, ok := s.(interface{ Reset() }); ok {
			r.Reset()
		}
	}
}

// pause returns after d, or false at once when ctx is done.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
