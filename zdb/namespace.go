package zdb

import (
	"time"

	"github.com/croft-edge/croft/zdb/folders"
	"github.com/croft-edge/croft/zdb/store"
)

const (
	defaultName = "default"
	mostName    = folders.LongestName
)

// namespace is a present namespace, or a removed one: sessions keep that until they
// hear of the removal.
type namespace struct {
	folders.Descriptor
	// number is its place in NSLIST and its folder.
	number int
	store  *store.Store // nil when its data can't be used
	// refuse is the answer to commands that need the data while the namespace is
	// frozen or damaged, and "" otherwise.
	refuse string
	// locked and frozen end with the process.
	locked, frozen bool
	gone           bool
	care           care
	errors         diskFaults
	// memory of its keys, in bytes.
	memory uint64
	// waiting are the sessions that WAIT here.
	waiting []*session
}

// care schedules the upkeep of a namespace's store.
type care struct {
	unflushed bool // was written to in this round
	busy      bool // may have work to do, from due on
	due       time.Time
	changed   bool      // was written to since the last work
	rests     time.Time // from then on it needs no more work, unless it changes
}

// worked schedules the next work after a step. It reports whether none is needed.
func (c *care) worked(now time.Time, after time.Duration, failed bool) (rest bool) {
	c.due = now.Add(after)
	if c.changed {
		c.changed, c.rests = false, now.Add(restAfter)
	}
	return !failed && after >= tickEvery && now.After(c.rests)
}

// diskFaults counts the errors of a namespace's disk.
type diskFaults struct {
	count uint64
	last  uint64 // time of the last one, in seconds since 1970
}

func (f *diskFaults) add(at time.Time) {
	f.count++
	f.last = uint64(at.Unix())
}

// validName reports whether a new namespace may have that name.
func validName(name []byte) bool {
	switch string(name) {
	case ".", "..", defaultName:
		return false
	}
	for _, b := range name {
		if b == '/' {
			return false
		}
	}
	return true
}

// broken reports whether its data can't be used.
func (ns *namespace) broken() bool { return ns.store == nil }

// fresh reports whether it never had an entry.
func (ns *namespace) fresh() bool { return ns.store.Stats().Next == 0 }

// has sets its data: nil when that can't be used.
func (ns *namespace) has(st *store.Store) {
	ns.store = st
	switch {
	case st == nil:
		ns.refuse = textBroken
	case ns.frozen:
		ns.refuse = textFrozen
	default:
		ns.refuse = ""
	}
}

// pass sets a property that ends with the process.
func (ns *namespace) pass(property string, on bool) {
	if property == "lock" {
		ns.locked = on
		return
	}
	ns.frozen = on
	ns.has(ns.store)
}
