package store

import (
	"encoding/binary"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/zdb/store/format"
	"github.com/croft-edge/croft/zdb/store/index"
	"github.com/croft-edge/croft/zdb/store/wal"
)

// sequentialIDs is sequential mode: an entry's id is the number of its slot, which names the live
// version. An update moves the old version to the next slot.
type sequentialIDs struct {
	batch    *batch
	versions *versions
	limits   *limits
	size     int // of an id, in bytes
	buf      [8]byte
}

// id encodes an id, valid until the next call.
func (m *sequentialIDs) id(number uint64) []byte {
	return binary.LittleEndian.AppendUint64(m.buf[:0], number)[:m.size]
}

// number is the slot that an id names.
func (m *sequentialIDs) number(id []byte) (uint64, bool) {
	if len(id) != m.size {
		return 0, false
	}
	var b [8]byte
	copy(b[:], id)
	number := binary.LittleEndian.Uint64(b[:])
	return number, number < m.batch.index.Next
}

func (m *sequentialIDs) set(key, value []byte, o SetOptions) ([]byte, bool, error) {
	b := m.batch
	var old version
	if len(key) > 0 {
		var err error
		if old, err = m.find(key, false); err != nil && !errors.Is(err, ErrDamaged) {
			return nil, false, err
		}
		if !old.found {
			return nil, false, ErrUnknownID
		}
	} else if m.size == 4 && b.index.Next > 1<<32-1 {
		return nil, false, ErrFull
	}
	if err := m.limits.allow(&b.ledger.Counters, &old, m.size, len(value), o); err != nil {
		return key, false, err
	}
	// A suspect version may not be the value that the id has.
	if old.found && !m.suspect(old.slot, old.sl) {
		if same, err := m.versions.same(&old, value); err != nil || same {
			return key, false, err
		}
	}
	h := b.newPut(m.size, value, o.At)
	if old.found {
		return key, true, m.update(&h, &old, key, value)
	}
	id := m.id(h.Slot)
	c := change{kind: changePut, at: b.log.End(), size: h.Size(), saved: -1}
	sl := format.SlotOf(&h, h.Slot, c.at)
	b.index.Append(&sl)
	return id, true, b.put(&c, &h, &old, id, value)
}

// update gives the new version h of an id the slot of the old one, which goes
// to the next slot.
func (m *sequentialIDs) update(h *format.Head, old *version, key, value []byte) error {
	b := m.batch
	h.Replaces, h.Old = true, format.OldVersion{Slot: h.Slot, Index: h.Index, At: old.at}
	h.Slot, h.Index = old.slot, old.index
	c := change{kind: changePut, at: b.log.End(), size: h.Size(), old: old.at, oldSize: old.sl.Size(), slot: old.slot}
	c.saved = b.save(old.slot)
	now := format.SlotOf(h, old.slot, c.at)
	now.Data = old.sl.Data
	b.index.Set(old.slot, &now)
	was := old.sl
	was.Flags |= format.SlotDead | format.SlotOld
	was.Index, was.Data = h.Old.Index, h.Data.Offset
	b.index.Append(&was)
	b.files.touch(old.index.File)
	return b.put(&c, h, old, key, value)
}

func (m *sequentialIDs) delete(key []byte, at uint32) (bool, error) {
	b := m.batch
	old, err := m.find(key, false)
	if !old.found {
		return false, err
	}
	h := b.newDelete(len(key), &old, at)
	c := change{kind: changeDelete, old: old.at, oldSize: old.size, slot: old.slot, saved: b.save(old.slot)}
	gone := old.sl
	gone.Flags |= format.SlotDead
	b.index.Set(old.slot, &gone)
	b.index.Chunk(old.slot/b.index.ChunkSlots).Live--
	return true, b.remove(&c, &h, &old, key)
}

// find doesn't read the record; whole makes no difference.
func (m *sequentialIDs) find(key []byte, _ bool) (version, error) {
	number, ok := m.number(key)
	if !ok {
		return version{}, nil
	}
	sl, state, err := m.batch.index.Get(number, 0)
	if err != nil {
		return version{}, err
	}
	if state == format.SlotBad {
		return version{}, ErrDamaged
	}
	damage := m.versions.damage
	if state == format.SlotAbsent || sl.Dead() {
		if number < damage.suspectBelow {
			err = damage.suspect()
		}
		return version{}, err
	}
	if m.suspect(number, sl) {
		err = damage.suspect()
	}
	v := versionOf(number, &sl)
	v.key = key
	return v, err
}

