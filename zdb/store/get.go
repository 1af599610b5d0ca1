package store

import (
	"encoding/binary"
	"io/fs"

	"github.com/pkg/errors"
)

// version is one version of an entry, as far as it was read.
type version struct {
	found bool
	slot  uint64
	index Position
	at    place
	size  uint32 // of the record
	head  head   // of a sequential one only what its slot says
	key   []byte
	raw   []byte // the record, or the beginning of it
	sl    slot   // in sequential mode
}

// find looks for a key's live version in user mode; whole says that its payload is wanted too. ErrDamaged: there
// is a record that may be it and can't be read.
func (s *Store) find(hash uint64, key []byte, whole bool) (version, error) {
	var failed error
	for i := s.keys.first(hash); i >= 0; i = s.keys.next(hash, i) {
		ks := s.keys.at(hash, i)
		want := headLong + len(key)
		if whole {
			want = int(ks.size)
		}
		v := version{at: ks.at, size: ks.size}
		err := s.readVersion(&v, min(want, int(ks.size)))
		switch {
		case err != nil && failed == nil:
			failed = err
		case err == nil && string(v.key) == string(key):
			v.found = true
			if v.slot < s.doubt {
				return v, s.doubted()
			}
			return v, nil
		}
	}
	if failed == nil && s.doubt > 0 {
		failed = s.doubted()
	}
	return version{}, failed
}

// readVersion reads the first n bytes of a version's record.
func (s *Store) readVersion(v *version, n int) error {
	b, err := s.wal.read(v.at, n)
	if err != nil {
		return err
	}
	var ok bool
	v.head, v.key, _, ok = parseHead(b, s.wal.mask(v.at))
	if !ok || v.head.kind != kindPut || v.size != 0 && v.head.size() != v.size {
		return s.damage(v.at, "its head")
	}
	v.raw, v.size = b, v.head.size()
	v.slot, v.index = v.head.slot, v.head.index
	return nil
}

// findID looks for an id's live version in sequential mode; its record isn't read.
func (s *Store) findID(key []byte) (version, error) {
	number, ok := s.number(key)
	if !ok {
		return version{}, nil
	}
	sl, state, err := s.index.get(number, 0)
	if err != nil {
		return version{}, err
	}
	if state == slotBad {
		return version{}, ErrDamaged
	}
	if state == slotAbsent || sl.dead() {
		if number < s.doubt {
			err = s.doubted()
		}
		return version{}, err
	}
	if s.doubtful(number, &sl) {
		err = s.doubted()
	}
	return s.versionOf(number, &sl), err
}

// doubted answers for an entry that may have been changed in a damaged part of the log.
func (s *Store) doubted() error {
	s.damaged++
	return ErrDamaged
}

func (s *Store) versionOf(number uint64, sl *slot) version {
	return version{
		found: true, slot: number, index: sl.index, at: sl.at, size: sl.size(), sl: *sl,
		head: head{keyLen: sl.keyLen, length: sl.length, crc: sl.crc, time: sl.time},
	}
}

// number is the slot that an id names.
func (s *Store) number(id []byte) (uint64, bool) {
	if len(id) != s.cfg.Layout.IDSize {
		return 0, false
	}
	var b [8]byte
	copy(b[:], id)
	number := binary.LittleEndian.Uint64(b[:])
	return number, number < s.index.next
}

// payload answers a version's payload, checked, valid until the next read.
func (s *Store) payload(v *version) ([]byte, error) {
	if len(v.raw) < int(v.size) || len(v.raw) == 0 {
		length, crc := v.head.length, v.head.crc
		if err := s.readVersion(v, int(v.size)); err != nil {
			return nil, err
		}
		if v.head.length != length || v.head.crc != crc || len(v.raw) < int(v.size) {
			return nil, s.damage(v.at, "its length")
		}
	}
	p := v.raw[int(v.size)-int(v.head.length) : v.size]
	if payloadCRC(p) != v.head.crc {
		return nil, s.damage(v.at, "its payload")
	}
	return p, nil
}

