package store

import (
	"bytes"
	"encoding/binary"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/pkg/errors"
)

// The first form of the store: everything is in memory, and a journal of what
// was done is replayed at the start.

// Store is one namespace's entries. All methods are for one goroutine.
type Store struct {
	cfg     Config
	slots   []version
	raws    []raw
	live    map[string]int
	dirty   map[uint32]bool
	stats   Stats
	prev    uint32
	journal *os.File
	pending []byte
	replay  bool
}

type version struct {
	Entry
	value  []byte
	parent int
}

type raw struct {
	file, offset uint32
	RawEntry
}

// Open opens the store in cfg.Dir, which is made when it isn't there, and
// repairs what a crash left.
func Open(cfg Config) (*Store, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return nil, errors.Wrapf(err, "cannot open store %s", cfg.Dir)
	}
	f, err := os.OpenFile(filepath.Join(cfg.Dir, "journal"), os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, errors.Wrapf(err, "cannot open store %s", cfg.Dir)
	}
	s := &Store{cfg: cfg, live: map[string]int{}, dirty: map[uint32]bool{}, journal: f}
	s.stats.DataOffset, s.stats.IndexOffset = cfg.Layout.DataHeader, cfg.Layout.IndexHeader
	data, err := io.ReadAll(f)
	if err != nil {
		return nil, errors.Wrapf(err, "cannot open store %s", cfg.Dir)
	}
	s.load(data)
	s.stats.Next = uint64(len(s.slots))
	s.dirty = map[uint32]bool{}
	return s, nil
}

func (s *Store) load(data []byte) {
	s.replay = true
	for len(data) >= 13 {
		k, v := int(binary.LittleEndian.Uint32(data[5:])), int(binary.LittleEndian.Uint32(data[9:]))
		if len(data) < 13+k+v {
			break
		}
		at, key, value := binary.LittleEndian.Uint32(data[1:]), data[13:13+k], data[13+k:13+k+v]
		switch data[0] {
		case 's':
			_, _, _ = s.Set(key, value, SetOptions{At: at})
		case 'd':
			_, _ = s.Delete(key, at)
		case 'r':
			_ = s.Rotate()
		}
		data = data[13+k+v:]
	}
	s.replay = false
}

func (s *Store) note(kind byte, at uint32, key, value []byte) {
	if s.replay {
		return
	}
	b := []byte{kind}
	b = binary.LittleEndian.AppendUint32(b, at)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(key)))
	b = binary.LittleEndian.AppendUint32(b, uint32(len(value)))
	s.pending = append(append(append(s.pending, b...), key...), value...)
}

// Set stores value under key. In sequential mode an empty key makes a new
// entry and answers its id, and any other must be the id of a live one
// (ErrUnknownID). The same value again isn't written: wrote is false.
func (s *Store) Set(key, value []byte, o SetOptions) (id []byte, wrote bool, err error) {
	if len(key) > MaxKey || len(key) == 0 && !s.cfg.Sequential {
		return nil, false, ErrKey
	}
	old, has := s.live[string(key)]
	if s.cfg.Sequential && len(key) > 0 && !has {
		return nil, false, ErrUnknownID
	}
	var oldLength uint64
	if has {
		oldLength = uint64(s.slots[old].Length)
	}
	if has && o.Worm {
		return nil, false, ErrWorm
	}
	if m := s.cfg.MaxSize; !s.replay && m > 0 && s.stats.DataBytes+uint64(len(value)) > m+oldLength {
		return nil, false, ErrNoSpace
	}
	if has && bytes.Equal(s.slots[old].value, value) {
		return key, false, nil
	}
	s.note('s', o.At, key, value)
	if uint64(s.stats.DataOffset)+uint64(len(value)) > s.cfg.DataSize {
		s.rotate()
	}
	if len(key) == 0 {
		key = binary.LittleEndian.AppendUint64(nil, uint64(len(s.slots)))[:s.cfg.Layout.IDSize]
	}
	return key, true, s.put(bytes.Clone(key), bytes.Clone(value), o.At, old, has)
}

