package engine

import (
	"cmp"
	"slices"

	"github.com/croft-edge/croft/pkg/run"
	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/lifecycle"
	"github.com/croft-edge/croft/provision/provisioner"
	"github.com/croft-edge/croft/provision/source"
	"github.com/croft-edge/croft/provision/store"
)

// seen is what the modules say is on the node, by type and ID. A type whose
// module didn't answer isn't in it.
type seen map[workload.Type]map[string]provisioner.Seen

// What differs of a workload that isn't on the node at all, or in whose place is
// another reservation's.
const (
	gone    = "gone"
	foreign = "what is there in its place is another reservation's"
)

// difference is a record that what was seen doesn't agree with.
type difference struct {
	rec  store.Record
	what string
}

// differences holds records against what was seen, the types in the order in
// which they need each other. It is the one comparison there is.
func differences(recs []store.Record, there seen) []difference {
	var out []difference
	for _, rec := range recs {
		listed, answered := there[rec.Reservation.Type]
		if rec.Phase != lifecycle.Deployed || !answered {
			continue
		}
		found, present := listed[rec.ID()]
		switch {
		case !present:
			out = append(out, difference{rec, gone})
		case !owns(rec, found):
			out = append(out, difference{rec, foreign})
		case found.Drift != "":
			out = append(out, difference{rec, found.Drift})
		}
	}
	slices.SortStableFunc(out, func(a, b difference) int {
		return cmp.Compare(source.Rank(a.rec.Reservation.Type), source.Rank(b.rec.Reservation.Type))
	})
	return out
}

// unlabelled are the records whose workload an older croft has made: it is there
// as it should be, and says nowhere whose it is. Provisioned once more it has its
// label, and is otherwise left alone. Without one, nobody could tell whose it is
// once this node had lost its records.
func unlabelled(recs []store.Record, there seen) []store.Record {
	var out []store.Record
	for _, rec := range recs {
		found, present := there[rec.Reservation.Type][rec.ID()]
		if rec.Phase == lifecycle.Deployed && rec.Unlabelled && present && found.Hash == (workload.Hash{}) && found.Drift == "" {
			out = append(out, rec)
		}
	}
	return out
}

// owns reports whether what was seen under a record's ID is its workload. What an
// older croft made has no hash.
func owns(rec store.Record, found provisioner.Seen) bool {
	return found.Hash == workload.Hash{} || found.Hash == rec.Hash
}

// compared holds what is on the node against the records.
type compared struct {
	*agenda
	parts   *Config
	notes   *notes
	ledger  *ledger
	flights *flights
	// free has what is blocked tried again.
	free  func()
	apply apply
}

// authentic reports whether rec's reservation still verifies: what doesn't is
// neither made again nor taken away.
func (c *compared) authentic(rec store.Record) bool {
	err := run.Guard(c.parts.Log, "verify", func() error { return c.parts.Policy.Authentic(rec.Reservation) })
	if err != nil {
		c.notes.drifts.once("verify "+rec.ID(), func() {
			about(c.parts.Log.Error(), rec, "verify").Err(err).
				Msg("not restored: its record doesn't verify; what is on the node stays")
		})
	}
	return err == nil
}

// overNow reports whether a record's own timer is about to end it.
func (c *compared) overNow(rec store.Record) bool {
	return lifecycle.Facts{Time: c.now}.Over(rec)
}

// drift is a difference as an input. What a reboot takes away hasn't drifted.
func (c *compared) drift(diff difference, start bool) input {
	id := diff.rec.ID()
	return input{id: id, do: func() error {
		rec, ok, err := c.ledger.record(id)
		if err != nil || !ok || rec.Phase != diff.rec.Phase || rec.Hash != diff.rec.Hash {
			return err // it isn't what was compared any more
		}
		holdsData := provisioner.FactsOf(c.parts.Provisioners[rec.Reservation.Type]).HoldsData
		if !start || diff.what != gone || holdsData {
			c.noticed(rec, diff.what)
		}
		return c.apply.event(rec, lifecycle.Event{Kind: lifecycle.Drift})
	}}
}
