package engine

import (
	"context"
	"slices"

	"github.com/croft-edge/croft/pkg/resources/work"
	"github.com/croft-edge/croft/pkg/supervise"
	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/drift"
	"github.com/croft-edge/croft/provision/lifecycle"
	"github.com/croft-edge/croft/provision/provisioner"
	"github.com/croft-edge/croft/provision/source"
	"github.com/croft-edge/croft/provision/store"
)

// watch is the source of missing or changed workloads. It looks from goroutines of
// its own, and only reads.
func (l *loop) watch() <-chan source.Item {
	looks, told := map[workload.Type]source.Look{}, map[workload.Type]source.Told{}
	for t, p := range l.parts.Provisioners {
		looks[t] = func(ctx context.Context) (map[provisioner.Label]provisioner.Seen, error) {
			return l.guarded(func() (map[provisioner.Label]provisioner.Seen, error) { return provisioner.Look(ctx, p) })
		}
		if streams := provisioner.StreamsOf(p); len(streams) > 0 {
			told[t] = source.Told{Changes: streams, LookAt: func(ctx context.Context, ids []string) (map[provisioner.Label]provisioner.Seen, error) {
				return l.guarded(func() (map[provisioner.Label]provisioner.Seen, error) { return provisioner.LookAt(ctx, p, ids) })
			}}
		}
	}
	s, err := source.NewDrift(source.DriftConfig{
		Looks: looks, Told: told, Wanted: l.desk.compared.deployed, Differs: l.desk.compared.differs,
		Every: l.parts.Limits.Drift, Resync: l.parts.Limits.Drift * resyncs / 10, Deadline: l.parts.Limits.List, Log: l.parts.Log,
	})
	if err != nil {
		l.parts.Log.Error().Err(err).Msg("nothing is compared while the node runs")
		return nil
	}
	return s.Items(l.stop)
}

// resyncs is how much longer a type's modules aren't asked about everything while they tell
// what has changed, in tenths. With the usual Limits.Drift, a difference that nobody tells
// is seen within 26 seconds.
const resyncs = 22

// guarded makes one look, whose panic is an error.
func (l *loop) guarded(look func() (map[provisioner.Label]provisioner.Seen, error)) (found map[provisioner.Label]provisioner.Seen, err error) {
	err = supervise.Guard(l.parts.Log, "list", func() (err error) {
		found, err = look()
		return err
	})
	return found, err
}

// deployed are those of the IDs whose workload of a type is deployed, and isn't left alone
// for now. It runs beside the engine, and only reads.
func (c *compared) deployed(t workload.Type, ids []string) []string {
	now := c.parts.Clock.Read().Uptime
	return slices.DeleteFunc(slices.Clone(ids), func(id string) bool {
		rec, err := c.parts.Records.Record(id)
		return err != nil || rec.Reservation.Type != t || rec.Phase != lifecycle.Deployed || c.notes.drifts.Resting(id, now)
	})
}

// compareWith are the records that a listing of a type is to be compared with: all of the type, or those of the
// IDs that were looked at.
func (c *compared) compareWith(t workload.Type, ids []string) (recs []store.Record, err error) {
	if ids == nil {
		return c.parts.Records.OfType(t)
	}
	for _, id := range ids {
		if rec, err := c.parts.Records.Record(id); err == nil {
			recs = append(recs, rec)
		}
	}
	return recs, nil
}

// differs reports whether the engine has to act on the workloads seen of a type, or of
// those with these IDs. It runs beside the engine, and only reads.
func (c *compared) differs(t workload.Type, found map[provisioner.Label]provisioner.Seen, ids []string) bool {
	recs, err := c.compareWith(t, ids)
	if err != nil {
		return true // the engine logs it
	}
	all := drift.Differences(recs, drift.Seen{t: found})
	now := c.parts.Clock.Read()
	differ := slices.ContainsFunc(all, func(diff drift.Difference) bool {
		return !c.notes.drifts.Resting(diff.Record.ID(), now.Uptime) && !lifecycle.Facts{Time: now}.Over(diff.Record) && !c.beingReplaced(diff.Record) && c.authentic(diff.Record)
	})
	if ids != nil {
		return differ // orphans are found by looks at everything only
	}
	c.notes.drifts.Calm(t, all)
	return c.notes.orphans.Differ(t, found, c.wanted(recs), now, c.grace) || differ
}

// drifted handles what the drift source has seen of a type. Workloads that changed
// after its look began are left to the next look.
func (c *compared) drifted(item source.Item) []input {
	recs, err := c.compareWith(item.Type, item.IDs)
	if err != nil {
		c.parts.Log.Error().Err(err).Str("step", "drift").Msg("cannot list the records")
		item.Finish(err)
		return nil
	}
	c.now = c.parts.Clock.Read()
	there := drift.Seen{item.Type: item.Seen}
	var inputs []input
	for _, diff := range drift.Differences(recs, there) {
		id := diff.Record.ID()
		if c.flights.flying(id) || c.notes.drifts.ChangedSince(id, item.Began) || c.notes.drifts.Resting(id, c.now.Uptime) ||
			c.overNow(diff.Record) || c.beingReplaced(diff.Record) || !c.authentic(diff.Record) {
			continue
		}
		inputs = append(inputs, c.drift(diff, false))
	}
	if item.IDs == nil {
		c.orphaned(there, recs)
	}
	item.Finish(nil)
	return inputs
}

// noticed notes and logs that a workload has drifted.
func (c *compared) noticed(rec store.Record, what string) {
	if c.notes.drifts.Notice(rec, drift.Drift{At: c.now.Now, What: workload.ErrorText(what)}, c.now.Uptime, c.parts.Limits.Retry) {
		about(c.parts.Log.Warn(), rec, "drift").Str("what", what).
			Msg("drifted: the workload on the node differs from its reservation; it is restored")
		c.panel.event(rec, work.ReasonDrifted, what)
		c.panel.change(rec.ID())
	}
}

// righted notes and logs that a drifted workload is as it was made again.
func (c *compared) righted(rec store.Record) {
	if took, times, was := c.notes.drifts.Restored(rec.ID(), c.now.Uptime); was {
		about(c.parts.Log.Info(), rec, "drift").Int("restored", times).Dur("took", took).
			Msg("restored: the workload on the node matches its reservation again")
		c.panel.event(rec, work.ReasonRestored, "")
	}
}

// Drifts returns how many workloads were seen to drift since the start, by type.
func (e *Engine) Drifts() map[workload.Type]uint64 { return e.notes.drifts.Totals() }