func (m *sequentialIDs) entry(number uint64, sl format.Slot) (Entry, error) {
	v := versionOf(number, &sl)
	id := number
	if sl.Flags&format.SlotOld != 0 {
		id = sl.Hash
	}
	v.key = m.id(id)
	return v.entry(sl.Dead()), nil
}

func (m *sequentialIDs) suspect(number uint64, sl format.Slot) bool {
	below := m.versions.damage.suspectBelow
	if below == 0 {
		return false
	}
	v := versionOf(number, &sl)
	if m.versions.read(&v, format.HeadLong+m.size) != nil {
		return true
	}
	used, _ := sequentialReplay{}.used(&v.head)
	return used < below
}

func (m *sequentialIDs) older(h format.Head) (uint64, bool) { return h.Old.Slot, h.Replaces }

func (m *sequentialIDs) live(r wal.Record) (format.Slot, uint64, bool, error) {
	sl, state, err := m.batch.index.Get(r.Slot, index.WindowSlots)
	if err != nil || state != format.SlotGood || sl.Dead() || sl.At != r.At {
		return format.Slot{}, 0, false, err
	}
	return sl, 0, true, nil
}

// moved has nothing to do: the slot says where the record is.
func (m *sequentialIDs) moved(uint64, format.Place, format.Place) {}

func (m *sequentialIDs) undo(c *change) {
	x := m.batch.index
	switch {
	case c.kind == changePut && c.old == 0:
		x.CutLast(true)
		return
	case c.kind == changePut:
		x.CutLast(false)
	case c.kind == changeDelete:
		x.Chunk(c.slot/x.ChunkSlots).Live++
	}
	m.batch.restore(c)
}

func (m *sequentialIDs) opened() {}

func (m *sequentialIDs) next() uint64 { return m.batch.index.Next }

// sequentialReplay is recovery in sequential mode.
type sequentialReplay struct{}

// An update used the next slot for the version that it replaced.
func (sequentialReplay) used(h *format.Head) (uint64, Position) {
	if h.Replaces && h.Kind == format.KindPut {
		return h.Old.Slot, h.Old.Index
	}
	return h.Slot, h.Index
}

func (sequentialReplay) put(p *replay, r *wal.Record) {
	now := format.SlotOf(&r.Head, r.Slot, r.At)
	if !r.Replaces {
		p.put(r, r.Slot, &now)
	} else {
		if was, state := p.recovery.Peek(r.Slot); state == format.SlotGood {
			now.Data = was.Data
		}
		// The old version's slot comes last: it is the next.
		p.change(r.Slot, &now)
		sequentialReplay{}.supersede(p, r)
	}
	if p.tombstoned(r.At) {
		// A later version took the slot. If it isn't deleted it comes later in the log.
		p.change(r.Slot, &format.Slot{})
	}
}

// supersede gives the version that an update replaced its new slot.
func (sequentialReplay) supersede(p *replay, r *wal.Record) {
	number := r.Old.Slot
	if r.Moved {
		if _, state := p.recovery.Peek(number); !p.rebuild || state == format.SlotGood {
			return
		}
	}
	was, ok := p.versionAt(r.Old.At)
	if !ok {
		if !r.Moved && number >= p.index.Next {
			p.jump(number + 1)
		}
		return
	}
	old := format.SlotOf(&was, r.Slot, r.Old.At)
	old.Flags |= format.SlotDead | format.SlotOld
	old.Index, old.Data = r.Old.Index, r.Data.Offset
	p.put(r, number, &old)
}

// delete marks an id's slot dead.
func (sequentialReplay) delete(p *replay, r *wal.Record) {
	number, at := r.Slot, r.Old.At // where its last version lies
	sl, state := p.recovery.Peek(number)
	if state != format.SlotGood || sl.At != at {
		// The slot's last version is one that was compacted away, unless it can be read.
		sl = format.Slot{}
		if h, ok := p.versionAt(at); ok {
			sl = format.SlotOf(&h, number, at)
		}
	}
	if sl.Flags != 0 {
		sl.Flags |= format.SlotDead
	}
	p.change(number, &sl)
}
