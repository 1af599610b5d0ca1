package store

import (
	"time"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/zdb/store/disk"
	"github.com/croft-edge/croft/zdb/store/format"
	"github.com/croft-edge/croft/zdb/store/index"
	"github.com/croft-edge/croft/zdb/store/keytable"
	"github.com/croft-edge/croft/zdb/store/tombstones"
	"github.com/croft-edge/croft/zdb/store/wal"
)

// Store is one namespace's entries. All methods are for one goroutine.
type Store struct {
	cfg    Config
	unlock func()
	disk   *disk.Overflow

	log      *wal.Log
	index    *index.Index
	files    *virtualFiles
	keys     *keytable.Table // nil in sequential mode
	mode     mode
	minKey   int // bytes of the shortest key that Set takes
	versions *versions
	raw      rawReader
	keeper   *housekeeper
}

// Open opens the store in cfg.Dir, which is made when it isn't there, and
// repairs it after a crash: a torn end of the log is cut, slots missing from
// the index are taken from the log, and a lost or damaged index is rebuilt.
func Open(cfg Config) (*Store, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	unlock, err := lock(&cfg)
	if err != nil {
		return nil, errors.Wrapf(err, "cannot open store %s", cfg.Dir)
	}
	s, r := assemble(cfg, unlock)
	if err := s.recover(r); err != nil {
		s.Discard()
		return nil, errors.Wrapf(err, "cannot open store %s", cfg.Dir)
	}
	return s, nil
}

func lock(cfg *Config) (unlock func(), err error) {
	if err := cfg.disk.MakeDir(cfg.Dir); err != nil {
		return nil, err
	}
	if err := cfg.disk.MakeDir(cfg.IndexDir); err != nil {
		return nil, err
	}
	if cfg.Guarded {
		return func() {}, nil
	}
	return cfg.disk.Lock(cfg.Dir)
}

// assemble makes the parts of a store, and the recovery that fills them.
func assemble(config Config, unlock func()) (*Store, *recovery) {
	s := &Store{cfg: config, unlock: unlock}
	cfg, pool := &s.cfg, config.Shared
	s.disk = &disk.Overflow{Disk: cfg.disk, Shared: pool, On: true}
	limits := &limits{size: cfg.MaxSize, segment: cfg.SegmentSize}
	segments := wal.NewSegments(s.disk, pool, cfg.Dir, cfg.Log)
	s.log = &wal.Log{Segments: segments, Kind: cfg.kind(), SegmentSize: limits.segmentSize()}
	s.index = index.New(index.Shape{Disk: s.disk, Dir: cfg.IndexDir, ChunkSlots: cfg.slots, DeadBits: cfg.deadBits()}, pool)
	dead := tombstones.New(s.disk, cfg.Dir)
	s.files = newVirtualFiles(cfg.Layout, cfg.DataSize)
	ledger := &ledger{segments: segments}
	damage := &damage{segments: segments, log: cfg.Log}
	s.versions = &versions{log: s.log, damage: damage}

	batch := &batch{log: s.log, index: s.index, files: s.files, ledger: ledger, compaction: &compaction{}}
	gate := &gate{cfg: cfg}
	writer := &writer{cfg: cfg, batch: batch, damage: damage, gate: gate, boot: s.disk.Boot()}
	parts := newMode(cfg, batch, s.versions, limits)
	s.mode, s.keys, s.minKey = parts.mode, parts.keys, parts.minKey
	batch.undo, batch.write = s.mode.undo, writer.commit

	reserve := newReserve(cfg, s.disk, gate, s.log, dead)
	reserve.commit = writer.commit
	s.log.Reclaim = reserve.freeSpare
	space := &space{limits: limits, log: s.log, index: s.index, tombstones: dead, reserve: reserve, ledger: ledger}
	schedule := &schedule{}
	jobs := &jobs{background: cfg.Background}
	checkpoints := &checkpointer{
		schedule: schedule, cfg: cfg, disk: s.disk, jobs: jobs, writer: writer, index: s.index, tombstones: dead,
		compaction: batch.compaction, reserve: reserve, space: space,
	}
	compactor := &compactor{
		compaction: batch.compaction, log: s.log, mode: s.mode, writer: writer, reserve: reserve, space: space, schedule: schedule,
	}
	s.raw = rawReader{log: s.log, index: s.index, mode: s.mode, versions: s.versions, files: s.files, commit: writer.commit}
	s.keeper = &housekeeper{
		cfg: cfg, log: s.log, index: s.index, writer: writer, reserve: reserve, space: space, compactor: compactor,
		checkpoints: checkpoints, jobs: jobs,
	}
	return s, &recovery{
		cfg: cfg, disk: s.disk, log: s.log, index: s.index, ledger: ledger, tombstones: dead, keys: s.keys,
		replay: &replay{
			mode: parts.replay, log: s.log, index: s.index, recovery: index.Recover(s.index), files: s.files,
			trust: &trust{damage: damage, boot: writer.boot},
		},
	}
}

