package store

import (
	"crypto/rand"
	"encoding/binary"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/zdb/store/disk"
	"github.com/croft-edge/croft/zdb/store/format"
	"github.com/croft-edge/croft/zdb/store/index"
	"github.com/croft-edge/croft/zdb/store/keytable"
	"github.com/croft-edge/croft/zdb/store/tombstones"
	"github.com/croft-edge/croft/zdb/store/wal"
)

// recovery is the opening of a store: it finds the files, brings the index up to the log's end, and
// rebuilds it from the log when it is lost or damaged.
type recovery struct {
	cfg        *Config
	disk       disk.Disk
	log        *wal.Log
	index      *index.Index
	ledger     *ledger
	tombstones *tombstones.File
	keys       *keytable.Table // nil in sequential mode
	replay     *replay

	checkpoint     *format.Checkpoint // nil: the index must be rebuilt
	checkpointSize int64              // of its file, bytes; -1: there is none
	chunks         map[uint64]int64   // sizes of the index' files
}

// run brings all parts of the store to the state at the log's end.
func (r *recovery) run() error {
	if err := r.list(); err != nil {
		return err
	}
	if err := r.identify(); err != nil {
		return err
	}
	if err := r.readHeaders(); err != nil {
		return err
	}
	if r.checkpoint != nil {
		err := r.useCheckpoint()
		var damaged *index.DamageError
		if !errors.As(err, &damaged) {
			return err
		}
		r.cfg.Log.Error().Str("dir", r.cfg.IndexDir).Uint64("file", damaged.Chunk).Str("why", damaged.Why).Msg("the index is damaged")
	}
	return r.rebuild()
}

// list finds the files.
func (r *recovery) list() error {
	data, err := r.disk.List(r.cfg.Dir)
	if err != nil {
		return err
	}
	inIndex := data
	if r.cfg.IndexDir != r.cfg.Dir {
		if inIndex, err = r.disk.List(r.cfg.IndexDir); err != nil {
			return err
		}
	}
	r.chunks = map[uint64]int64{}
	for name, size := range data {
		if n, ok := numbered(name, "log-", 31); ok && n > 0 {
			seg := r.log.New(uint32(n))
			seg.Size = min(size, 1<<32-1) // offsets have 32 bits
			r.log.Add(seg)
		}
		r.removeTemp(r.cfg.Dir, name)
	}
	for name, size := range inIndex {
		if n, ok := numbered(name, "index-", 58); ok {
			r.chunks[n] = size
		}
		r.removeTemp(r.cfg.IndexDir, name)
	}
	size, ok := inIndex[format.CheckpointFile]
	if r.checkpointSize = -1; ok {
		r.checkpointSize = size
		r.readCheckpoint(size)
	}
	r.replay.tombstonesDamaged, err = r.tombstones.Check(data[tombstones.Name])
	return err
}

// removeTemp removes a file that a crash left unfinished.
func (r *recovery) removeTemp(dir, name string) {
	if !strings.HasSuffix(name, disk.TempSuffix) {
		return
	}
	if err := r.disk.Remove(filepath.Join(dir, name)); err != nil {
		r.cfg.Log.Warn().Err(err).Msg("cannot remove an unfinished file of a crash")
	}
}

func numbered(name, prefix string, bits int) (uint64, bool) {
	digits, ok := strings.CutPrefix(name, prefix)
	if !ok || len(digits) < 10 {
		return 0, false
	}
	n, err := strconv.ParseUint(digits, 10, bits)
	return n, err == nil
}

func (r *recovery) checkpointPath() string {
	return filepath.Join(r.cfg.IndexDir, format.CheckpointFile)
}

// readCheckpoint reads the checkpoint, if there is one that can be used.
func (r *recovery) readCheckpoint(size int64) {
	b := make([]byte, min(size, 1<<30))
	err := r.readFile(r.checkpointPath(), b)
	if err == nil {
		r.checkpoint, err = format.ParseCheckpoint(b)
	}
	if err == nil && r.checkpoint.Per != r.index.ChunkSlots {
		err = errors.New("its index has another shape")
		r.log.ID, r.checkpoint = r.checkpoint.ID, nil
	}
	if err != nil {
		r.cfg.Log.Error().Err(err).Str("file", r.checkpointPath()).Msg("cannot use the checkpoint")
	}
}

func (r *recovery) readFile(path string, b []byte) error {
	f, err := r.disk.Open(path, false)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.ReadAt(b, 0)
	return err
}

