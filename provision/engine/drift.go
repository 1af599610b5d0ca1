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
	looks := map[workload.Type]source.Look{}
	for t, p := range l.parts.Provisioners {
		looks[t] = func(ctx context.Context) (found map[provisioner.Label]provisioner.Seen, err error) {
			err = supervise.Guard(l.parts.Log, "list", func() (err error) {
				found, err = provisioner.Look(ctx, p)
				return err
			})
			return found, err
		}
	}
	s, err := source.NewDrift(source.DriftConfig{
		Looks: looks, Differs: l.desk.compared.differs, Every: l.parts.Limits.Drift, Deadline: l.parts.Limits.List, Log: l.parts.Log,
	})
	if err != nil {
		l.parts.Log.Error().Err(err).Msg("nothing is compared while the node runs")
		return nil
	}
	return s.Items(l.stop)
}

// differs reports whether the engine has to act on the workloads seen of a type.
// It runs beside the engine, and only reads.
func (c *compared) differs(t workload.Type, found map[provisioner.Label]provisioner.Seen) bool {
	recs, err := c.parts.Records.List()
	if err != nil {
		return true // the engine logs it
	}
	all := drift.Differences(recs, drift.Seen{t: found})
	c.notes.drifts.Calm(t, all)
	now := c.parts.Clock.Read()
	return c.notes.orphans.Differ(t, found, c.wanted(recs), now, c.grace) ||
		slices.ContainsFunc(all, func(diff drift.Difference) bool {
			return !c.notes.drifts.Resting(diff.Record.ID(), now.Uptime) && !lifecycle.Facts{Time: now}.Over(diff.Record) && !c.beingReplaced(diff.Record) && c.authentic(diff.Record)
		})
}

// drifted handles what the drift source has seen of a type. Workloads that changed
// after its look began are left to the next look.
func (c *compared) drifted(item source.Item) []input {
	recs, err := c.parts.Records.List()
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
	c.orphaned(there, recs)
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
