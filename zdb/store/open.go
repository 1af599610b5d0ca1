package store

import (
	"encoding/binary"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/pkg/errors"
)

// Open opens the store in cfg.Dir, which is made when it isn't there, and
// repairs what a crash left: a torn end of the log is cut, what the index
// lacks is taken from the log, and a lost or damaged one is made again.
func Open(cfg Config) (*Store, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	hold := &holder{disk: cfg.disk, shared: cfg.Shared, on: true}
	s := &Store{cfg: cfg, disk: hold, hold: hold, shared: cfg.Shared, dirty: map[uint32]struct{}{}}
	s.keys.ask = cfg.Memory
	if err := s.lock(); err != nil {
		return nil, errors.Wrapf(err, "cannot open store %s", cfg.Dir)
	}
	s.wal = &wal{
		disk: s.disk, shared: s.shared, dir: cfg.Dir, most: s.segmentSize(), segments: map[uint32]*segment{},
		kind: kind{sequential: cfg.Sequential, idSize: cfg.Layout.IDSize},
	}
	s.wal.more = s.freeSpare
	s.index = newIndex(shape{disk: s.disk, dir: cfg.IndexDir, per: cfg.slots, sequential: cfg.Sequential}, s.shared)
	o := &opening{Store: s}
	if err := o.open(); err != nil {
		s.Discard()
		return nil, errors.Wrapf(err, "cannot open store %s", cfg.Dir)
	}
	hold.stop()
	s.index.stray = false
	s.index.bad = s.badSlot
	s.opened, s.counters.inserts = s.index.next, 0
	s.marked, s.synced = cfg.now(), cfg.now()
	s.committed()
	return s, nil
}

func (s *Store) lock() error {
	if err := s.disk.MakeDir(s.cfg.Dir); err != nil {
		return err
	}
	if err := s.disk.MakeDir(s.cfg.IndexDir); err != nil {
		return err
	}
	if s.cfg.Guarded {
		s.unlock = func() {}
		return nil
	}
	unlock, err := s.disk.Lock(s.cfg.Dir)
	if err != nil {
		return err
	}
	s.unlock = unlock
	return nil
}

// opening is a store that is being opened.
type opening struct {
	*Store
	image   *image // nil: the index must be made from the log
	chunks  map[uint64]int64
	killed  []place // sorted; only when the index is made again
	rebuild bool
	redone  int // records

	loading     loading
	lastSegment *segment // of the slot that was loaded last

	checkpointThere bool
	unsettled       uint64 // numbers that a damaged part of the log may have used up, until something good follows
	killsBad        bool   // a part of the file of kills is damaged
}

// errIndex says that the index can't be used as it is.
var errIndex = errors.New("the index is damaged")

func (o *opening) open() error {
	o.boot = o.disk.Boot()
	if err := o.list(); err != nil {
		return err
	}
	if err := o.identify(); err != nil {
		return err
	}
	if err := o.learn(); err != nil {
		return err
	}
	err := error(errIndex)
	if o.image != nil {
		err = o.useImage()
	}
	if errors.Is(err, errIndex) {
		err = o.again()
	}
	return err
}

// list finds out what files there are.
func (o *opening) list() error {
	data, err := o.disk.List(o.cfg.Dir)
	if err != nil {
		return err
	}
	index := data
	if o.cfg.IndexDir != o.cfg.Dir {
		if index, err = o.disk.List(o.cfg.IndexDir); err != nil {
			return err
		}
	}
	o.chunks = map[uint64]int64{}
	for name, size := range data {
		if n, ok := numbered(name, "log-", 31); ok && n > 0 {
			seg := newSegment(o.disk, o.cfg.Dir, uint32(n))
			seg.size = min(size, 1<<32-1) // offsets have 32 bits
			o.wal.add(seg)
		}
		o.removeNew(o.cfg.Dir, name)
	}
	for name, size := range index {
		if n, ok := numbered(name, "index-", 58); ok {
			o.chunks[n] = size
		}
		o.removeNew(o.cfg.IndexDir, name)
	}
	size, ok := index[checkpointFile]
	if o.checkpointThere = ok; ok {
		o.readImage(size)
	}
	return o.findKills(data[killsFile])
}