// identify finds out which store this is, and whether it is of the kind that is
// wanted.
func (r *recovery) identify() error {
	known := false
	if r.checkpoint != nil {
		r.log.ID, known = r.checkpoint.ID, true
		if err := r.sameKind(r.checkpoint.Kind); err != nil {
			return err
		}
	}
	for _, seg := range r.log.Order {
		h, ok, err := r.log.Header(seg)
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		seg.Boot = h.Boot
		if known && h.ID != r.log.ID {
			return errors.Errorf("%s belongs to another store", seg.Path)
		}
		if !known {
			// The first tells the kind of the store; a later one that differs is damaged.
			if err := r.sameKind(h.Kind); err != nil {
				return err
			}
		}
		if r.log.ID, known = h.ID, true; r.checkpoint != nil {
			break // one is enough to know that they belong together
		}
	}
	if !known {
		if err := r.unreadable(); err != nil {
			return err
		}
		var b [16]byte
		r.cfg.fresh(b[:])
		r.log.ID = format.Identity{binary.LittleEndian.Uint64(b[:]), binary.LittleEndian.Uint64(b[8:])}
	}
	r.index.ID = r.log.ID
	return nil
}

// random is Config.fresh of a real store.
func random(b []byte) { _, _ = rand.Read(b) } // never fails

// unreadable refuses to take a log for empty whose headers are all damaged. A header is a part of a disk's sector: a power
// cut leaves all of it, or zeros.
func (r *recovery) unreadable() error {
	for _, seg := range r.log.Order {
		if seg.Size <= format.SegmentHeaderSize {
			continue
		}
		var b [format.SegmentHeaderSize]byte
		if err := r.readFile(seg.Path, b[:]); err != nil {
			return err
		}
		if b != [format.SegmentHeaderSize]byte{} {
			return errors.Errorf("the header of %s is damaged, and there is no other one; put it back from a copy, or empty the namespace", seg.Path)
		}
	}
	return nil
}

func (r *recovery) sameKind(k format.Kind) error {
	if want := r.log.Kind; k != want {
		return errors.Errorf("it is sequential: %t, with ids of %d bytes; wanted is sequential: %t, %d bytes",
			k.Sequential, k.IDSize, want.Sequential, want.IDSize)
	}
	return nil
}

// readHeaders collects the facts about the whole log from the segments' headers and the checkpoint.
func (r *recovery) readHeaders() error {
	p := r.replay.trust
	if m := r.checkpoint; m != nil {
		p.durable, p.damage.suspectBelow, p.checkpointed = m.At, m.SuspectBelow, true
	}
	for _, seg := range r.log.Order {
		h, ok, err := r.log.OwnHeader(seg)
		if err != nil {
			return err
		}
		if ok && h.ID == r.log.ID {
			seg.Boot = h.Boot
			p.durable, p.damage.suspectBelow = max(p.durable, h.Synced), max(p.damage.suspectBelow, h.SuspectBelow)
		}
	}
	return nil
}

// useCheckpoint takes the index as it was at the checkpoint and replays the log from there.
func (r *recovery) useCheckpoint() error {
	m := r.checkpoint
	r.replay.files.FileState, r.ledger.Counters = m.State, m.Counters
	r.index.Next, r.index.Written = m.Next, m.Next
	if err := r.keepSegments(); err != nil {
		return err
	}
	if err := r.openChunks(); err != nil {
		return err
	}
	if err := r.replay.from(m.At); err != nil {
		return err
	}
	if err := index.Recover(r.index).ExtendFiles(); err != nil {
		return err
	}
	if r.replay.records == 0 && r.keys == nil {
		r.trustCounts()
		return nil
	}
	return r.load()
}

// keepSegments forgets the segments that were compacted before the checkpoint.
func (r *recovery) keepSegments() error {
	m := r.checkpoint
	listed := map[uint32]bool{}
	for _, s := range m.Segments {
		listed[s.Number] = true
		if r.log.Get(s.Number) == nil && s.Live > 0 {
			r.cfg.Log.Error().Uint32("segment", s.Number).Int64("bytes", s.Live).
				Msg("a segment of the log is gone that holds live entries")
		}
	}
	r.log.Last = max(r.log.Last, m.At.Segment()-1)
	for _, seg := range append([]*wal.Segment(nil), r.log.Order...) {
		if seg.Number < m.At.Segment() && !listed[seg.Number] {
			r.log.Remove(seg)
			if err := r.remove(seg.Path); err != nil {
				return err
			}
		}
	}
	return nil
}

