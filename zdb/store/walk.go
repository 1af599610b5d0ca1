package store

import (
	"github.com/pkg/errors"

	"github.com/croft-edge/croft/zdb/store/format"
)

// At answers the entry at a position, deleted ones too; false if none begins
// there, or it is no longer kept.
func (s *Store) At(p Position) (Entry, bool, error) {
	number, found, err := s.index.Locate(p)
	if err != nil || !found {
		return Entry{}, false, err
	}
	sl, state, err := s.index.Get(number, 0)
	if err != nil || state != format.SlotGood {
		return Entry{}, false, err
	}
	e, err := s.mode.entry(number, sl)
	if errors.Is(err, ErrDamaged) {
		v := versionOf(number, &sl)
		return v.entry(s.index.Dead(number, &sl)), true, nil
	}
	return e, err == nil, err
}

// First answers the oldest live entry, in the order of SCAN.
func (s *Store) First() (Entry, bool, error) { return s.forward(0) }

// Last answers the newest live entry, in the order of SCAN.
func (s *Store) Last() (Entry, bool, error) { return s.backward(s.index.Next) }

// Next answers the live entry after e, which may be deleted. Damaged ones are left out.
func (s *Store) Next(e Entry) (Entry, bool, error) { return s.forward(e.slot + 1) }

// Prev answers the live entry before e, which may be deleted. Damaged ones are left out.
func (s *Store) Prev(e Entry) (Entry, bool, error) { return s.backward(e.slot) }

func (s *Store) forward(number uint64) (Entry, bool, error) {
	for {
		at, sl, found, err := s.index.LiveFrom(number)
		if err != nil || !found {
			return Entry{}, false, err
		}
		if !s.mode.suspect(at, sl) {
			e, err := s.mode.entry(at, sl)
			if err == nil || !errors.Is(err, ErrDamaged) {
				return e, err == nil, err
			}
		}
		number = at + 1
	}
}

func (s *Store) backward(number uint64) (Entry, bool, error) {
	for {
		at, sl, found, err := s.index.LiveBelow(number)
		if err != nil || !found {
			return Entry{}, false, err
		}
		if !s.mode.suspect(at, sl) {
			e, err := s.mode.entry(at, sl)
			if err == nil || !errors.Is(err, ErrDamaged) {
				return e, err == nil, err
			}
		}
		number = at
	}
}

// Near answers a stand-in for an entry at a position that is no longer kept, to
// go on from with Next or Prev and for nothing else. False if no entry can have
// been there: none is missing between its neighbours.
func (s *Store) Near(p Position) (Entry, bool, error) {
	if p.Offset < s.cfg.Layout.IndexHeader || !p.Before(s.files.indexEnd()) {
		return Entry{}, false, nil
	}
	before, some, err := s.index.Below(p)
	if err != nil {
		return Entry{}, false, err
	}
	missing := uint64(0)
	if some {
		missing = before + 1
	}
	after, _, some, err := s.index.GoodFrom(missing, s.index.Next)
	if err != nil {
		return Entry{}, false, err
	}
	if some && after == missing || !some && missing == s.index.Next {
		return Entry{}, false, nil
	}
	return Entry{Deleted: true, Position: p, slot: missing}, true, nil
}

// Value answers an entry's payload, valid until the next call of a store that
// has the same Shared. ErrGone if it was an old version whose space was needed, ErrDamaged.
func (s *Store) Value(e Entry) ([]byte, error) {
	sl, state, err := s.index.Get(e.slot, 0)
	switch {
	case err != nil:
		return nil, err
	case state == format.SlotBad:
		return nil, ErrDamaged
	case state == format.SlotAbsent || s.log.At(sl.At) == nil && s.index.Dead(e.slot, &sl):
		return nil, ErrGone
	}
	v := versionOf(e.slot, &sl)
	return s.versions.payload(&v)
}

// Parent answers the version before e, if there is one and its value is
// still kept.
func (s *Store) Parent(e Entry) (Entry, bool, error) {
	sl, state, err := s.index.Get(e.slot, 0)
	if err != nil || state != format.SlotGood || s.log.At(sl.At) == nil {
		return Entry{}, false, err
	}
	v := versionOf(e.slot, &sl)
	if err := s.versions.read(&v, format.HeadMost); err != nil {
		return Entry{}, false, errorUnless(err, ErrDamaged)
	}
	if !v.head.Replaces {
		return Entry{}, false, nil
	}
	parent := v.head.Old.Slot
	if sl, state, err = s.index.Get(parent, 0); err != nil || state != format.SlotGood || s.log.At(sl.At) == nil {
		return Entry{}, false, err
	}
	out, err := s.mode.entry(parent, sl)
	return out, err == nil, errorUnless(err, ErrDamaged)
}

// Raw answers the entry at an offset of a data file: ErrEOF behind the file's
// end, ErrOffset if none begins there or there is no such file, ErrGone.
func (s *Store) Raw(file, offset uint32) (RawEntry, error) {
	return s.raw.entry(Position{File: file, Offset: offset})
}