func (o *opening) removeNew(dir, name string) {
	if !strings.HasSuffix(name, newSuffix) {
		return
	}
	if err := o.disk.Remove(filepath.Join(dir, name)); err != nil {
		o.cfg.Log.Warn().Err(err).Msg("cannot remove what a crash left")
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

// readImage reads the checkpoint, if there is one that can be used.
func (o *opening) readImage(size int64) {
	b := make([]byte, min(size, 1<<30))
	err := o.readFile(o.checkpointPath(), b)
	if err == nil {
		o.image, err = parseImage(b)
	}
	if err == nil && o.image.per != o.index.per {
		err = errors.New("its index has another shape")
		o.wal.id, o.image = o.image.id, nil
	}
	if err != nil {
		o.cfg.Log.Error().Err(err).Str("file", o.checkpointPath()).Msg("the checkpoint can't be used")
		return
	}
	o.checkpointBytes = size
}

func (o *opening) readFile(path string, b []byte) error {
	f, err := o.disk.Open(path, false)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.ReadAt(b, 0)
	return err
}

// identify finds out which store this is, and whether it is of the kind that is
// wanted.
func (o *opening) identify() error {
	known := false
	if o.image != nil {
		o.wal.id, known = o.image.id, true
		if err := o.sameKind(o.image.kind); err != nil {
			return err
		}
	}
	for _, seg := range o.wal.order {
		h, ok, err := o.anyHeaderOf(seg)
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		seg.boot = h.boot
		if known && h.id != o.wal.id {
			return errors.Errorf("%s belongs to another store", seg.path)
		}
		if !known {
			// The first says of what kind the store is; one that says something else later is damaged.
			if err := o.sameKind(h.kind); err != nil {
				return err
			}
		}
		if o.wal.id, known = h.id, true; o.image != nil {
			break // one is enough to know that they belong together
		}
	}
	if !known {
		if err := o.unreadable(); err != nil {
			return err
		}
		var b [16]byte
		o.cfg.fresh(b[:])
		o.wal.id = identity{binary.LittleEndian.Uint64(b[:]), binary.LittleEndian.Uint64(b[8:])}
	}
	o.index.id = o.wal.id
	return nil
}

// unreadable refuses to take a log for empty whose headers are all damaged. A header is a part of a disk's sector: a power
// cut leaves all of it, or zeros.
func (o *opening) unreadable() error {
	for _, seg := range o.wal.order {
		if seg.size <= segmentHeader {
			continue
		}
		var b [segmentHeader]byte
		if err := o.readFile(seg.path, b[:]); err != nil {
			return err
		}
		if b != [segmentHeader]byte{} {
			return errors.Errorf("the header of %s is damaged, and there is no other one; put it back from a copy, or empty the namespace", seg.path)
		}
	}
	return nil
}

func (o *opening) sameKind(k kind) error {
	if k != o.wal.kind {
		return errors.Errorf("it is sequential: %t, with ids of %d bytes; wanted is sequential: %t, %d bytes",
			k.sequential, k.idSize, o.wal.kind.sequential, o.wal.kind.idSize)
	}
	return nil
}

// headerOf reads a segment's header; false if it isn't a good one.
func (s *Store) headerOf(seg *segment) (segmentHead, bool, error) {
	h, ok, err := s.anyHeaderOf(seg)
	return h, ok && h.kind == s.wal.kind, err
}

// anyHeaderOf reads a segment's header, also of a store of another kind.
func (s *Store) anyHeaderOf(seg *segment) (segmentHead, bool, error) {
	if seg.size < segmentHeader {
		return segmentHead{}, false, nil
	}
	f, err := s.shared.get(&seg.handle, false)
	if err != nil {
		return segmentHead{}, false, err
	}
	var b [segmentHeader]byte
	if err := readZeros(f, b[:], 0); err != nil {
		return segmentHead{}, false, err
	}
	h, ok := parseSegmentHeader(b[:])
	if !ok {
		if h, ok = mendHeader(b[:]); ok {
			s.cfg.Log.Error().Str("file", seg.path).Msg("a bit in the header of a segment is wrong")
		}
	}
	return h, ok && h.number == seg.number, nil
}

// useImage takes the index as it was at the checkpoint and does what the log has since.
func (o *opening) useImage() error {
	m := o.image
	o.state, o.counters = m.state, m.counters
	o.index.next, o.index.tailFrom = m.next, m.next
	o.at, o.atNext = m.at, m.next
	if err := o.keepSegments(); err != nil {
		return err
	}
	if err := o.openChunks(); err != nil {
		return err
	}
	if err := o.redoFrom(m.at); err != nil {
		return err
	}
	if o.redone == 0 && o.cfg.Sequential {
		return o.trustCounts()
	}
	return o.load()
}

// keepSegments forgets the segments that were cleaned before the checkpoint.
func (o *opening) keepSegments() error {
	listed := map[uint32]bool{}
	for _, s := range o.image.segments {
		listed[s.number] = true
		if o.wal.segments[s.number] == nil && s.live > 0 {
			o.cfg.Log.Error().Uint32("segment", s.number).Int64("bytes", s.live).
				Msg("a segment of the log is gone that holds live entries")
		}
	}
	o.wal.last = max(o.wal.last, o.image.at.segment()-1)
	for _, seg := range append([]*segment(nil), o.wal.order...) {
		if seg.number < o.image.at.segment() && !listed[seg.number] {
			o.wal.remove(seg)
			if err := o.remove(seg.path); err != nil {
				return err
			}
		}
	}
	return nil
}

// remove removes a file that isn't needed. On a full disk that may have to wait for the next start.
func (o *opening) remove(path string) error {
	err := o.disk.Remove(path)
	if !isFull(err) {
		return err
	}
	o.cfg.Log.Warn().Err(err).Msg("cannot remove what isn't needed, it goes at the next start")
	return nil
}

// trustCounts takes the counts that the checkpoint has, since nothing came after it.
func (o *opening) trustCounts() error {
	for _, m := range o.image.segments {
		if seg := o.wal.segments[m.number]; seg != nil {
			seg.live = m.live
			o.live += m.live
		}
	}
	return nil
}

// again makes the index from the log.
func (o *opening) again() error {
	if len(o.wal.order) > 0 {
		o.cfg.Log.Warn().Str("dir", o.cfg.Dir).Int("segments", len(o.wal.order)).Msg("making the index again from the log")
	}
	for _, c := range o.index.chunks {
		o.shared.drop(&c.handle)
	}
	o.index = newIndex(o.index.shape, o.shared)
	o.keys.close() // what may have been loaded from the old one
	o.keys.ask, o.loading = o.cfg.Memory, loading{}
	for n := range o.chunks {
		if err := o.disk.Remove(filepath.Join(o.cfg.IndexDir, chunkName(n))); err != nil {
			return err
		}
	}
	if o.checkpointThere {
		if err := o.disk.Remove(o.checkpointPath()); err != nil {
			return err
		}
		o.checkpointBytes = 0
	}
	o.chunks, o.image = nil, nil
	o.rebuild, o.at, o.atNext = true, o.wal.end(), 0
	o.state, o.counters = o.startState(), counters{}
	if err := o.loadKills(); err != nil {
		return err
	}
	if err := o.redoFrom(0); err != nil {
		return err
	}
	if err := o.finishChunks(); err != nil {
		return err
	}
	if err := o.load(); err != nil {
		return err
	}
	if len(o.wal.order) == 0 {
		return nil
	}
	if err := o.checkpointNow(); !isFull(err) {
		return err
	}
	o.wanted = true // when there is room
	return nil
}

func (o *opening) startState() state {
	return state{data: o.cfg.Layout.DataHeader, index: o.cfg.Layout.IndexHeader}
}
