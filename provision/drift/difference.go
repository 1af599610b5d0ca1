package drift

import (
	"cmp"
	"slices"

	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/lifecycle"
	"github.com/croft-edge/croft/provision/provisioner"
	"github.com/croft-edge/croft/provision/source"
	"github.com/croft-edge/croft/provision/store"
)

// Seen holds the modules' listings of the node, by type and label. A type whose
// module didn't answer isn't in it.
type Seen map[workload.Type]map[provisioner.Label]provisioner.Seen

// The differences of a workload that isn't on the node: nothing has its ID, or
// only another reservation's workload has it.
const (
	Gone    = "gone"
	Foreign = "its ID is in use by another reservation"
)

// Difference is a record whose workload isn't on the node as it was made.
type Difference struct {
	Record store.Record
	What   string
}

// Differences compares records with a listing; types come in dependency order. It
// is the only such comparison.
func Differences(recs []store.Record, there Seen) []Difference {
	var out []Difference
	taken := takenIDs{there: there, ids: map[workload.Type]map[string]bool{}}
	for _, rec := range recs {
		listed, answered := there[rec.Reservation.Type]
		if rec.Phase != lifecycle.Deployed || !answered {
			continue
		}
		found, present := own(rec, listed)
		switch {
		case !present && taken.has(rec.Reservation.Type, rec.ID()):
			out = append(out, Difference{rec, Foreign})
		case !present:
			out = append(out, Difference{rec, Gone})
		case found.Drift != "":
			out = append(out, Difference{rec, found.Drift})
		}
	}
	slices.SortStableFunc(out, func(a, b Difference) int {
		return cmp.Compare(source.Rank(a.Record.Reservation.Type), source.Rank(b.Record.Reservation.Type))
	})
	return out
}

// takenIDs are the IDs in use on the node, by type. Those of a type are gathered on
// first use: mostly nothing is missing.
type takenIDs struct {
	there Seen
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

// Unlabelled are the records whose workload an older croft has made: it is as it
// should be, but its label has no hash. Provisioning it once more adds the hash
// and changes nothing else. Without it nobody could tell whose the workload is
// once this node had lost its records.
func Unlabelled(recs []store.Record, there Seen) []store.Record {
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

// own is the listing of a record's workload: the one with its ID and its hash or, made
// by an older croft, no hash.
func own(rec store.Record, listed map[provisioner.Label]provisioner.Seen) (found provisioner.Seen, present bool) {
	if found, present = listed[provisioner.Label{ID: rec.ID(), Hash: rec.Hash}]; !present {
		found, present = listed[provisioner.Label{ID: rec.ID()}]
	}
	return found, present
}

// Owns reports whether the workload with a record's ID and the hash h is the record's.
func Owns(rec store.Record, h workload.Hash) bool {
	return h == workload.Hash{} || h == rec.Hash
}
