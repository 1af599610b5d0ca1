package keytable

import (
	"github.com/croft-edge/croft/zdb/store/format"
)

// Loader adds keys in batches while a store is opened: the memory of a whole batch's
// entries is touched before the first is added, so that the cache misses overlap.
type Loader struct {
	table *Table
	batch [64]loaded
	n     int
	sum   uint32
}

type loaded struct {
	hash uint64
	at   format.Place
	size uint32
}

// NewLoader makes a Loader that adds to a table.
func NewLoader(t *Table) *Loader { return &Loader{table: t} }

// Add adds a key; false if the memory limit is reached.
func (l *Loader) Add(hash uint64, at format.Place, size uint32) bool {
	l.batch[l.n] = loaded{hash, at, size}
	l.n++
	return l.n < len(l.batch) || l.Flush()
}

// Flush adds the rest of the last batch; false if the memory limit is reached.
func (l *Loader) Flush() bool {
	for _, k := range l.batch[:l.n] {
		if s := l.table.shard(k.hash); len(s.slots) > 0 {
			l.sum += s.slots[home(Tag(k.hash), len(s.slots))].Tag
		}
	}
	for _, k := range l.batch[:l.n] {
		if !l.table.MakeRoom(k.hash) {
			return false
		}
		l.table.Add(k.hash, k.at, k.size)
	}
	l.n = 0
	return true
}
