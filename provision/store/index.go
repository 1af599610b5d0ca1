package store

import (
	"cmp"
	"slices"
	"time"

	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/provisioner"
)

// entry is a record with the values that queries need, computed once.
type entry struct {
	id      workload.ID
	record  Record
	expires time.Time
	// demand is the room promised to its workload; valid once measured.
	demand   provisioner.Demand
	measured bool
}

// index holds the records in memory, in the orders that queries use, with the sums that
// each arrival needs. It isn't safe for concurrent use.
type index struct {
	demand func(r *workload.Reservation) (provisioner.Demand, error)

	records map[workload.ID]*entry
	phases  map[Phase]map[workload.ID]*entry
	// byHash holds all records but Dismissed ones. Version 1 gives equal requests one hash,
	// and the seed's API accepts them: hence several.
	byHash map[workload.Hash][]workload.ID
	// byName holds the records that hold a name, by Created.
	byName map[NetworkKey]ordered
	// undelivered is ordered by sequence; expiring holds the deployed records, by expiry.
	undelivered, expiring ordered

	deployed deployedCount
	all      tally
	users    map[string]*tally
}

func newIndex(demand func(*workload.Reservation) (provisioner.Demand, error)) *index {
	return &index{
		demand:      demand,
		records:     map[workload.ID]*entry{},
		phases:      map[Phase]map[workload.ID]*entry{},
		byHash:      map[workload.Hash][]workload.ID{},
		byName:      map[NetworkKey]ordered{},
		undelivered: ordered{compare: compareSequence},
		expiring:    ordered{compare: compareExpiry},
		deployed:    newDeployedCount(),
		users:       map[string]*tally{},
	}
}

// put adds the record, replacing the one of its ID.
func (x *index) put(id workload.ID, r Record) {
	e := &entry{id: id, record: r, expires: r.Reservation.Expires()}
	if old := x.records[id]; old != nil {
		if old.record.Hash == r.Hash {
			e.demand, e.measured = old.demand, old.measured
		}
		x.remove(id)
	}
	if r.Present() && !e.measured {
		e.demand, e.measured = x.measure(r), true
	}
	x.records[id] = e
	if x.phases[r.Phase] == nil {
		x.phases[r.Phase] = map[workload.ID]*entry{}
	}
	x.phases[r.Phase][id] = e
	if r.Phase != Dismissed {
		x.byHash[r.Hash] = append(x.byHash[r.Hash], id)
	}
	if r.HoldsName() {
		of, known := x.byName[r.Name]
		if !known {
			of.compare = compareCreated
		}
		of.add(e)
		x.byName[r.Name] = of
	}
	if r.Result != nil && !r.Delivered {
		x.undelivered.add(e)
	}
	if r.Phase == Deployed {
		x.expiring.add(e)
		x.deployed.add(r)
	}
	x.count(e)
}

// count adds e to the sums, which leave out Dismissed records.
func (x *index) count(e *entry) {
	if e.record.Phase == Dismissed {
		return
	}
	x.all.add(e)
	user := x.users[e.record.Reservation.User]
	if user == nil {
		user = &tally{}
		x.users[e.record.Reservation.User] = user
	}
	user.add(e)
}

// uncount takes e out of the sums.
func (x *index) uncount(e *entry) {
	if e.record.Phase == Dismissed {
		return
	}
	x.all.drop(e)
	user := x.users[e.record.Reservation.User]
	user.drop(e)
	if user.records == 0 {
		delete(x.users, e.record.Reservation.User)
	}
}

// measure returns the demand of r's workload, zero when it can't be told.
func (x *index) measure(r Record) provisioner.Demand {
	if x.demand == nil {
		return provisioner.Demand{}
	}
	d, err := x.demand(r.Reservation)
	if err != nil {
		return provisioner.Demand{}
	}
	return d
}

func (x *index) remove(id workload.ID) {
	e, ok := x.records[id]
	if !ok {
		return
	}
	r := e.record
	delete(x.records, id)
	delete(x.phases[r.Phase], id)
	if same := slices.DeleteFunc(x.byHash[r.Hash], func(other workload.ID) bool { return other == id }); len(same) > 0 {
		x.byHash[r.Hash] = same
	} else {
		delete(x.byHash, r.Hash)
	}
	if of, named := x.byName[r.Name]; named {
		of.drop(e)
		x.byName[r.Name] = of
		if len(of.list) == 0 {
			delete(x.byName, r.Name)
		}
	}
	x.undelivered.drop(e)
	if r.Phase == Deployed {
		x.expiring.drop(e)
		x.deployed.drop(r)
	}
	x.uncount(e)
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
	return byID(x.records, func(*entry) bool { return true })
}

// ofType returns the records of a type that aren't tombstones, by ID.
func (x *index) ofType(t workload.Type) []Record {
	return byID(x.records, func(e *entry) bool { return e.record.Reservation.Type == t && !e.record.Tombstone() })
}

// expired returns the deployed records that have expired by now, the earliest first.
func (x *index) expired(now time.Time) []*entry {
	n, _ := slices.BinarySearchFunc(x.expiring.list, now, func(e *entry, t time.Time) int {
		if e.expires.After(t) {
			return 1
		}
		return -1
	})
	return x.expiring.list[:n]
}

// newest returns the record of a name with the latest Created, nil when there is none.
func (x *index) newest(key NetworkKey) *entry {
	of := x.byName[key].list
	if len(of) == 0 {
		return nil
	}
	return of[len(of)-1]
}

// byID returns the records that are chosen, by ID.
func byID(of map[workload.ID]*entry, chosen func(*entry) bool) []Record {
	var all []*entry
	for _, e := range of {
		if chosen(e) {
			all = append(all, e)
		}
	}
	slices.SortFunc(all, func(a, b *entry) int { return compareID(a.id, b.id) })
	return clones(all)
}

func clones(all []*entry) []Record {
	out := make([]Record, 0, len(all))
	for _, e := range all {
		out = append(out, e.record.Clone())
	}
	return out
}

// ordered is a sorted list of entries; no two compare as equal.
type ordered struct {
	list    []*entry
	compare func(a, b *entry) int
}

func (o *ordered) add(e *entry) {
	at, _ := slices.BinarySearchFunc(o.list, e, o.compare)
	o.list = slices.Insert(o.list, at, e)
}

// drop removes e, if it is in the list.
func (o *ordered) drop(e *entry) {
	if at, found := slices.BinarySearchFunc(o.list, e, o.compare); found {
		o.list = slices.Delete(o.list, at, at+1)
	}
}

func compareExpiry(a, b *entry) int {
	return cmp.Or(a.expires.Compare(b.expires), compareID(a.id, b.id))
}

func compareCreated(a, b *entry) int {
	return cmp.Or(a.record.Reservation.Created.Compare(b.record.Reservation.Created), compareID(a.id, b.id))
}

// compareSequence sorts entries without a result first.
func compareSequence(a, b *entry) int {
	return cmp.Or(cmp.Compare(sequenceOf(a), sequenceOf(b)), compareID(a.id, b.id))
}

func sequenceOf(e *entry) int64 {
	if e.record.Result == nil {
		return 0
	}
	return e.record.Result.Sequence
}

func compareID(a, b workload.ID) int {
	return cmp.Or(cmp.Compare(a.N, b.N), cmp.Compare(a.M, b.M))
}
