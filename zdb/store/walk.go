package store

import (
	"encoding/binary"

	"github.com/pkg/errors"
)

// entryOf answers the entry of a slot. A dead one whose record is gone has no key.
func (s *Store) entryOf(number uint64, sl *slot) (Entry, error) {
	v := s.versionOf(number, sl)
	dead := s.isDead(number, sl)
	if s.cfg.Sequential {
		id := number
		if sl.flags&slotOld != 0 {
			id = sl.hash
		}
		v.key = binary.LittleEndian.AppendUint64(s.id[:0], id)[:s.cfg.Layout.IDSize]
		return v.entry(dead), nil
	}
	if dead && s.wal.segments[sl.at.segment()] == nil {
		return v.entry(dead), nil
	}
	if err := s.readVersion(&v, headLong+int(sl.keyLen)); err != nil {
		return Entry{}, err
	}
	if v.slot != number {
		return Entry{}, s.damage(sl.at, "its slot")
	}
	return v.entry(dead), nil
}

// At answers the entry at a position, deleted ones too; false if none begins
// there, or it is no longer kept.
func (s *Store) At(p Position) (Entry, bool, error) {
	number, found, err := s.index.locate(p)
	if err != nil || !found {
		return Entry{}, false, err
	}
	sl, state, err := s.index.get(number, 0)
	if err != nil || state != slotGood {
		return Entry{}, false, err
	}
	e, err := s.entryOf(number, &sl)
	if errors.Is(err, ErrDamaged) {
		v := s.versionOf(number, &sl)
		return v.entry(s.isDead(number, &sl)), true, nil
	}
	return e, err == nil, err
}

// First answers the oldest live entry, in the order of SCAN.
func (s *Store) First() (Entry, bool, error) { return s.forward(0) }

// Last answers the newest live entry, in the order of SCAN.
func (s *Store) Last() (Entry, bool, error) { return s.backward(s.index.next) }

// Next answers the live entry after e, which may be deleted. Damaged ones are left out.
func (s *Store) Next(e Entry) (Entry, bool, error) { return s.forward(e.slot + 1) }

// Prev answers the live entry before e, which may be deleted. Damaged ones are left out.
func (s *Store) Prev(e Entry) (Entry, bool, error) { return s.backward(e.slot) }

func (s *Store) forward(number uint64) (Entry, bool, error) {
	for {
		at, sl, found, err := s.index.liveFrom(number)
		if err != nil || !found {
			return Entry{}, false, err
		}
		if s.doubtful(at, &sl) {
			number = at + 1
			continue
		}
		e, err := s.entryOf(at, &sl)
		if err == nil || !errors.Is(err, ErrDamaged) {
			return e, err == nil, err
		}
		number = at + 1
	}
}

func (s *Store) backward(number uint64) (Entry, bool, error) {
	for {
		at, sl, found, err := s.index.liveBelow(number)
		if err != nil || !found {
			return Entry{}, false, err
		}
		if s.doubtful(at, &sl) {
			number = at
			continue
		}
		e, err := s.entryOf(at, &sl)
		if err == nil || !errors.Is(err, ErrDamaged) {
			return e, err == nil, err
		}
		number = at
	}
}
