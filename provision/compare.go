package provision

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/provisioner"
	"github.com/croft-edge/croft/provision/source"
	"github.com/croft-edge/croft/provision/store"
)

// seen is what the modules say is on the node: by type and ID, what of it
// differs from how it was made, empty when nothing does. A type whose module
// didn't answer isn't in it.
type seen map[workload.Type]map[string]provisioner.Seen

// isOf reports whether what was seen under a record's ID is the record's: it has
// its hash, or none that is known.
func isOf(s provisioner.Seen, rec store.Record) bool {
	return s.Hash == (workload.Hash{}) || s.Hash == rec.Hash
}

// gone is what differs of a workload that isn't on the node at all.
const gone = "gone"

// difference is a record that what was seen doesn't agree with.
type difference struct {
	rec store.Record
	// what differs, in words; empty for an intent, which may be half done, and
	// for what ended with a newer one of its name.
	what string
}

// differences holds records against what was seen, the types in the order in
// which they need each other. It is the one comparison there is. Records that a
// newer one of the same name has replaced aren't missing.
func differences(recs []store.Record, there seen) []difference {
	var out []difference
	for _, rec := range recs {
		what := ""
		switch rec.Phase {
		case store.Intent:
		case store.Deployed:
			listed, answered := there[rec.Reservation.Type]
			found, present := listed[rec.ID()]
			present = present && isOf(found, rec)
			if !answered || present && found.Drift == "" {
				continue
			}
			what = found.Drift
			if !present {
				what = gone
			}
		default:
			continue // nothing to be there, or a timer of its own
		}
		out = append(out, difference{rec, what})
	}
	out = withoutReplaced(out, recs)
	slices.SortStableFunc(out, func(a, b difference) int {
		return cmp.Compare(source.Rank(a.rec.Reservation.Type), source.Rank(b.rec.Reservation.Type))
	})
	return out
}

// withoutReplaced drops the deployed ones that are a newer one's now. One whose
// newer one has ended stays: it has to end too.
func withoutReplaced(all []difference, recs []store.Record) []difference {
	if !slices.ContainsFunc(all, func(d difference) bool { return d.rec.Reservation.Type == workload.TypeNetwork }) {
		return all // nothing else has a name that another may take
	}
	newest := map[store.NetworkKey]store.Record{}
	for _, rec := range recs {
		key, named := store.KeyOf(rec.Reservation)
		if !named || !holdsName(rec) {
			continue
		}
		if old, there := newest[key]; !there || rec.Reservation.Created.After(old.Reservation.Created) {
			newest[key] = rec
		}
	}
	out := all[:0]
	for _, d := range all {
		key, named := store.KeyOf(d.rec.Reservation)
		newer, there := newest[key]
		if named && there && newer.Reservation.Created.After(d.rec.Reservation.Created) {
			if d.rec.Phase == store.Deployed && newer.Phase != store.Ended {
				continue
			}
			d.what = ""
		}
		out = append(out, d)
	}
	return out
}

// lookAt asks the module of one type what is on the node.
func (e *NodeEngine) lookAt(ctx context.Context, t workload.Type) (found map[string]provisioner.Seen, err error) {
	err = e.step(ctx, "list", string(t), e.limits.List, func(ctx context.Context) (err error) {
		found, err = provisioner.Look(ctx, e.provisioners[t])
		return err
	})
	if found == nil && err == nil {
		found = map[string]provisioner.Seen{}
	}
	return found, err
}

// mendBudget is how long the attempts of one comparison may take that come to
// nothing: the rest waits for the next one.
const mendBudget = 5 * time.Second

// comparison is one round of holding records against what was seen.
type comparison struct {
	recs  []store.Record
	there seen
	// start is whether it is the one at the node's start: what a reboot takes
	// away hasn't drifted, and intents are half done.
	start bool
}

// compare notes strays and works the differences off, each by an attempt. It
// returns how many it attempted. The error is Transient when some are left.
func (e *NodeEngine) compare(work, stop context.Context, c comparison) (made int, err error) {
	e.quarantine(work, c.there, c.recs)
	lost := map[workload.Type]time.Duration{}
	for _, d := range differences(c.recs, c.there) {
		if stop.Err() != nil {
			return made, nil
		}
		t := d.rec.Reservation.Type
		if !e.mayMend(d, c.start) {
			continue
		}
		if _, answered := c.there[t]; !answered || e.isSlow(t) || lost[t] >= mendBudget {
			err = node.Errorf(node.Transient, "cannot make all of type %q right: what provides it fails, or is slow", t)
			if d.rec.Phase == store.Intent {
				e.retries.Set(d.rec.ID(), t, time.Now().Add(e.limits.Retry.Delay(1)))
			}
			continue
		}
		made++
		began := time.Now()
		if !e.mend(work, d, c.start) {
			lost[t] += time.Since(began)
		}
	}
	return made, err
}

// mayMend reports whether d is for the engine to work off now. It may be asked
// from anywhere.
func (e *NodeEngine) mayMend(d difference, start bool) bool {
	switch {
	case d.rec.Phase == store.Intent && !start:
		return false // it is being done, or has a timer
	case e.over(d.rec):
		return false // its timer is about to end it
	case e.drifts.resting(d.rec.ID()):
		return false
	}
	return e.authentic(d.rec)
}

// authentic reports whether rec's reservation still verifies: what doesn't is
// neither made again nor taken away.
func (e *NodeEngine) authentic(rec store.Record) bool {
	err := e.guard("verify", rec.ID(), func() error { return e.policy.Authentic(rec.Reservation) })
	if err != nil {
		e.drifts.once("verify "+rec.ID(), func() {
			e.log.Error().Str("id", rec.ID()).Str("type", string(rec.Reservation.Type)).Str("step", "verify").Err(err).
				Msg("not restored: its record doesn't verify; what is on the node stays")
		})
	}
	return err == nil
}

// mend attempts one workload, unless its record has changed meanwhile, and
// reports whether it is right now.
func (e *NodeEngine) mend(work context.Context, d difference, start bool) bool {
	id := d.rec.ID()
	rec, err := e.records.Record(id)
	if err != nil || rec.Phase != d.rec.Phase || rec.Hash != d.rec.Hash {
		return true // it isn't what was compared any more
	}
	if d.what != "" && !(start && d.what == gone && !e.holdsData(rec)) {
		e.noticed(rec, d.what)
	}
	if e.again(id, e.attempt(work, rec)) != nil {
		return false
	}
	rec, err = e.records.Record(id)
	return err == nil && (rec.Phase == store.Deployed || rec.Tombstone())
}
