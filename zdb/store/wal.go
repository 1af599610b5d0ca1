package store

import (
	"io"
	"slices"

	"github.com/pkg/errors"
)

// wal is the log: segments, of which the last is written to, and what is to be
// appended to it.
type wal struct {
	disk   disk
	shared *Shared
	dir    string
	id     identity
	kind   kind
	most   int64 // size at which a segment is full

	segments map[uint32]*segment
	order    []*segment // by number
	active   *segment
	last     uint32      // the highest number there was
	buf      []byte      // what comes behind active.size
	bytes    int64       // of all files
	alloc    int64       // how far active's file was set aside; less than its size: it isn't known
	more     func() bool // asks for room when there is none, although it was set aside
	ended    bool        // nothing may be appended to active any more
	torn     bool        // active's file may hold more than active.size
	created  bool        // a segment was made since the last sync of the folder
}

// bufMost is how much is collected before it is written although the round goes on.
const bufMost = 1 << 20

func (w *wal) add(s *segment) {
	i, _ := slices.BinarySearchFunc(w.order, s.number, func(a *segment, n uint32) int { return int(int64(a.number) - int64(n)) })
	w.order = slices.Insert(w.order, i, s)
	w.segments[s.number] = s
	w.last = max(w.last, s.number)
	w.bytes += s.size
}

// remove forgets a segment; its file is removed by who calls.
func (w *wal) remove(s *segment) {
	w.shared.drop(&s.handle)
	delete(w.segments, s.number)
	w.order = slices.DeleteFunc(w.order, func(a *segment) bool { return a == s })
	w.bytes -= s.size
}

// fits says whether n bytes may be appended to the active segment.
func (w *wal) fits(n int64) bool {
	if w.active == nil || w.ended {
		return false
	}
	end := w.active.size + int64(len(w.buf))
	return end <= segmentHeader || end+n <= w.most
}

// roll begins a new segment. There must be nothing to be written.
func (w *wal) roll() {
	w.trim()
	w.ended = false
	w.active, w.alloc = newSegment(w.disk, w.dir, w.last+1), 0
	w.add(w.active)
}

// trim gives back what was set aside behind the active segment's end.
func (w *wal) trim() {
	if w.active == nil || w.active.size == 0 {
		return
	}
	if f, err := w.shared.get(&w.active.handle, false); err == nil {
		_ = f.Truncate(w.active.size) // else it stays with the segment
		w.active.dirty = true
	}
	w.alloc = 0
}

// end is where the next record will lie.
func (w *wal) end() place {
	if w.active == nil {
		return placeOf(w.last+1, 0)
	}
	return placeOf(w.active.number, uint32(w.active.size)+uint32(len(w.buf)))
}

// write writes what was collected, and extra behind it.
func (w *wal) write(extra []byte) error {
	f, err := w.shared.get(&w.active.handle, w.active.size == 0)
	if err != nil {
		return err
	}
	if w.torn {
		if err := f.Truncate(w.active.size); err != nil {
			return err
		}
		w.torn, w.alloc = false, 0
	}
	if w.active.size == 0 {
		w.created = true
	}
	w.active.dirty = true // also when it fails: the cut must last too
	err = f.WriteAt(w.buf, extra, w.active.size)
	if isFull(err) && w.more() {
		err = f.WriteAt(w.buf, extra, w.active.size)
	}
	if err != nil {
		w.torn, w.alloc = f.Truncate(w.active.size) != nil, 0
		return err
	}
	n := int64(len(w.buf) + len(extra))
	w.active.size += n
	w.bytes += n
	w.forget()
	return nil
}

// sync waits until all that was written is on disk.
func (w *wal) sync() error {
	for _, seg := range w.order {
		if !seg.dirty {
			continue
		}
		f, err := w.shared.get(&seg.handle, false)
		if err == nil {
			err = f.Sync()
		}
		if err != nil {
			return err
		}
		seg.dirty = false
	}
	if !w.created {
		return nil
	}
	w.created = false
	return w.disk.SyncDir(w.dir)
}

// forget drops what was collected, and the memory that a large value took.
func (w *wal) forget() {
	w.buf = w.buf[:0]
	if cap(w.buf) > 2*bufMost {
		w.buf = nil
	}
}

// read reads n bytes at a place; they are valid until the next read. It
// answers less at the end of a segment, nothing when there is no such segment.
func (w *wal) read(at place, n int) ([]byte, error) {
	seg, off := w.segments[at.segment()], int64(at.offset())
	if seg == nil {
		return nil, nil
	}
	if off >= seg.size {
		if seg != w.active || off-seg.size > int64(len(w.buf)) {
			return nil, nil
		}
		b := w.buf[off-seg.size:]
		return b[:min(n, len(b))], nil
	}
	n = int(min(int64(n), seg.size-off))
	f, err := w.shared.get(&seg.handle, false)
	if err != nil {
		return nil, errors.Wrap(err, "cannot read the log")
	}
	b := w.shared.buffer(n)
	m, err := f.ReadAt(b, off)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, errors.Wrap(err, "cannot read the log")
	}
	return b[:m], nil
}

func (w *wal) mask(at place) uint32 { return w.id.mask(uint64(at)) }

func (w *wal) close() {
	for _, seg := range w.order {
		w.shared.drop(&seg.handle)
	}
}
