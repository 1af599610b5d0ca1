package plane

import (
	"cmp"
	"iter"
	"slices"
	"time"

	"github.com/croft-edge/croft/pkg/resources/work"
	"github.com/croft-edge/croft/provision/lifecycle"
)

// mostEnded is how many tombstones of accepted workloads are shown, and mostRefused how many of others, which anybody can make: a node remembers
// many more than anybody reads. The store has all.
const (
	mostEnded   = 1000
	mostRefused = 200
)

// tombstones are the shown tombstones by ID.
type tombstones map[string]buried

type buried struct {
	at    time.Time
	phase lifecycle.Phase
}

// refused reports whether anybody could have made it.
func (b buried) refused() bool {
	return b.phase == lifecycle.Refused || b.phase == lifecycle.Dismissed
}

// oldest are the tombstones beyond the bounds, among the shown ones and those that are about to be.
func (t tombstones) oldest(next map[string]work.WorkloadSpec) []string {
	return append(t.surplus(next, false, mostEnded), t.surplus(next, true, mostRefused)...)
}

// surplus are the oldest of refused or of other tombstones, beyond most.
func (t tombstones) surplus(next map[string]work.WorkloadSpec, refused bool, most int) []string {
	n := 0
	for range t.with(next, refused) {
		n++
	}
	if n <= most {
		return nil
	}
	type dated struct {
		id string
		at time.Time
	}
	all := make([]dated, 0, n)
	for id, at := range t.with(next, refused) {
		all = append(all, dated{id, at})
	}
	slices.SortFunc(all, func(a, b dated) int { return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.id, b.id)) })
	ids := make([]string, n-most)
	for i := range ids {
		ids[i] = all[i].id
	}
	return ids
}

// with are refused or other tombstones after next is shown, and their times.
func (t tombstones) with(next map[string]work.WorkloadSpec, refused bool) iter.Seq2[string, time.Time] {
	return func(yield func(string, time.Time) bool) {
		for id, b := range t {
			if _, changes := next[id]; !changes && b.refused() == refused && !yield(id, b.at) {
				return
			}
		}
		for id, s := range next {
			b := buried{s.ResultAt, lifecycle.Phase(s.Phase)}
			if b.phase.Tombstone() && b.refused() == refused && !yield(id, b.at) {
				return
			}
		}
	}
}
