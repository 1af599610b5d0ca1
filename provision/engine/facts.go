package engine

import (
	"time"

	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/lifecycle"
	"github.com/croft-edge/croft/provision/provisioner"
	"github.com/croft-edge/croft/provision/store"
)

// facts collects the table's input about a record.
func (d *desk) facts(rec store.Record) (lifecycle.Facts, error) {
	name, err := d.standing(rec)
	f := lifecycle.Facts{
		Time: d.now, Name: name, InFlight: rec.Reservation != nil && d.flights.flying(rec.ID()), Crowded: d.judging.refusedMost(), Roomy: d.roomy(),
		Limits: lifecycle.Limits{
			Grace: d.parts.Limits.Grace, Look: d.parts.Limits.Look, Longest: longest,
			Backoff: d.parts.Limits.Retry.Delay, TellAfter: tellAfter,
		},
	}
	if rec.Reservation != nil {
		f.Type = provisioner.FactsOf(d.parts.Provisioners[rec.Reservation.Type])
		f.Older, f.Returns = d.bornBefore(rec.Reservation), d.returns(rec.Reservation)
	}
	return f, err
}

// bornBefore reports whether a reservation may have been here in an earlier life of the
// store, whose records were lost. A store that doesn't tell its birth has lost none.
func (d *desk) bornBefore(r *workload.Reservation) bool {
	s, ok := d.parts.Records.(interface{ Birth() store.Birth })
	if !ok {
		return false
	}
	born := s.Birth().Time
	return born.IsZero() || !r.Created.After(born)
}

// returns reports whether a reservation may be accepted after its end: on a store
// that accepts reservations older than itself, such an older one by its renewal, and
// one of version 1 by any date, because its dates aren't signed. While the birth has
// no date, any reservation may turn out to be older.
func (d *desk) returns(r *workload.Reservation) bool {
	v1 := r.DocumentVersion() == workload.V1
	s, ok := d.parts.Records.(interface{ AcceptsOlder() bool })
	if !ok {
		return v1
	}
	return s.AcceptsOlder() && (v1 || d.bornBefore(r))
}

// tombstonesMost bounds the tombstones of accepted reservations that are kept
// beyond the proof of their ends by uptime.
const tombstonesMost = 5000

// roomy reports whether that bound isn't exceeded.
func (d *desk) roomy() bool {
	return d.ledger.count(lifecycle.Ended)+d.ledger.count(lifecycle.Failed) <= tombstonesMost
}

const (
	// tellAfter is how many attempts fail before the user is told: a module that
	// restarts needs no message.
	tellAfter = 3
	// longest is how long past its end a workload with a pending renewal is kept,
	// while no time is good enough to judge that.
	longest = 366 * 24 * time.Hour
)

// standing compares a record with the others of its name.
func (d *desk) standing(rec store.Record) (lifecycle.Standing, error) {
	if rec.Name == (lifecycle.NameKey{}) || rec.Reservation == nil {
		return lifecycle.Alone, nil
	}
	others, err := d.ledger.named(rec.Name)
	if err != nil {
		return lifecycle.Alone, err
	}
	older := false
	for i := len(others) - 1; i >= 0; i-- {
		other := others[i]
		if other.ID() == rec.ID() {
			continue
		}
		if other.Reservation.Created.After(rec.Reservation.Created) {
			return standingBehind(other), nil
		}
		older = older || !other.Deployed.IsZero() && other.Phase != lifecycle.Replaced && !other.Tombstone()
	}
	if older {
		return lifecycle.Newest, nil
	}
	return lifecycle.Alone, nil
}

// standingBehind is the standing of a record behind the newest of its name.
func standingBehind(newest store.Record) lifecycle.Standing {
	switch {
	case newest.Phase == lifecycle.Ended:
		return lifecycle.Gone
	case newest.Phase == lifecycle.Leaving && newest.End == workload.StateError:
		return lifecycle.Awaited
	case newest.Phase == lifecycle.Leaving, newest.Phase == lifecycle.Blocked:
		return lifecycle.Doomed
	case newest.Deployed.IsZero():
		return lifecycle.Awaited
	}
	return lifecycle.Outdone
}

// place describes the other workloads of a record's name for its provision; nil
// when there are none, or the type's workloads aren't apart.
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
		// A deployed record has no older workload to fall back to.
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
