package engine

import (
	"slices"

	"github.com/croft-edge/croft/pkg/supervise"
	"github.com/croft-edge/croft/provision/drift"
	"github.com/croft-edge/croft/provision/lifecycle"
	"github.com/croft-edge/croft/provision/provisioner"
	"github.com/croft-edge/croft/provision/store"
)

// compared compares the workloads on the node with the records.
type compared struct {
	*agenda
	parts   *Config
	notes   *notes
	ledger  *ledger
	flights *flights
	panel   *panel
	// free has every blocked record tried again.
	free  func()
	apply apply
}

// authentic reports whether rec's reservation still verifies: the workload of one
// that doesn't is neither made again nor removed.
func (c *compared) authentic(rec store.Record) bool {
	err := supervise.Guard(c.parts.Log, "verify", func() error { return c.parts.Policy.Authentic(rec.Reservation) })
	if err != nil {
		c.notes.drifts.LogOnce(drift.ProblemVerify, rec.ID(), func() {
			about(c.parts.Log.Error(), rec, "verify").Err(err).
				Msg("not restored: its record doesn't verify; the workload on the node is kept")
		})
	}
	return err == nil
}

// beingReplaced reports whether a newer reservation of a record's name is being
// deployed in its place: until that has ended, the older workload may be missing.
func (c *compared) beingReplaced(rec store.Record) bool {
	if rec.Name == (lifecycle.NameKey{}) || !provisioner.FactsOf(c.parts.Provisioners[rec.Reservation.Type]).Apart {
		return false
	}
	all, err := c.parts.Records.Named(rec.Name)
	return err == nil && slices.ContainsFunc(all, func(other store.Record) bool {
		return other.Phase == lifecycle.Intent && other.Deployed.IsZero() && other.Reservation.Created.After(rec.Reservation.Created)
	})
}

// overNow reports whether a record's own timer is about to end it.
func (c *compared) overNow(rec store.Record) bool {
	return lifecycle.Facts{Time: c.now}.Over(rec)
}

// drift makes an input of a difference. A workload that a reboot takes away hasn't drifted.
func (c *compared) drift(diff drift.Difference, start bool) input {
	id := diff.Record.ID()
	return input{id: id, do: func() error {
		rec, ok, err := c.ledger.record(id)
		if err != nil || !ok || rec.Phase != diff.Record.Phase || rec.Hash != diff.Record.Hash {
			return err // the record has changed since the comparison
		}
		holdsData := provisioner.FactsOf(c.parts.Provisioners[rec.Reservation.Type]).HoldsData
		if !start || diff.What != drift.Gone || holdsData {
			c.noticed(rec, diff.What)
		}
		return c.apply.event(rec, lifecycle.Event{Kind: lifecycle.Drift})
	}}
}
