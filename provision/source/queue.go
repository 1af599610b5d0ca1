package source

import (
	"cmp"
	"container/heap"
	"slices"
)

// Due holds when each record comes due. It reads no clock and starts no goroutine:
// its owner asks Next when to Take. Times are nanoseconds of one clock of the
// owner's choice, for instance Unix time or the time since the start. It isn't
// safe for concurrent use.
type Due struct {
	queue dueHeap
	byID  map[string]*dueAt
}

// NewDue makes an empty Due.
func NewDue() *Due { return &Due{byID: map[string]*dueAt{}} }

// Set makes the record of an ID come due at that time, instead of at any earlier
// or later one. Of those taken together the highest rank comes first.
func (d *Due) Set(id string, rank int, at int64) {
	if e, ok := d.byID[id]; ok {
		e.rank, e.at = rank, at
		heap.Fix(&d.queue, e.index)
		return
	}
	e := &dueAt{id: id, rank: rank, at: at}
	heap.Push(&d.queue, e)
	d.byID[id] = e
}

// Remove makes the record of an ID not come due.
func (d *Due) Remove(id string) {
	if e, ok := d.byID[id]; ok {
		heap.Remove(&d.queue, e.index)
		delete(d.byID, id)
	}
}

// Next is the earliest time at which a record comes due; false when none does.
func (d *Due) Next() (at int64, ok bool) {
	if len(d.queue) == 0 {
		return 0, false
	}
	return d.queue[0].at, true
}

// Len is the number of records that come due.
func (d *Due) Len() int { return len(d.queue) }

// Take removes the records that are due at now and returns their IDs: by rank,
// the highest first, so that users of a thing come before the thing; those of
// one rank by time; those of one time by ID.
func (d *Due) Take(now int64) []string {
	var due []*dueAt
	for len(d.queue) > 0 && d.queue[0].at <= now {
		e := heap.Pop(&d.queue).(*dueAt)
		delete(d.byID, e.id)
		due = append(due, e)
	}
	slices.SortFunc(due, func(a, b *dueAt) int {
		return cmp.Or(cmp.Compare(b.rank, a.rank), cmp.Compare(a.at, b.at), cmp.Compare(a.id, b.id))
	})
	ids := make([]string, len(due))
	for i, e := range due {
		ids[i] = e.id
	}
	return ids
}

// dueAt is a record's place in a Due.
type dueAt struct {
	id    string
	rank  int
	at    int64
	index int
}

// dueHeap is a heap by time.
type dueHeap []*dueAt

func (q dueHeap) Len() int           { return len(q) }
func (q dueHeap) Less(i, j int) bool { return q[i].at < q[j].at }
func (q dueHeap) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].index, q[j].index = i, j
}

func (q *dueHeap) Push(x any) {
	e := x.(*dueAt)
	e.index = len(*q)
	*q = append(*q, e)
}

func (q *dueHeap) Pop() any {
	old := *q
	e := old[len(old)-1]
	old[len(old)-1] = nil
	*q = old[:len(old)-1]
	return e
}
