package plane

import (
	"cmp"
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

// oldest are the tombstones beyond the bounds, among the shown ones and those that are about to be.
func (t tombstones) oldest(next map[string]work.WorkloadSpec) []string {
	var ended, refused []string
	at := map[string]time.Time{}
	note := func(id string, b buried) {
		if at[id] = b.at; b.phase == lifecycle.Refused || b.phase == lifecycle.Dismissed {
			refused = append(refused, id)
			return
		}
		ended = append(ended, id)
	}
	for id, b := range t {
		if _, changes := next[id]; !changes {
			note(id, b)
		}
	}
	for id, s := range next {
		if phase := lifecycle.Phase(s.Phase); phase.Tombstone() {
			note(id, buried{s.ResultAt, phase})
		}
	}
	surplus := func(ids []string, most int) []string {
		if len(ids) <= most {
			return nil
		}
		slices.SortFunc(ids, func(a, b string) int { return cmp.Or(at[a].Compare(at[b]), cmp.Compare(a, b)) })
		return ids[:len(ids)-most]
	}
	return append(surplus(ended, mostEnded), surplus(refused, mostRefused)...)
}
