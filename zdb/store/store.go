package store

import (
	"maps"
	"slices"
	"time"

	"github.com/pkg/errors"
)

// Store is one namespace's entries. All methods are for one goroutine.
type Store struct {
	cfg    Config
	disk   disk
	shared *Shared
	unlock func()

	wal   *wal
	index *index
	keys  keys

	state    state
	counters counters
	live     int64  // bytes of records that are needed
	opened   uint64 // slots that there were when it was opened
	id       [8]byte

	undo   []change
	saved  []byte
	before snapshot
	failed error // this round can't be written
	broken error // nothing may be written any more

	dirty   map[uint32]struct{}
	touched uint32
	damaged uint64

	rawLast   place // of the record that Raw found last by looking through a segment
	rawLastAt Position

	boot    uint64 // the machine's start
	lasting place  // all of the log before it is on disk
	doubt   uint64 // see doubt.go; 0: none

	distrusted bool // the index is damaged: no checkpoint may be written

	keeper
	reserve
	hold    *holder
	cleaner cleaner
}

// counters are of the live entries, but for inserts.
type counters struct {
	entries, dataBytes, keyBytes uint64
	inserts                      uint64 // entries that came since the store was opened
}

// tailMost is how many bytes of slots may wait in memory when the index can't be written.
const tailMost = 4 << 20

// prepare makes sure that n bytes can be appended to the log. data says that they are a value's: nothing
// else may use the reserve.
func (s *Store) prepare(n int, data bool) error {
	if s.broken != nil {
		return s.broken
	}
	if s.failed != nil {
		return s.failed
	}
	if len(s.wal.buf) > 0 && (len(s.wal.buf)+n > bufMost || !s.wal.fits(int64(n))) {
		if err := s.commit(nil); err != nil {
			return err
		}
	}
	if data && len(s.index.tail) > tailMost {
		if err := s.index.writeTail(); err != nil {
			return err
		}
	}
	if err := s.relieve(int64(n)); err != nil && (data || !isFull(err)) {
		return err
	}
	if err := s.room(int64(n), data); err != nil {
		return err
	}
	s.begin(int64(n))
	return nil
}

// begin goes to a new segment when n bytes don't fit into the active one, and puts the header
// into a new one.
func (s *Store) begin(n int64) {
	w := s.wal
	if !w.fits(n) {
		w.roll()
	}
	if w.active.size == 0 && len(w.buf) == 0 {
		head := segmentHead{id: w.id, number: w.active.number, kind: w.kind, state: s.state, next: s.index.next, boot: s.boot, synced: s.lasting, doubt: s.doubt}
		w.active.boot = s.boot
		w.buf = head.append(w.buf)
	}
}

// commit writes what was done, and extra behind it, to the log. If that fails it is taken back.
func (s *Store) commit(extra []byte) error {
	if len(s.wal.buf) == 0 && len(extra) == 0 {
		s.before = s.snap() // the cleaner may have gone on without writing
		return nil
	}
	s.written += int64(len(s.wal.buf) + len(extra))
	s.unsynced = true
	if err := s.wal.write(extra); err != nil {
		s.rollback()
		if isFull(err) {
			err = s.tighten(err, s.cfg.now())
		}
		s.failed = errors.Wrapf(err, "cannot write to store %s", s.cfg.Dir)
		return s.failed
	}
	s.committed()
	if len(s.index.tail) >= tailWrite {
		if err := s.index.writeTail(); err != nil {
			s.cfg.Log.Error().Err(err).Str("dir", s.cfg.IndexDir).Msg("cannot write the index, trying again")
		}
	}
	return nil
}

// Flush writes what was done since the last Flush: after it a crash of the
// process loses none of it, with Config.Sync a power cut neither. If it
// fails, nobody may be told that it was done: some of it may be, but nothing
// that was flushed before is lost.
func (s *Store) Flush() error {
	written := len(s.wal.buf)
	if written > 0 {
		s.assist(written)
	}
	err := s.commit(nil)
	if s.failed != nil {
		err, s.failed = s.failed, nil
	}
	if err == nil {
		err = s.settle()
	}
	if written > 0 || s.job != nil {
		s.tend(s.cfg.now())
	}
	return err
}

// settle makes last what was written, with Config.Sync. Nothing else may do so in its stead: a
// job that is running has not yet done it.
func (s *Store) settle() error {
	if s.broken != nil || !s.cfg.Sync || !s.unsynced {
		return s.broken
	}
	if err := s.wal.sync(); err != nil {
		s.unsure(err)
		return s.broken
	}
	s.lasting = s.wal.end()
	s.unsynced = false
	return nil
}

// unsure ends all writing: after a sync that failed nobody knows what is on
// disk, and another sync may say that all is well.
func (s *Store) unsure(err error) {
	s.broken = errors.Wrapf(err, "cannot write to store %s until it is opened again", s.cfg.Dir)
	s.cfg.Log.Error().Err(err).Str("dir", s.cfg.Dir).Msg("the disk lost writes; the store only reads from now on")
}

// Stats answers what the store holds.
func (s *Store) Stats() Stats {
	out := Stats{
		Entries: s.counters.entries, DataBytes: s.counters.dataBytes, KeyBytes: s.counters.keyBytes,
		Next: s.index.next,
		File: s.state.file, DataOffset: s.state.data, IndexOffset: s.state.index,
		Disk: uint64(s.used()), Memory: uint64(s.keys.bytes), Damaged: s.damaged,
	}
	if !s.cfg.Sequential {
		out.Next = s.opened + s.counters.inserts
	}
	return out
}

// Dirty answers the index files in which entries were changed since ResetDirty
// or Open, in ascending order.
func (s *Store) Dirty() []uint32 { return slices.Sorted(maps.Keys(s.dirty)) }

// ResetDirty forgets what Dirty answers.
func (s *Store) ResetDirty() { clear(s.dirty) }

// Work does a step of what can wait, of about budget bytes, and answers when it wants to be called again; 0 is at once.
// Call it when idle and about every second.
func (s *Store) Work(now time.Time, budget int) (time.Duration, error) {
	s.shared.shrink()
	if s.broken != nil {
		return time.Minute, s.broken
	}
	if s.tight != nil && !now.Before(s.retry) {
		_ = s.loosen() // it says so itself
	}
	clients := len(s.wal.buf) > 0 || s.failed != nil
	busy := s.clean(budget)
	err := s.commit(nil)
	if !clients {
		s.failed = nil // else it is for Flush to say so
	}
	if err == nil {
		err = s.settle()
	}
	s.tend(now)
	switch {
	case err != nil:
		return time.Second, err
	case busy:
		return 0, nil
	case s.job != nil:
		return 10 * time.Millisecond, nil
	}
	return time.Second, nil
}

// Close writes what is left and closes the store.
func (s *Store) Close() error {
	err := s.Flush()
	s.await()
	if s.broken == nil && err == nil && !s.distrusted && s.changed() {
		err = s.checkpointNow()
	}
	s.Discard()
	return err
}

// Discard closes the store without writing anything; its folders may then be
// removed.
func (s *Store) Discard() {
	s.await()
	s.broken = errors.Errorf("cannot use store %s: it is closed", s.cfg.Dir)
	s.wal.close()
	s.index.close()
	s.keys.close()
	s.hold.drop()
	s.unlock()
}
