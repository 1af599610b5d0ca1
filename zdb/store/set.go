package store

import (
	"bytes"
	"encoding/binary"

	"github.com/pkg/errors"
)

// largeValue is the payload, in bytes, from which on a value is written at once, without being
// copied first.
const largeValue = 256 << 10

// Set stores value under key. In sequential mode an empty key makes a new
// entry, and any other must be the id of a live one (ErrUnknownID). It answers
// the key or id, valid until the store's next call. The same value again isn't written: wrote is false.
// Other errors: ErrKey, ErrWorm, ErrNoSpace, ErrFull, ErrValue, and the disk's.
func (s *Store) Set(key, value []byte, o SetOptions) (id []byte, wrote bool, err error) {
	if len(key) > MaxKey || len(key) == 0 && !s.cfg.Sequential {
		return nil, false, ErrKey
	}
	if len(value) > maxValue {
		return nil, false, ErrValue
	}
	if err := s.prepare(2*headLong+len(key)+s.cfg.Layout.IDSize+len(value), true); err != nil {
		return nil, false, err
	}
	if s.cfg.Sequential {
		return s.setSequential(key, value, o)
	}
	return s.setUser(key, value, o)
}

func (s *Store) setUser(key, value []byte, o SetOptions) ([]byte, bool, error) {
	hash := s.wal.id.hash(key)
	// The payload isn't read: it matters only when the crc is the same.
	old, err := s.find(hash, key, false)
	if err != nil && !errors.Is(err, ErrDamaged) {
		return nil, false, err
	}
	same, err := s.judge(&old, len(key), value, o)
	if err != nil || same {
		return key, false, err
	}
	if !old.found && !s.keys.room(hash) {
		return nil, false, ErrFull
	}
	s.turn(len(key), len(value))
	h := head{
		kind: kindPut, keyLen: uint8(len(key)), length: uint32(len(value)), crc: payloadCRC(value), time: o.At,
		data: Position{s.state.file, s.state.data}, prev: s.state.prev,
		slot: s.index.next, index: Position{s.state.file, s.state.index},
	}
	c := change{kind: userPut, hash: hash, saved: -1}
	if old.found {
		h.long, h.other = true, other{slot: old.slot, index: old.index, at: old.at}
		c.old, c.oldSize, c.slot = old.at, old.head.size(), old.slot
	}
	c.at, c.size = s.wal.end(), h.size()
	if old.found {
		*s.keys.locate(hash, old.at) = keySlot{tag: tagOf(hash), size: c.size, at: c.at}
		s.index.setDead(old.slot)
		s.touch(old.index.File)
	} else {
		s.keys.add(hash, c.at, c.size)
	}
	sl := slotOf(&h, hash, c.at)
	s.index.append(&sl)
	s.counted(&c, &old, len(key), len(value))
	return key, true, s.append(&h, key, value)
}

func (s *Store) setSequential(key, value []byte, o SetOptions) ([]byte, bool, error) {
	var old version
	if len(key) > 0 {
		var err error
		if old, err = s.findID(key); err != nil && !errors.Is(err, ErrDamaged) {
			return nil, false, err
		}
		if !old.found {
			return nil, false, ErrUnknownID
		}
	} else if s.cfg.Layout.IDSize == 4 && s.index.next > 1<<32-1 {
		return nil, false, ErrFull
	}
	same, err := s.judge(&old, s.cfg.Layout.IDSize, value, o)
	if err != nil || same {
		return key, false, err
	}
	s.turn(s.cfg.Layout.IDSize, len(value))
	h := head{
		kind: kindPut, keyLen: uint8(s.cfg.Layout.IDSize), length: uint32(len(value)), crc: payloadCRC(value), time: o.At,
		data: Position{s.state.file, s.state.data}, prev: s.state.prev,
		slot: s.index.next, index: Position{s.state.file, s.state.index},
	}
	if old.found {
		s.update(&h, &old)
		return key, true, s.append(&h, key, value)
	}
	id := binary.LittleEndian.AppendUint64(s.id[:0], h.slot)[:s.cfg.Layout.IDSize]
	c := change{kind: seqInsert, at: s.wal.end(), size: h.size(), saved: -1}
	sl := slotOf(&h, h.slot, c.at)
	s.index.append(&sl)
	s.counted(&c, &old, len(id), len(value))
	return id, true, s.append(&h, id, value)
}

// update gives the new version h of an id the slot of the old one, which goes
// to the next slot.
func (s *Store) update(h *head, old *version) {
	h.long, h.other = true, other{slot: h.slot, index: h.index, at: old.at}
	h.slot, h.index = old.slot, old.index
	c := change{kind: seqUpdate, at: s.wal.end(), size: h.size(), old: old.at, oldSize: old.sl.size(), slot: old.slot}
	c.saved = s.save(old.slot)
	now := slotOf(h, old.slot, c.at)
	now.data = old.sl.data
	s.index.set(old.slot, &now)
	was := old.sl
	was.flags |= slotDead | slotOld
	was.index, was.data = h.other.index, h.data.Offset
	s.index.append(&was)
	s.touch(old.index.File)
	s.counted(&c, old, int(h.keyLen), int(h.length))
}

