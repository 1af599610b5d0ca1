package disks

import (
	"slices"
	"time"

	"github.com/croft-edge/croft/modules/storage/nodestate"
)

// History is when disks appeared.
type History struct {
	// Changed is when the last one appeared, or the search began.
	Changed time.Time
	// State is when one with the node's state was found; zero until then.
	State time.Time
	seen  []string
}

// Begin is the history of a search that begins now.
func Begin(now time.Time) History { return History{Changed: now} }

// Seen is the history after these disks were found.
func (h History) Seen(found []Disk, want Want, now time.Time) History {
	seen := slices.Clone(h.seen)
	for _, d := range found {
		if key := d.Name + " " + d.Path(); !slices.Contains(seen, key) {
			seen, h.Changed = append(seen, key), now
		}
	}
	h.seen = seen
	switch has := StateFound(found, want); {
	case has && h.State.IsZero():
		h.State = now
	case !has:
		h.State = time.Time{}
	}
	return h
}

// StateFound reports whether the disk with the node's state is there, and no other that could be it.
func StateFound(found []Disk, want Want) bool {
	count := 0
	for _, d := range found {
		if d.Unusable == "" && d.Holds.Kind == nodestate.State && (want.StateID == "" || want.StateID == d.Holds.UUID) {
			count++
		}
	}
	return count == 1
}

// Settled reports whether no more disks are waited for. Disks behind USB and SAS take seconds to appear, and a node that starts before
// that with the state has appeared would be another node: so without it no new disk may have appeared for quiet. Once the state is there, it
// is used at once; the disks of the node's other pools, and those that the operator named, have that time from then on.
func Settled(h History, found []Disk, want Want, quiet time.Duration, now time.Time) bool {
	if h.State.IsZero() {
		return now.Sub(h.Changed) >= quiet
	}
	if now.Sub(h.State) >= quiet {
		return true
	}
	for _, m := range want.Marks {
		if !slices.ContainsFunc(found, func(d Disk) bool { return d.Holds.UUID == m.UUID || m.UUID == "" && d.is(m.Disk) }) {
			return false
		}
	}
	for _, path := range want.Named {
		if !slices.ContainsFunc(found, func(d Disk) bool { return d.is(plain(path)) }) {
			return false
		}
	}
	return true
}
