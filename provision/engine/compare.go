package engine

import (
	"cmp"
	"slices"

	"github.com/croft-edge/croft/pkg/supervise"
	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/lifecycle"
	"github.com/croft-edge/croft/provision/provisioner"
	"github.com/croft-edge/croft/provision/source"
	"github.com/croft-edge/croft/provision/store"
)

// seen is what the modules say is on the node, by type and label. A type whose
// module didn't answer isn't in it.
type seen map[workload.Type]map[provisioner.Label]provisioner.Seen

// What differs of a workload that isn't on the node, when nothing has its ID or only
// another reservation's has.
const (
	gone    = "gone"
	foreign = "what is there under its ID is another reservation's"
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
	taken := takenIDs{there: there, ids: map[workload.Type]map[string]bool{}}
	for _, rec := range recs {
		listed, answered := there[rec.Reservation.Type]
		if rec.Phase != lifecycle.Deployed || !answered {
			continue
		}
		found, present := own(rec, listed)
		switch {
		case !present && taken.has(rec.Reservation.Type, rec.ID()):
			out = append(out, difference{rec, foreign})
		case !present:
			out = append(out, difference{rec, gone})
		case found.Drift != "":
			out = append(out, difference{rec, found.Drift})
		}
	}
	slices.SortStableFunc(out, func(a, b difference) int {
		return cmp.Compare(source.Rank(a.rec.Reservation.Type), source.Rank(b.rec.Reservation.Type))
	})
	return out
}

// takenIDs are the IDs that something on the node has, by type. Those of a type are
// gathered when they are first asked for: mostly nothing is missing.
type takenIDs struct {
	there seen
	ids   map[workload.Type]map[string]bool
}

func (t takenIDs) has(kind workload.Type, id string) bool {
	if t.ids[kind] == nil {
		t.ids[kind] = make(map[string]bool, len(t.there[kind]))
		for l := range t.there[kind] {
			t.ids[kind][l.ID] = true
		}
	}
	return t.ids[kind][id]
}

// unlabelled are the records whose workload an older croft has made: it is there
// as it should be, and says nowhere whose it is. Provisioned once more it has its
// label, and is otherwise left alone. Without one, nobody could tell whose it is
// once this node had lost its records.
func unlabelled(recs []store.Record, there seen) []store.Record {
	var out []store.Record
	for _, rec := range recs {
		listed := there[rec.Reservation.Type]
		_, labelled := listed[provisioner.Label{ID: rec.ID(), Hash: rec.Hash}]
		found, present := own(rec, listed)
		if rec.Phase == lifecycle.Deployed && rec.Unlabelled && present && !labelled && found.Drift == "" {
			out = append(out, rec)
		}
	}
	return out
}

// own is what was seen of a record's workload: what has its ID and its hash or, made by
// an older croft, no hash.
func own(rec store.Record, listed map[provisioner.Label]provisioner.Seen) (found provisioner.Seen, present bool) {
	if found, present = listed[provisioner.Label{ID: rec.ID(), Hash: rec.Hash}]; !present {
		found, present = listed[provisioner.Label{ID: rec.ID()}]
	}
	return found, present
}

// owns reports whether what has a record's ID and that hash is its workload.
func owns(rec store.Record, h workload.Hash) bool {
	return h == workload.Hash{} || h == rec.Hash
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
	err := supervise.Guard(c.parts.Log, "verify", func() error { return c.parts.Policy.Authentic(rec.Reservation) })
	if err != nil {
		c.notes.drifts.once("verify "+rec.ID(), func() {
			about(c.parts.Log.Error(), rec, "verify").Err(err).
				Msg("not restored: its record doesn't verify; what is on the node stays")
		})
	}
	return err == nil
}

// beingReplaced reports whether a newer one of a record's name takes its place just
// now: until that has ended, nobody misses the older one.
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