// recover runs a recovery, and begins the store's work where it ended.
func (s *Store) recover(r *recovery) error {
	if err := r.run(); err != nil {
		return err
	}
	k := s.keeper
	c, w := k.checkpoints, k.writer
	w.durable = r.replay.trust.durable
	c.wanted = r.replay.trust.spread
	if r.checkpoint != nil {
		c.at, c.next, k.reserve.checkpoint = r.checkpoint.At, r.checkpoint.Next, r.checkpointSize
	} else {
		c.at = s.log.End()
		if err := s.checkpointRebuilt(); err != nil {
			return err
		}
	}
	s.disk.Stop()
	s.index.Stray = false
	s.index.Bad = c.distrust
	s.mode.opened()
	k.space.ledger.inserts = 0
	c.began, w.synced = s.cfg.now(), s.cfg.now()
	w.batch.committed()
	return nil
}

// checkpointRebuilt writes a checkpoint of an index that was rebuilt.
func (s *Store) checkpointRebuilt() error {
	if len(s.log.Order) == 0 {
		return nil
	}
	c := s.keeper.checkpoints
	if err := c.write(); !disk.IsFull(err) {
		return err
	}
	c.wanted = true // when there is room
	return nil
}

// Set stores value under key. In sequential mode an empty key makes a new
// entry, and any other must be the id of a live one (ErrUnknownID). It answers
// the key or id, valid until the store's next call. The same value again isn't written: wrote is false.
// Other errors: ErrKey, ErrWorm, ErrNoSpace, ErrFull, ErrValue, and the disk's.
func (s *Store) Set(key, value []byte, o SetOptions) (id []byte, wrote bool, err error) {
	if len(key) > MaxKey || len(key) < s.minKey {
		return nil, false, ErrKey
	}
	if len(value) > format.MaxValue {
		return nil, false, ErrValue
	}
	if err := s.keeper.prepare(int64(2*format.HeadLong+len(key)+s.cfg.Layout.IDSize+len(value)), true); err != nil {
		return nil, false, err
	}
	return s.mode.set(key, value, o)
}

// Delete deletes key's entry; false if there is none. at is the deletion's
// time, in seconds since 1970.
func (s *Store) Delete(key []byte, at uint32) (bool, error) {
	if err := s.keeper.prepare(int64(format.HeadLong+len(key)), false); err != nil {
		return false, err
	}
	return s.mode.delete(key, at)
}

// Rotate begins the next file: NSJUMP.
func (s *Store) Rotate() error {
	if err := s.keeper.prepare(format.HeadLong, true); err != nil {
		return err
	}
	s.keeper.writer.batch.rotate()
	return nil
}

// Get answers key's value, which is valid until the next call of a store that
// has the same Shared. ErrDamaged if the value on disk is damaged.
func (s *Store) Get(key []byte) (value []byte, found bool, err error) {
	v, err := s.mode.find(key, true)
	if err != nil || !v.found {
		return nil, false, err
	}
	value, err = s.versions.payload(&v)
	return value, err == nil, err
}

// Lookup answers key's live entry.
func (s *Store) Lookup(key []byte) (Entry, bool, error) {
	v, err := s.mode.find(key, false)
	if err != nil || !v.found {
		return Entry{}, false, err
	}
	return v.entry(false), true, nil
}

// Flush writes the changes since the last Flush: a crash of the process doesn't
// lose them afterwards, nor does a power cut with Config.Sync. If it fails, those
// changes mustn't be acknowledged: some may be on disk, and none that was flushed
// before is lost.
func (s *Store) Flush() error { return s.keeper.flush() }

// Stats answers the store's counters.
func (s *Store) Stats() Stats {
	k := s.keeper
	n := &k.space.ledger.Counters
	out := Stats{
		Entries: n.Entries, DataBytes: n.DataBytes, KeyBytes: n.KeyBytes, Next: s.mode.next(),
		File: s.files.File, DataOffset: s.files.Data, IndexOffset: s.files.Index,
		Disk: uint64(k.space.used()), Damaged: s.versions.damage.count,
	}
	if s.keys != nil {
		out.Memory = uint64(s.keys.Bytes)
	}
	return out
}

// SetMaxSize sets how much live payload there may be, in bytes; 0 is no limit.
// All files of the store stay below MaxDisk of it: overwritten and deleted records
// are removed when their space is needed, and Set answers ErrNoSpace also
// when there are so many small entries that they alone would take an eighth more.
func (s *Store) SetMaxSize(size uint64) {
	k := s.keeper
	k.space.limits.size, k.stuck = size, 0
	s.log.SegmentSize = k.space.limits.segmentSize()
}

// Dirty answers the index files in which entries were changed since ResetDirty
// or Open, in ascending order.
func (s *Store) Dirty() []uint32 { return s.files.touchedFiles() }

// ResetDirty clears the list that Dirty answers.
func (s *Store) ResetDirty() { clear(s.files.dirty) }

// Work does a step of background work, of about budget bytes, and answers the delay until the next; 0 is at once.
// Call it when idle and about every second.
func (s *Store) Work(now time.Time, budget int) (time.Duration, error) {
	s.cfg.Shared.Shrink()
	return s.keeper.work(now, budget)
}

// Close writes unflushed changes and closes the store.
func (s *Store) Close() error {
	err := s.keeper.close()
	s.Discard()
	return err
}

// Discard closes the store without writing anything; its folders may then be
// removed.
func (s *Store) Discard() {
	s.keeper.jobs.await()
	s.keeper.writer.broken = errors.Errorf("cannot use store %s: it is closed", s.cfg.Dir)
	s.log.Close()
	s.index.Close()
	if s.keys != nil {
		s.keys.Close()
	}
	s.disk.Drop()
	s.unlock()
}