func (s *Store) put(key, value []byte, at uint32, old int, has bool) error {
	pos := Position{s.stats.File, s.stats.IndexOffset}
	v := version{Entry: Entry{Key: key, Length: uint32(len(value)), CRC: payloadCRC(value), Time: at, Position: pos}, value: value, parent: -1}
	s.raws = append(s.raws, raw{s.stats.File, s.stats.DataOffset, RawEntry{Key: key, Previous: s.prev, CRC: v.CRC, Time: at, Value: value}})
	s.prev = s.stats.DataOffset
	s.stats.DataOffset += s.cfg.Layout.DataEntry + uint32(len(key)+len(value))
	s.stats.IndexOffset += s.cfg.Layout.IndexEntry + uint32(len(key))
	s.stats.DataBytes += uint64(len(value))
	switch {
	case !has:
		s.live[string(key)] = len(s.slots)
		s.stats.Entries++
		s.stats.Next++
		s.stats.KeyBytes += uint64(len(key))
		s.slots = append(s.slots, v)
		return nil
	case s.cfg.Sequential:
		was := s.slots[old]
		was.Deleted, was.Position = true, pos
		v.Position, v.parent = s.slots[old].Position, len(s.slots)
		s.slots[old] = v
		s.slots = append(s.slots, was)
		s.stats.Next++
	default:
		s.slots[old].Deleted = true
		v.parent = old
		s.live[string(key)] = len(s.slots)
		s.slots = append(s.slots, v)
	}
	s.stats.DataBytes -= uint64(s.slots[s.slots[s.live[string(key)]].parent].Length)
	s.dirty[s.slots[old].Position.File] = true
	return nil
}

// Delete deletes key's entry; false if there is none. at is the deletion's
// time, in seconds since 1970.
func (s *Store) Delete(key []byte, at uint32) (bool, error) {
	i, has := s.live[string(key)]
	if !has {
		return false, nil
	}
	s.note('d', at, key, nil)
	s.slots[i].Deleted = true
	delete(s.live, string(key))
	s.stats.Entries--
	s.stats.KeyBytes -= uint64(len(key))
	s.stats.DataBytes -= uint64(s.slots[i].Length)
	s.raws = append(s.raws, raw{s.stats.File, s.stats.DataOffset, RawEntry{Key: bytes.Clone(key), Previous: s.prev, Deleted: true, Time: at}})
	s.prev = s.stats.DataOffset
	s.stats.DataOffset += s.cfg.Layout.DataEntry + uint32(len(key))
	s.dirty[s.slots[i].Position.File] = true
	return true, nil
}

// Get answers key's value, which is valid until the store's next call. ErrDamaged if
// it isn't what was written.
func (s *Store) Get(key []byte) (value []byte, found bool, err error) {
	if i, has := s.live[string(key)]; has {
		return s.slots[i].value, true, nil
	}
	return nil, false, nil
}

// Lookup answers key's live entry.
func (s *Store) Lookup(key []byte) (Entry, bool, error) {
	if i, has := s.live[string(key)]; has {
		return s.entry(i), true, nil
	}
	return Entry{}, false, nil
}

func (s *Store) entry(i int) Entry {
	e := s.slots[i].Entry
	e.slot = uint64(i)
	return e
}

// At answers the entry at a position, deleted ones too; false if none begins
// there, or it is no longer kept.
func (s *Store) At(p Position) (Entry, bool, error) {
	for i := range s.slots {
		if s.slots[i].Position == p {
			return s.entry(i), true, nil
		}
	}
	return Entry{}, false, nil
}

// Parent answers the version before e, if there is one and its value is
// still kept.
func (s *Store) Parent(e Entry) (Entry, bool, error) {
	if p := s.slots[e.slot].parent; p >= 0 {
		return s.entry(p), true, nil
	}
	return Entry{}, false, nil
}

// Value answers an entry's payload, valid until the store's next call. ErrGone if it was
// an old version whose space was needed, ErrDamaged.
func (s *Store) Value(e Entry) ([]byte, error) { return s.slots[e.slot].value, nil }

