package store

import (
	"github.com/pkg/errors"

	"github.com/croft-edge/croft/zdb/store/format"
	"github.com/croft-edge/croft/zdb/store/keytable"
	"github.com/croft-edge/croft/zdb/store/wal"
)

// userKeys is user mode: users choose the keys. Every version has a slot of its own; the table of
// keys names the live one's record, and the dead bits of the index mark the others.
type userKeys struct {
	batch    *batch
	versions *versions
	limits   *limits
	keys     *keytable.Table
	atOpen   uint64 // slots that there were when the store was opened
}

func (m *userKeys) set(key, value []byte, o SetOptions) ([]byte, bool, error) {
	b := m.batch
	hash := b.log.ID.Hash(key)
	// The payload isn't read: it matters only when the checksum is the same.
	old, err := m.locate(hash, key, false)
	if err != nil && !errors.Is(err, ErrDamaged) {
		return nil, false, err
	}
	if err := m.limits.allow(&b.ledger.Counters, &old, len(key), len(value), o); err != nil {
		return key, false, err
	}
	// A suspect version may not be the value that the key has.
	if old.found && old.slot >= m.versions.damage.suspectBelow {
		if same, err := m.versions.same(&old, value); err != nil || same {
			return key, false, err
		}
	}
	if !old.found && !m.keys.MakeRoom(hash) {
		return nil, false, ErrFull
	}
	h := b.newPut(len(key), value, o.At)
	c := change{kind: changePut, hash: hash, saved: -1, at: b.log.End()}
	if old.found {
		h.Replaces, h.Old = true, format.OldVersion{Slot: old.slot, Index: old.index, At: old.at}
		c.old, c.oldSize, c.slot = old.at, old.head.Size(), old.slot
	}
	c.size = h.Size()
	if old.found {
		*m.keys.Locate(hash, old.at) = keytable.Entry{Tag: keytable.Tag(hash), Size: c.size, At: c.at}
		b.index.SetDead(old.slot)
		b.files.touch(old.index.File)
	} else {
		m.keys.Add(hash, c.at, c.size)
	}
	sl := format.SlotOf(&h, hash, c.at)
	b.index.Append(&sl)
	return key, true, b.put(&c, &h, &old, key, value)
}

func (m *userKeys) delete(key []byte, at uint32) (bool, error) {
	b := m.batch
	hash := b.log.ID.Hash(key)
	old, err := m.locate(hash, key, false)
	if !old.found {
		return false, err
	}
	h := b.newDelete(len(key), &old, at)
	c := change{kind: changeDelete, hash: hash, old: old.at, oldSize: old.size, slot: old.slot, saved: -1}
	m.keys.Remove(hash, old.at)
	b.index.SetDead(old.slot)
	return true, b.remove(&c, &h, &old, key)
}

func (m *userKeys) find(key []byte, whole bool) (version, error) {
	return m.locate(m.batch.log.ID.Hash(key), key, whole)
}

// locate is find with the key's hash.
func (m *userKeys) locate(hash uint64, key []byte, whole bool) (version, error) {
	var failed error
	suspectBelow := m.versions.damage.suspectBelow
	for i := m.keys.First(hash); i >= 0; i = m.keys.Next(hash, i) {
		e := m.keys.At(hash, i)
		want := format.HeadLong + len(key)
		if whole {
			want = int(e.Size)
		}
		v := version{at: e.At, size: e.Size}
		err := m.versions.read(&v, min(want, int(e.Size)))
		switch {
		case err != nil && failed == nil:
			failed = err
		case err == nil && string(v.key) == string(key):
			v.found = true
			if v.slot < suspectBelow {
				return v, m.versions.damage.suspect()
			}
			return v, nil
		}
	}
	if failed == nil && suspectBelow > 0 {
		failed = m.versions.damage.suspect()
	}
	return version{}, failed
}

func (m *userKeys) entry(number uint64, sl format.Slot) (Entry, error) {
	v := versionOf(number, &sl)
	dead := m.batch.index.Dead(number, &sl)
	if dead && m.batch.log.At(sl.At) == nil {
		return v.entry(dead), nil
	}
	if err := m.versions.read(&v, format.HeadLong+int(sl.KeyLen)); err != nil {
		return Entry{}, err
	}
	if v.slot != number {
		return Entry{}, m.versions.damage.record(sl.At, "its slot")
	}
	return v.entry(dead), nil
}

func (m *userKeys) suspect(number uint64, _ format.Slot) bool {
	return number < m.versions.damage.suspectBelow
}

func (m *userKeys) older(format.Head) (uint64, bool) { return 0, false }

func (m *userKeys) live(r wal.Record) (format.Slot, uint64, bool, error) {
	hash := m.batch.log.ID.Hash(r.Key)
	if m.keys.Locate(hash, r.At) == nil {
		return format.Slot{}, 0, false, nil
	}
	return format.SlotOf(&r.Head, hash, 0), hash, true, nil
}

func (m *userKeys) moved(hash uint64, from, to format.Place) { m.keys.Locate(hash, from).At = to }

func (m *userKeys) undo(c *change) {
	x := m.batch.index
	switch c.kind {
	case changePut:
		x.CutLast(true)
		if c.old == 0 {
			m.keys.Remove(c.hash, c.at)
			return
		}
		*m.keys.Locate(c.hash, c.at) = keytable.Entry{Tag: keytable.Tag(c.hash), Size: c.oldSize, At: c.old}
		x.SetAlive(c.slot)
	case changeDelete:
		m.keys.Add(c.hash, c.old, c.oldSize)
		x.SetAlive(c.slot)
	case changeMove:
		m.moved(c.hash, c.at, c.old)
		m.batch.restore(c)
	}
}

func (m *userKeys) opened() { m.atOpen = m.batch.index.Next }

func (m *userKeys) next() uint64 { return m.atOpen + m.batch.ledger.inserts }

// userReplay is recovery in user mode.
type userReplay struct{}

func (userReplay) used(h *format.Head) (uint64, Position) { return h.Slot, h.Index }

func (userReplay) put(p *replay, r *wal.Record) {
	sl := format.SlotOf(&r.Head, p.log.ID.Hash(r.Key), r.At)
	p.put(r, r.Slot, &sl)
	if r.Replaces {
		p.index.SetDead(r.Old.Slot)
	}
	if p.tombstoned(r.At) {
		p.index.SetDead(r.Slot)
	}
}

func (userReplay) delete(p *replay, r *wal.Record) { p.index.SetDead(r.Old.Slot) }