// damage notes that a record isn't what was written.
func (s *Store) damage(at place, what string) error {
	s.damaged++
	seg := s.wal.segments[at.segment()]
	if seg == nil {
		s.cfg.Log.Error().Uint32("segment", at.segment()).Uint32("offset", at.offset()).
			Msg("a segment of the log is gone that holds live entries")
		return ErrDamaged
	}
	if !seg.damaged {
		seg.damaged = true
		s.cfg.Log.Error().Str("file", seg.path).Uint32("offset", at.offset()).Str("what", what).
			Msg("a record of the log is damaged; the segment is kept as it is")
	}
	return ErrDamaged
}

// badSlot notes that a slot isn't what was written: the next start makes the
// index again.
func (s *Store) badSlot(number uint64) {
	s.damaged++
	if s.distrusted {
		return
	}
	s.distrusted = true
	s.cfg.Log.Error().Uint64("slot", number).Str("dir", s.cfg.IndexDir).
		Msg("the index is damaged; it is made again from the log at the next start")
	if err := s.disk.Remove(s.checkpointPath()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		s.cfg.Log.Error().Err(err).Msg("cannot remove the checkpoint")
	}
}

// Get answers key's value, which is valid until the next call of a store that
// has the same Shared. ErrDamaged if it isn't what was written.
func (s *Store) Get(key []byte) (value []byte, found bool, err error) {
	var v version
	if s.cfg.Sequential {
		v, err = s.findID(key)
	} else {
		v, err = s.find(s.wal.id.hash(key), key, true)
	}
	if err != nil || !v.found {
		return nil, false, err
	}
	value, err = s.payload(&v)
	return value, err == nil, err
}

// Lookup answers key's live entry.
func (s *Store) Lookup(key []byte) (Entry, bool, error) {
	var v version
	var err error
	if s.cfg.Sequential {
		if v, err = s.findID(key); v.found {
			v.key = key
		}
	} else {
		v, err = s.find(s.wal.id.hash(key), key, false)
	}
	if err != nil || !v.found {
		return Entry{}, false, err
	}
	return v.entry(false), true, nil
}

func (v *version) entry(dead bool) Entry {
	return Entry{
		Key: v.key, Length: v.head.length, CRC: v.head.crc, Time: v.head.time, Deleted: dead,
		Position: v.index, slot: v.slot,
	}
}

// Value answers an entry's payload, valid until the next call of a store that
// has the same Shared. ErrGone if it was an old version whose space was needed, ErrDamaged.
func (s *Store) Value(e Entry) ([]byte, error) {
	sl, state, err := s.index.get(e.slot, 0)
	switch {
	case err != nil:
		return nil, err
	case state == slotBad:
		return nil, ErrDamaged
	case state == slotAbsent || s.wal.segments[sl.at.segment()] == nil && s.isDead(e.slot, &sl):
		return nil, ErrGone
	}
	v := s.versionOf(e.slot, &sl)
	return s.payload(&v)
}

// isDead says whether a slot's entry is deleted or an older version.
func (s *Store) isDead(number uint64, sl *slot) bool {
	if s.cfg.Sequential {
		return sl.dead()
	}
	c := s.index.chunk(number / s.index.per)
	return c == nil || c.isDead(number%s.index.per)
}

// Parent answers the version before e, if there is one and its value is
// still kept.
func (s *Store) Parent(e Entry) (Entry, bool, error) {
	sl, state, err := s.index.get(e.slot, 0)
	if err != nil || state != slotGood || s.wal.segments[sl.at.segment()] == nil {
		return Entry{}, false, err
	}
	v := s.versionOf(e.slot, &sl)
	if err := s.readVersion(&v, headMost); err != nil {
		return Entry{}, false, errorUnless(err, ErrDamaged)
	}
	if !v.head.long {
		return Entry{}, false, nil
	}
	parent := v.head.other.slot
	if sl, state, err = s.index.get(parent, 0); err != nil || state != slotGood || s.wal.segments[sl.at.segment()] == nil {
		return Entry{}, false, err
	}
	out, err := s.entryOf(parent, &sl)
	return out, err == nil, errorUnless(err, ErrDamaged)
}

func errorUnless(err, forgiven error) error {
	if errors.Is(err, forgiven) {
		return nil
	}
	return err
}
