package engine

import (
	"github.com/croft-edge/croft/provision/lifecycle"
	"github.com/croft-edge/croft/provision/provisioner"
	"github.com/croft-edge/croft/provision/store"
)

// place is what a record that is to be provisioned finds of its name; nil when its
// name has no other, or isn't of a type whose workloads are apart.
func (d *desk) place(rec store.Record) (*provisioner.Place, error) {
	if rec.Name == (lifecycle.NameKey{}) || !provisioner.FactsOf(d.parts.Provisioners[rec.Reservation.Type]).Apart {
		return nil, nil
	}
	all, err := d.ledger.named(rec.Name)
	if err != nil {
		return nil, err
	}
	out := &provisioner.Place{}
	for _, other := range all {
		if other.ID() == rec.ID() || other.Tombstone() || !other.Begun {
			continue
		}
		r := other.Clone().Reservation
		out.Others = append(out.Others, r)
		// What was told ok has nothing to go back to.
		older := other.Reservation.Created.Before(rec.Reservation.Created)
		if older && rec.Deployed.IsZero() && !other.Deployed.IsZero() && other.Phase.Wanted() {
			out.Older = r
		}
	}
	if len(out.Others) == 0 {
		return nil, nil
	}
	return out, nil
}