// First answers the oldest live entry, in the order of SCAN.
func (s *Store) First() (Entry, bool, error) { return s.walk(-1, 1) }

// Last answers the newest live entry, in the order of SCAN.
func (s *Store) Last() (Entry, bool, error) { return s.walk(len(s.slots), -1) }

// Next answers the live entry after e, which may be deleted.
func (s *Store) Next(e Entry) (Entry, bool, error) { return s.walk(int(e.slot), 1) }

// Prev answers the live entry before e, which may be deleted.
func (s *Store) Prev(e Entry) (Entry, bool, error) { return s.walk(int(e.slot), -1) }

func (s *Store) walk(i, step int) (Entry, bool, error) {
	for i += step; i >= 0 && i < len(s.slots); i += step {
		if !s.slots[i].Deleted {
			return s.entry(i), true, nil
		}
	}
	return Entry{}, false, nil
}

// Raw answers the entry at an offset of a data file: ErrEOF behind the file's
// end, ErrOffset if none begins there or there is no such file, ErrGone.
func (s *Store) Raw(file, offset uint32) (RawEntry, error) {
	end := file == s.stats.File && offset >= s.stats.DataOffset
	for i := range s.raws {
		if s.raws[i].file == file && s.raws[i].offset == offset {
			return s.raws[i].RawEntry, nil
		}
		end = end || s.raws[i].file > file && offset >= s.raws[i].Previous
	}
	if end {
		return RawEntry{}, ErrEOF
	}
	return RawEntry{}, ErrOffset
}

// Rotate begins the next file: NSJUMP.
func (s *Store) Rotate() error {
	s.note('r', 0, nil, nil)
	s.rotate()
	return nil
}

func (s *Store) rotate() {
	s.stats.File++
	s.stats.DataOffset, s.stats.IndexOffset = s.cfg.Layout.DataHeader, s.cfg.Layout.IndexHeader
}

// Dirty answers the index files in which entries were changed since ResetDirty
// or Open, in ascending order.
func (s *Store) Dirty() []uint32 {
	out := []uint32{}
	for f := uint32(0); f <= s.stats.File; f++ {
		if s.dirty[f] {
			out = append(out, f)
		}
	}
	return out
}

// ResetDirty forgets what Dirty answers.
func (s *Store) ResetDirty() { s.dirty = map[uint32]bool{} }

// Stats answers what the store holds.
func (s *Store) Stats() Stats { return s.stats }

// SetMaxSize sets how much live payload there may be, in bytes; 0 is no limit.
// All files of the store stay below MaxDisk of it.
func (s *Store) SetMaxSize(size uint64) { s.cfg.MaxSize = size }

// MaxDisk is how much disk a store with a limit of size takes, in bytes.
func MaxDisk(size uint64) uint64 { return node.ZDBDisk(size) }

// Flush writes what was done since the last Flush: after it a crash of the
// process loses none of it, with Config.Sync a power cut neither. If it
// fails, none of it was done.
func (s *Store) Flush() error {
	if len(s.pending) == 0 {
		return nil
	}
	_, err := s.journal.Write(s.pending)
	s.pending = s.pending[:0]
	if err == nil && s.cfg.Sync {
		err = s.journal.Sync()
	}
	return errors.Wrapf(err, "cannot write to store %s", s.cfg.Dir)
}

// Work does a step of what can wait, of about budget bytes, and answers when it wants to be called again; 0 is at once.
// Call it when idle and about every second.
func (s *Store) Work(time.Time, int) (time.Duration, error) { return time.Second, nil }

// Close writes what is left and closes the store.
func (s *Store) Close() error {
	err := s.Flush()
	return stderrorsJoin(err, s.journal.Close())
}

// Discard closes the store without writing anything; its folders may then be
// removed.
func (s *Store) Discard() { s.journal.Close() }

func stderrorsJoin(a, b error) error {
	if a != nil {
		return a
	}
	return b
}