// judge says whether value may take old's place, and whether it is the same.
func (s *Store) judge(old *version, key int, value []byte, o SetOptions) (same bool, err error) {
	if old.found && o.Worm {
		return false, ErrWorm
	}
	if err := s.allowed(old, key, len(value)); err != nil {
		return false, err
	}
	if old.found && (!s.cfg.Sequential && old.slot < s.doubt || s.cfg.Sequential && s.doubtful(old.slot, &old.sl)) {
		return false, nil // it may not be the value that the key has
	}
	if !old.found || old.head.length != uint32(len(value)) || old.head.crc != payloadCRC(value) {
		return false, nil
	}
	was, err := s.payload(old)
	if err != nil && !errors.Is(err, ErrDamaged) {
		return false, err
	}
	return err == nil && bytes.Equal(was, value), nil
}

// turn goes to the next file when 0-db would.
func (s *Store) turn(key, value int) {
	end := uint64(s.state.data) + uint64(value)
	if end > s.cfg.DataSize || end+uint64(key)+uint64(s.cfg.Layout.DataEntry) > 1<<32-1 {
		s.rotate()
	}
}

// counted notes a new version that took old's place, if that was found.
func (s *Store) counted(c *change, old *version, key, value int) {
	n, l := &s.counters, s.cfg.Layout
	s.account(c.at, int64(c.size))
	n.dataBytes += uint64(value)
	if old.found {
		s.account(c.old, -int64(c.oldSize))
		n.dataBytes -= uint64(old.head.length)
	} else {
		n.entries++
		n.inserts++
		n.keyBytes += uint64(key)
	}
	s.state.prev = s.state.data
	s.state.data += l.DataEntry + uint32(key+value)
	s.state.index += l.IndexEntry + uint32(key)
	s.undo = append(s.undo, *c)
}

// append puts a record into the log's buffer; a large one is written.
func (s *Store) append(h *head, key, value []byte) error {
	s.wal.buf = h.appendRecord(s.wal.buf, key, s.wal.mask(s.wal.end()))
	if len(value) >= largeValue {
		return s.commit(value)
	}
	s.wal.buf = append(s.wal.buf, value...)
	return nil
}

// Delete deletes key's entry; false if there is none. at is the deletion's
// time, in seconds since 1970.
func (s *Store) Delete(key []byte, at uint32) (bool, error) {
	if err := s.prepare(headLong+len(key), false); err != nil {
		return false, err
	}
	var old version
	var err error
	hash := s.wal.id.hash(key)
	if s.cfg.Sequential {
		old, err = s.findID(key)
	} else {
		old, err = s.find(hash, key, false)
	}
	if !old.found {
		return false, err
	}
	h := head{
		kind: kindDelete, keyLen: uint8(len(key)), time: at, data: Position{s.state.file, s.state.data}, prev: s.state.prev,
		slot: old.slot, index: old.index, long: true, other: other{slot: old.slot, index: old.index, at: old.at},
	}
	c := change{kind: userDelete, hash: hash, old: old.at, oldSize: old.size, slot: old.slot, saved: -1}
	if s.cfg.Sequential {
		c.kind, c.saved = seqDelete, s.save(old.slot)
		gone := old.sl
		gone.flags |= slotDead
		s.index.set(old.slot, &gone)
		s.index.chunk(old.slot/s.index.per).live--
	} else {
		s.keys.remove(hash, old.at)
		s.index.setDead(old.slot)
	}
	n := &s.counters
	n.entries--
	n.keyBytes -= uint64(len(key))
	n.dataBytes -= uint64(old.head.length)
	s.account(c.old, -int64(c.oldSize))
	s.touch(old.index.File)
	s.state.prev = s.state.data
	s.state.data += s.cfg.Layout.DataEntry + uint32(len(key))
	s.undo = append(s.undo, c)
	return true, s.append(&h, key, nil)
}

// Rotate begins the next file: NSJUMP.
func (s *Store) Rotate() error {
	if err := s.prepare(headLong, true); err != nil {
		return err
	}
	s.rotate()
	return nil
}

func (s *Store) rotate() {
	l := s.cfg.Layout
	s.state.file, s.state.data, s.state.index = s.state.file+1, l.DataHeader, l.IndexHeader
	h := head{kind: kindRotate, data: Position{s.state.file, s.state.data}, prev: s.state.prev, slot: s.index.next}
	s.wal.buf = h.appendRecord(s.wal.buf, nil, s.wal.mask(s.wal.end()))
}

// touch notes that an entry of an index file was changed.
func (s *Store) touch(file uint32) {
	if file == s.touched && len(s.dirty) > 0 {
		return
	}
	s.dirty[file], s.touched = struct{}{}, file
}