// remove removes a file that isn't needed. On a full disk that may have to wait for the next start.
func (r *recovery) remove(path string) error {
	err := r.disk.Remove(path)
	if !disk.IsFull(err) {
		return err
	}
	r.cfg.Log.Warn().Err(err).Msg("cannot remove an unneeded file, it goes at the next start")
	return nil
}

// openChunks opens the files of the index that the checkpoint names, and
// removes the others.
func (r *recovery) openChunks() error {
	x := index.Recover(r.index)
	for _, m := range r.checkpoint.Chunks {
		size, there := r.chunks[m.Number]
		if !there {
			return &index.DamageError{Why: "a file of it is gone", Chunk: m.Number}
		}
		delete(r.chunks, m.Number)
		if err := x.OpenChunk(m, size); err != nil {
			return err
		}
	}
	for n := range r.chunks {
		if err := r.remove(filepath.Join(r.cfg.IndexDir, index.ChunkName(n))); err != nil {
			return err
		}
		delete(r.chunks, n)
	}
	return nil
}

// trustCounts takes the counts that the checkpoint has, since nothing came after it.
func (r *recovery) trustCounts() {
	for _, m := range r.checkpoint.Segments {
		if seg := r.log.Get(m.Number); seg != nil {
			seg.Live = m.Live
			r.ledger.live += m.Live
		}
	}
}

// rebuild makes the index from the log.
func (r *recovery) rebuild() error {
	if len(r.log.Order) > 0 {
		r.cfg.Log.Warn().Str("dir", r.cfg.Dir).Int("segments", len(r.log.Order)).Msg("making the index again from the log")
	}
	x := index.Recover(r.index)
	x.Reset()
	if r.keys != nil {
		r.keys.Close() // entries may have been loaded from the old index
		r.keys.Ask = r.cfg.Memory
	}
	for n := range r.chunks {
		if err := r.disk.Remove(filepath.Join(r.cfg.IndexDir, index.ChunkName(n))); err != nil {
			return err
		}
	}
	if r.checkpointSize >= 0 {
		if err := r.disk.Remove(r.checkpointPath()); err != nil {
			return err
		}
	}
	r.chunks, r.checkpoint = nil, nil
	r.replay.rebuild = true
	r.replay.files.reset()
	r.ledger.Counters = format.Counters{}
	var err error
	if r.replay.dead, err = r.tombstones.Load(); err != nil {
		return err
	}
	if err := r.replay.from(0); err != nil {
		return err
	}
	if err := x.ExtendFiles(); err != nil {
		return err
	}
	return r.load()
}

// load counts the live entries, and fills the table of keys.
func (r *recovery) load() error {
	x := index.Recover(r.index)
	if r.keys != nil && r.checkpoint != nil && !r.keys.Reserve(min(r.checkpoint.Counters.Entries, x.MaxSlots())) {
		return ErrFull
	}
	if err := r.index.WriteTail(); err != nil {
		return err
	}
	r.ledger.Counters, r.ledger.live = format.Counters{}, 0
	for _, seg := range r.log.Order {
		seg.Live = 0
	}
	c := counting{ledger: r.ledger}
	if r.keys != nil {
		c.keys = keytable.NewLoader(r.keys)
	}
	if err := x.Load(c.add); err != nil {
		return err
	}
	if c.keys != nil && !c.keys.Flush() {
		return ErrFull
	}
	if c.lost > 0 {
		r.cfg.Log.Error().Str("dir", r.cfg.Dir).Int("entries", c.lost).Msg("entries lie in segments of the log that are gone")
	}
	return nil
}

// counting counts live slots.
type counting struct {
	ledger *ledger
	keys   *keytable.Loader // nil in sequential mode
	last   *wal.Segment     // of the slot that came last
	lost   int              // slots whose segment is gone
}

func (c *counting) add(sl *format.Slot) error {
	n := &c.ledger.Counters
	n.Entries++
	n.DataBytes += uint64(sl.Length)
	n.KeyBytes += uint64(sl.KeyLen)
	if c.keys != nil && !c.keys.Add(sl.Hash, sl.At, sl.Size()) {
		return ErrFull
	}
	if c.last == nil || c.last.Number != sl.At.Segment() {
		seg := c.ledger.segments.At(sl.At)
		if seg == nil {
			c.lost++
			return nil
		}
		c.last = seg
	}
	c.last.Live += int64(sl.Size())
	c.ledger.live += int64(sl.Size())
	return nil
}
