package engine

import (
	"cmp"
	"slices"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/lifecycle"
	"github.com/croft-edge/croft/provision/provisioner"
	"github.com/croft-edge/croft/provision/store"
)

// ledger is the engine's view of the records: the durable ones, overlaid with this
// round's staged ones. A round is small, so staged records are searched.
type ledger struct {
	records store.Records
	demand  func(r *workload.Reservation) provisioner.Demand
	staged  map[string]store.Record
	order   []string
	// parked are the records whose judgement waits for the node's offer, as they are
	// then: arrivals that aren't durable yet, and refused ones that are reconsidered.
	parked map[string]store.Record
}

func newLedger(records store.Records, demand func(r *workload.Reservation) provisioner.Demand) *ledger {
	return &ledger{records: records, demand: demand, staged: map[string]store.Record{}, parked: map[string]store.Record{}}
}

// stage puts a record's next state into the round.
func (l *ledger) stage(rec store.Record) {
	id := rec.ID()
	if _, again := l.staged[id]; !again {
		l.order = append(l.order, id)
	}
	l.staged[id] = rec
}

// commit makes the round durable and ends it. On an error nothing of it counts,
// and the parked records stay.
func (l *ledger) commit() ([]store.Record, error) {
	if len(l.order) == 0 {
		return nil, nil
	}
	recs := make([]store.Record, 0, len(l.order))
	for _, id := range l.order {
		recs = append(recs, l.staged[id])
	}
	written, err := l.records.Write(recs...)
	if err == nil {
		for _, rec := range recs {
			if rec.Phase != lifecycle.Dismissed { // an answer has no claim to the ID
				delete(l.parked, rec.ID())
			}
		}
	}
	l.drop()
	return written, err
}

// drop forgets the staged records.
func (l *ledger) drop() {
	clear(l.staged)
	l.order = l.order[:0]
}

// touched are the IDs of the round, in its order.
func (l *ledger) touched() []string { return slices.Clone(l.order) }

// record returns the record of an ID; false when there is none.
func (l *ledger) record(id string) (store.Record, bool, error) {
	parked, waits := l.parked[id]
	if rec, ok := l.staged[id]; ok && !(waits && rec.Phase == lifecycle.Dismissed) {
		return rec.Clone(), true, nil
	}
	if waits {
		return parked.Clone(), true, nil
	}
	return l.durable(id)
}

// durable returns the record of an ID as the store has it; false when there is none.
func (l *ledger) durable(id string) (store.Record, bool, error) {
	rec, err := l.records.Record(id)
	if node.KindOf(err) == node.NotExist {
		return store.Record{}, false, nil
	}
	return rec, err == nil, err
}

// byHash returns the accepted or refused record with that hash, never a dismissed one.
func (l *ledger) byHash(h workload.Hash) (store.Record, bool, error) {
	for _, of := range []map[string]store.Record{l.staged, l.parked} {
		for _, rec := range of {
			if rec.Hash == h && rec.Phase != lifecycle.Dismissed {
				return rec.Clone(), true, nil
			}
		}
	}
	rec, err := l.records.ByHash(h)
	if node.KindOf(err) == node.NotExist {
		return store.Record{}, false, nil
	}
	return rec, err == nil, err
}

// named returns the records that were accepted under a name, the oldest first.
func (l *ledger) named(key lifecycle.NameKey) ([]store.Record, error) {
	stored, err := l.records.Named(key)
	if err != nil {
		return nil, err
	}
	out := slices.DeleteFunc(stored, func(rec store.Record) bool {
		_, staged := l.staged[rec.ID()]
		return staged
	})
	for _, rec := range l.staged {
		if rec.Name == key && rec.HoldsName() {
			out = append(out, rec)
		}
	}
	slices.SortStableFunc(out, func(a, b store.Record) int {
		return cmp.Or(a.Reservation.Created.Compare(b.Reservation.Created), cmp.Compare(a.ID(), b.ID()))
	})
	return out, nil
}

// count is the number of records in a phase.
func (l *ledger) count(p lifecycle.Phase) int {
	n := l.records.Count(p)
	for id, rec := range l.staged {
		if old, err := l.records.Record(id); err == nil && old.Phase == p {
			n--
		}
		if rec.Phase == p {
			n++
		}
	}
	if p == lifecycle.Waiting {
		for id := range l.parked {
			_, staged := l.staged[id]
			if old, err := l.records.Record(id); !staged && (err != nil || old.Phase != p) {
				n++
			}
		}
	}
	return n
}

// usage is the usage of one user's records and of all records, without the record of ID but.
func (l *ledger) usage(user, but string) (of, all store.Usage) {
	of, all = l.records.Usage(user)
	change := func(rec store.Record, with func(a, b store.Usage) store.Usage) {
		u := l.usageOf(rec)
		all = with(all, u)
		if rec.Reservation.User == user {
			of = with(of, u)
		}
	}
	for id, rec := range l.staged {
		if old, err := l.records.Record(id); err == nil {
			change(old, store.Usage.Less)
		}
		if id != but {
			change(rec, store.Usage.Plus)
		}
	}
	if _, staged := l.staged[but]; !staged {
		if old, err := l.records.Record(but); err == nil {
			change(old, store.Usage.Less)
		}
	}
	return of, all
}

// changing reports whether the record of an ID is staged or parked.
func (l *ledger) changing(id string) bool {
	_, staged := l.staged[id]
	_, parked := l.parked[id]
	return staged || parked
}

// replacedBy is the demand of the older records that a record replaces. Where each
// workload of a name is apart, only the momentary part counts, freed by stopping
// the older one: its data on disk stays beside the new one's.
func (l *ledger) replacedBy(rec store.Record, apart bool) (d provisioner.Demand, err error) {
	all, err := l.named(rec.Name)
	for _, other := range all {
		if other.ID() == rec.ID() {
			continue
		}
		takes := l.usageOf(other).Demand
		if apart {
			takes = takes.Momentary()
		}
		d = d.Add(takes)
	}
	return d, err
}

// usageOf is one record's share of the usage.
func (l *ledger) usageOf(rec store.Record) (u store.Usage) {
	if rec.Phase == lifecycle.Dismissed {
		return u
	}
	u.Records = 1
	if rec.Phase == lifecycle.Waiting {
		u.Waiting = 1
	}
	if rec.Present() {
		u.Workloads = 1
	}
	if rec.Takes() {
		u.Demand = l.demand(rec.Reservation)
	}
	return u
}
