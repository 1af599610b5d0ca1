package store

import (
	"cmp"
	"slices"
	"time"

	"github.com/croft-edge/croft/pkg/workload"
)

// entry is a record with what queries need of it, worked out once.
type entry struct {
	id      workload.ID
	record  Record
	expires time.Time
	// network is the key of a network's record; hasNetwork whether it is one.
	network    NetworkKey
	hasNetwork bool
}

// index is the records in memory, in the orders in which they are asked for.
// It isn't safe for concurrent use.
type index struct {
	records map[workload.ID]*entry
	// byHash holds the records that were taken in. Version 1 gives equal
	// requests one hash, and the seed's face accepts them: hence several.
	byHash      map[workload.Hash][]workload.ID
	byNetwork   map[NetworkKey]map[workload.ID]*entry
	undelivered map[workload.ID]*entry
	// byExpiry holds the records that can still expire, by time and ID.
	byExpiry []*entry
}

func newIndex() *index {
	return &index{
		records:     map[workload.ID]*entry{},
		byHash:      map[workload.Hash][]workload.ID{},
		byNetwork:   map[NetworkKey]map[workload.ID]*entry{},
		undelivered: map[workload.ID]*entry{},
	}
}

// expires reports whether a record's workload is or may come to be on the node
// without having begun to leave it.
func expires(p Phase) bool { return p == Intent || p == Retry || p == Deployed }

// put adds the record, in the place of the one of its ID.
func (x *index) put(id workload.ID, r Record) {
	x.remove(id)
	e := &entry{id: id, record: r, expires: r.Reservation.Expires()}
	e.network, e.hasNetwork = KeyOf(r.Reservation)
	x.records[id] = e
	if !r.Refusal {
		x.byHash[r.Hash] = append(x.byHash[r.Hash], id)
	}
	if e.hasNetwork && accepted(r) {
		of := x.byNetwork[e.network]
		if of == nil {
			of = map[workload.ID]*entry{}
			x.byNetwork[e.network] = of
		}
		of[id] = e
	}
	if r.Result != nil && !r.Delivered {
		x.undelivered[id] = e
	}
	if expires(r.Phase) {
		at, _ := slices.BinarySearchFunc(x.byExpiry, e, compareExpiry)
		x.byExpiry = slices.Insert(x.byExpiry, at, e)
	}
}

func (x *index) remove(id workload.ID) {
	e, ok := x.records[id]
	if !ok {
		return
	}
	delete(x.records, id)
	delete(x.undelivered, id)
	h := e.record.Hash
	x.byHash[h] = slices.DeleteFunc(x.byHash[h], func(other workload.ID) bool { return other == id })
	if len(x.byHash[h]) == 0 {
		delete(x.byHash, h)
	}
	if of := x.byNetwork[e.network]; e.hasNetwork && of != nil {
		delete(of, id)
		if len(of) == 0 {
			delete(x.byNetwork, e.network)
		}
	}
	if at, found := slices.BinarySearchFunc(x.byExpiry, e, compareExpiry); found {
		x.byExpiry = slices.Delete(x.byExpiry, at, at+1)
	}
}

func compareExpiry(a, b *entry) int {
	if c := a.expires.Compare(b.expires); c != 0 {
		return c
	}
	return compareID(a.id, b.id)
}

func compareID(a, b workload.ID) int {
	if c := cmp.Compare(a.N, b.N); c != 0 {
		return c
	}
	return cmp.Compare(a.M, b.M)
}

// get returns the entry of an ID, nil when there is none.
func (x *index) get(id workload.ID) *entry { return x.records[id] }

// ofHash returns the first record with that hash, nil when there is none.
func (x *index) ofHash(h workload.Hash) *entry {
	ids := x.byHash[h]
	if len(ids) == 0 {
		return nil
	}
	return x.records[slices.MinFunc(ids, compareID)]
}

// list returns all records by ID.
func (x *index) list() []Record {
	all := make([]*entry, 0, len(x.records))
	for _, e := range x.records {
		all = append(all, e)
	}
	slices.SortFunc(all, func(a, b *entry) int { return compareID(a.id, b.id) })
	return clones(all)
}

// waiting returns the records that feedback owes, oldest result first.
func (x *index) waiting() []Record {
	all := make([]*entry, 0, len(x.undelivered))
	for _, e := range x.undelivered {
		all = append(all, e)
	}
	slices.SortFunc(all, func(a, b *entry) int {
		return cmp.Compare(a.record.Result.Sequence, b.record.Result.Sequence)
	})
	return clones(all)
}

func (x *index) expired(now time.Time) []Record {
	n, _ := slices.BinarySearchFunc(x.byExpiry, now, func(e *entry, t time.Time) int {
		if e.expires.After(t) {
			return 1
		}
		return -1
	})
	return clones(x.byExpiry[:n])
}

// newest returns the latest accepted reservation of a network, nil when there is none.
func (x *index) newest(key NetworkKey) *entry {
	var out *entry
	for _, e := range x.byNetwork[key] {
		if out == nil || e.record.Reservation.Created.After(out.record.Reservation.Created) {
			out = e
		}
	}
	return out
}

func clones(all []*entry) []Record {
	out := make([]Record, 0, len(all))
	for _, e := range all {
		out = append(out, e.record.Clone())
	}
	return out
}
