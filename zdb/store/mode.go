package store

import (
	"github.com/croft-edge/croft/zdb/store/format"
	"github.com/croft-edge/croft/zdb/store/keytable"
	"github.com/croft-edge/croft/zdb/store/wal"
)

// mode is how entries are named: by keys of the users (userKeys) or by sequential ids
// (sequentialIDs). Everything else of a store is the same in both; this file is the only one
// that reads Config.Sequential.
type mode interface {
	// set does Store.Set, delete Store.Delete, when there is room for it.
	set(key, value []byte, o SetOptions) (id []byte, wrote bool, err error)
	delete(key []byte, at uint32) (bool, error)
	// find answers a key's live version; with whole its payload is wanted too. The version is
	// found beside ErrDamaged when a newer one may exist. ErrDamaged alone: it may exist.
	find(key []byte, whole bool) (version, error)
	// entry answers the entry of a slot. A dead one whose record is gone may have no key.
	entry(number uint64, sl format.Slot) (Entry, error)
	// suspect says whether a damaged part of the log may have a newer version than a slot's.
	suspect(number uint64, sl format.Slot) bool
	// older answers the slot of the version that a record's version replaced, when other
	// versions share its first slot's number.
	older(h format.Head) (slot uint64, ok bool)
	// live answers the slot for a record when that is a live version's, and the key's hash.
	live(r wal.Record) (sl format.Slot, hash uint64, ok bool, err error)
	// moved notes that a live record was copied.
	moved(hash uint64, from, to format.Place)
	// undo takes a change back; the newest comes first.
	undo(c *change)
	// opened is called when the store was opened; next is Stats.Next since then.
	opened()
	next() uint64
}

// modeParts is everything that depends on the mode.
type modeParts struct {
	mode   mode
	replay replayMode
	keys   *keytable.Table // nil: there is none
	minKey int             // bytes of the shortest key that Set takes
}

// kind is the mode's settings as the files record them.
func (c *Config) kind() format.Kind {
	return format.Kind{Sequential: c.Sequential, IDSize: c.Layout.IDSize}
}

// deadBits is index.Shape.DeadBits: ids have one slot each, which can say so itself.
func (c *Config) deadBits() bool { return !c.Sequential }

// newMode makes the parts that differ.
func newMode(cfg *Config, b *batch, v *versions, l *limits) modeParts {
	if cfg.Sequential {
		m := &sequentialIDs{batch: b, versions: v, limits: l, size: cfg.Layout.IDSize}
		return modeParts{mode: m, replay: sequentialReplay{}}
	}
	keys := &keytable.Table{Ask: cfg.Memory}
	m := &userKeys{batch: b, versions: v, limits: l, keys: keys}
	return modeParts{mode: m, replay: userReplay{}, keys: keys, minKey: 1}
}
