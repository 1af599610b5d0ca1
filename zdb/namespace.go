package zdb

import (
	"time"

	"github.com/croft-edge/croft/zdb/store"
)

const (
	defaultName = "default"
	mostName    = 128
)

// namespace is one that is there, or was: sessions keep one that was removed
// until they hear of it.
type namespace struct {
	descriptor
	// number is its place in NSLIST and its folder.
	number int
	store  *store.Store
	// refuse is what commands that need the data are answered, "" when they run:
	// the namespace is frozen or damaged.
	refuse string
	// locked and frozen end with the process.
	locked, frozen bool
	gone           bool
	// wrote says that the store has something to flush.
	wrote bool
	// busy says that its store may have work to do, from due on.
	busy bool
	due  time.Time
	// changed says that it was written to since the last time, rests when it needs
	// no looking after any more.
	changed bool
	rests   time.Time
	// memory of its keys, in bytes.
	memory uint64
	// errors of the disk, and when the last one was.
	errors, lastError uint64
	// waiting are the sessions that WAIT here.
	waiting []*session
}

// limit is how many bytes of values it may have, 0 for no limit.
func (ns *namespace) limit(s *Server) uint64 {
	if ns.number == 0 {
		return s.cfg.MaxSize
	}
	return ns.MaxSize
}

// validName says whether a new namespace may be called so.
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

// broken says that its data can't be used.
func (ns *namespace) broken() bool { return ns.store == nil }

// fresh says that it never had an entry.
func (ns *namespace) fresh() bool { return ns.store.Stats().Next == 0 }

// has makes st its data: nil when that can't be used.
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
