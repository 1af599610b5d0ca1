package engine

import (
	"context"
	"slices"
	"time"

	"github.com/croft-edge/croft/pkg/run"
	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/lifecycle"
	"github.com/croft-edge/croft/provision/provisioner"
	"github.com/croft-edge/croft/provision/source"
	"github.com/croft-edge/croft/provision/store"
)

// Drift is what was last seen to differ of a workload from how it was made.
type Drift struct {
	At   time.Time `json:"at"`
	What string    `json:"what"`
}

// watch is the source of what is gone or changed under the node. It looks from
// goroutines of its own, and only reads.
func (l *loop) watch() <-chan source.Item {
	looks := map[workload.Type]source.Look{}
	for t, p := range l.parts.Provisioners {
		looks[t] = func(ctx context.Context) (found map[string]provisioner.Seen, err error) {
			err = run.Guard(l.parts.Log, "list", func() (err error) {
				found, err = provisioner.Look(ctx, p)
				return err
			})
			return found, err
		}
	}
	s, err := source.NewDrift(source.DriftConfig{
		Looks: looks, Differs: l.desk.differs, Every: l.parts.Limits.Drift, Deadline: l.parts.Limits.List, Log: l.parts.Log,
	})
	if err != nil {
		l.parts.Log.Error().Err(err).Msg("nothing is compared while the node runs")
		return nil
	}
	return s.Items(l.stop)
}

// differs reports whether the engine has anything to do about what was seen of
// a type. It runs beside the engine, and only reads.
func (d *desk) differs(t workload.Type, found map[string]provisioner.Seen) bool {
	recs, err := d.parts.Records.List()
	if err != nil {
		return true // the engine says so
	}
	all := differences(recs, seen{t: found})
	d.notes.drifts.calm(t, all)
	now := d.parts.Clock.Read()
	return d.notes.orphans.differ(t, found, d.wanted(recs), now, d.parts.Limits.Grace) ||
		slices.ContainsFunc(all, func(diff difference) bool {
			return !d.notes.drifts.resting(diff.rec.ID(), now.Uptime) && !lifecycle.Facts{Time: now}.Over(diff.rec) && d.authentic(diff.rec)
		})
}

// drifted takes in what the source of drift has seen of a type. What has changed
// since it began to look is looked at the next time.
func (d *desk) drifted(item source.Item) []input {
	recs, err := d.parts.Records.List()
	if err != nil {
		d.parts.Log.Error().Err(err).Str("step", "drift").Msg("cannot list the records")
		item.Finish(err)
		return nil
	}
	d.now = d.parts.Clock.Read()
	there := seen{item.Type: item.Seen}
	var inputs []input
	for _, diff := range differences(recs, there) {
		id := diff.rec.ID()
		if d.flights.flying(id) || d.notes.drifts.changedSince(id, item.Began) || d.notes.drifts.resting(id, d.now.Uptime) ||
			d.overNow(diff.rec) || !d.authentic(diff.rec) {
			continue
		}
		inputs = append(inputs, d.drift(diff, false))
	}
	d.orphaned(there, recs)
	item.Finish(nil)
	return inputs
}

// noticed says that a workload has drifted.
func (d *desk) noticed(rec store.Record, what string) {
	if d.notes.drifts.notice(rec, Drift{At: d.now.Now, What: workload.ErrorText(what)}, d.now.Uptime, d.parts.Limits.Retry) {
		d.log(d.parts.Log.Warn(), rec, "drift").Str("what", what).
			Msg("drifted: it isn't on the node as it was made; it is made right")
	}
}

// righted says that a workload that had drifted is as it was made again.
func (d *desk) righted(rec store.Record) {
	if took, times, was := d.notes.drifts.right(rec.ID(), d.now.Uptime); was {
		d.log(d.parts.Log.Info(), rec, "drift").Int("restored", times).Dur("took", took).
			Msg("back: it is on the node as it was made again")
	}
}

// Drifts returns how many workloads were seen to drift since the start, by type.
func (e *Engine) Drifts() map[workload.Type]uint64 { return e.notes.drifts.totals() }
