package wal

import (
	"io"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/zdb/store/disk"
	"github.com/croft-edge/croft/zdb/store/format"
)

// Log is the segments, of which the last is written to, and the buffer of its next bytes.
type Log struct {
	*Segments
	ID          format.Identity
	Kind        format.Kind
	SegmentSize int64       // size at which a segment is full
	Reclaim     func() bool // frees room when there is none although it was set aside; false if it can't

	Active *Segment // nil: none was begun
	Buf    []byte   // bytes to write at Active.Size
	Sealed bool     // nothing may be appended to Active any more
	Torn   bool     // Active's file may hold more than Active.Size
	alloc  int64    // how far Active's file was set aside; less than its size: it isn't known
}

const (
	// MaxBuffer is the length of the buffer, in bytes, at which it is written before the round ends.
	MaxBuffer = 1 << 20

	allocLeast = 16 << 10
	allocMost  = 1 << 20
)

// Fits says whether n bytes may be appended to the active segment.
func (w *Log) Fits(n int64) bool {
	if w.Active == nil || w.Sealed {
		return false
	}
	end := w.Active.Size + int64(len(w.Buf))
	return end <= format.SegmentHeaderSize || end+n <= w.SegmentSize
}

// Begin goes to a new segment when n bytes don't fit into the active one, and puts the header
// into an empty one; header sets the fields that the log doesn't know.
func (w *Log) Begin(n int64, header func(h *format.SegmentHeader)) {
	if !w.Fits(n) {
		w.Roll()
	}
	if w.Active.Size == 0 && len(w.Buf) == 0 {
		h := format.SegmentHeader{ID: w.ID, Number: w.Active.Number, Kind: w.Kind}
		header(&h)
		w.Active.Boot = h.Boot
		w.Buf = h.Append(w.Buf)
	}
}

// Roll begins a new segment. The buffer must be empty.
func (w *Log) Roll() {
	w.Trim()
	w.Sealed = false
	w.Active, w.alloc = w.New(w.Last+1), 0
	w.Add(w.Active)
}

// Trim frees the space preallocated behind the active segment's end.
func (w *Log) Trim() {
	if w.Active == nil || w.Active.Size == 0 {
		return
	}
	if f, err := w.File(w.Active, false); err == nil {
		_ = f.Truncate(w.Active.Size) // else it stays with the segment
		w.Active.Dirty = true
	}
	w.alloc = 0
}

// Unused is how many bytes are set aside behind the end of the buffer.
func (w *Log) Unused() int64 {
	if w.Active == nil {
		return 0
	}
	return max(0, w.alloc-w.Active.Size-int64(len(w.Buf)))
}

// Allocated says whether n bytes behind the buffer are set aside.
func (w *Log) Allocated(n int64) bool {
	return w.Active.Size+int64(len(w.Buf))+n <= w.alloc
}

// Allocate sets n bytes behind the buffer aside, and some more if there is room.
func (w *Log) Allocate(n int64) error {
	if w.Allocated(n) {
		return nil
	}
	end := w.Active.Size + int64(len(w.Buf)) + n
	f, err := w.File(w.Active, true)
	if err != nil {
		return err
	}
	w.Created = w.Created || w.Active.Size == 0
	from := max(w.alloc, w.Active.Size)
	step := max(allocLeast, min(w.Active.Size/8, allocMost))
	for _, to := range [2]int64{min(max(end+step, end), max(end, w.SegmentSize)), end} {
		to = (to + 4095) &^ 4095
		if err = f.Allocate(from, to-from); err == nil {
			w.alloc = to
			return nil
		}
	}
	return err
}

// Adopt goes on in a new segment whose file has so many bytes set aside; rename gives it its
// path. The buffer must be empty.
func (w *Log) Adopt(bytes int64, rename func(to string) error) error {
	if old := w.Active; old != nil && old.Size == 0 {
		w.Remove(old)
		w.Active = nil
		_ = w.disk.Remove(old.Path) // an empty segment goes at the next start
	}
	seg := w.New(w.Last + 1)
	if err := rename(seg.Path); err != nil {
		return err
	}
	w.Trim()
	w.Add(seg)
	w.Sealed = false
	w.Active, w.alloc, w.Created = seg, bytes, true
	return nil
}

// End is where the next record will lie.
func (w *Log) End() format.Place {
	if w.Active == nil {
		return format.PlaceOf(w.Last+1, 0)
	}
	return format.PlaceOf(w.Active.Number, uint32(w.Active.Size)+uint32(len(w.Buf)))
}

// Write writes the buffer, and extra behind it.
func (w *Log) Write(extra []byte) error {
	f, err := w.File(w.Active, w.Active.Size == 0)
	if err != nil {
		return err
	}
	if w.Torn {
		if err := f.Truncate(w.Active.Size); err != nil {
			return err
		}
		w.Torn, w.alloc = false, 0
	}
	if w.Active.Size == 0 {
		w.Created = true
	}
	w.Active.Dirty = true // also when it fails: the cut must be synced too
	err = f.WriteAt(w.Buf, extra, w.Active.Size)
	if disk.IsFull(err) && w.Reclaim() {
		err = f.WriteAt(w.Buf, extra, w.Active.Size)
	}
	if err != nil {
		w.Torn, w.alloc = f.Truncate(w.Active.Size) != nil, 0
		return err
	}
	n := int64(len(w.Buf) + len(extra))
	w.Active.Size += n
	w.Bytes += n
	w.DropBuffer()
	return nil
}

// fillMost is the longest payload of a record of KindLost: it is read like any other's.
const fillMost = 1 << 20

// Fill covers the bytes of a segment between two records with records of KindLost, whose payload is what is there.
func (w *Log) Fill(seg *Segment, from, to int64) error {
	f, err := w.File(seg, false)
	if err != nil {
		return err
	}
	for from < to {
		n := min(to-from, format.HeadShort+fillMost)
		if rest := to - from - n; rest > 0 && rest < format.HeadShort {
			n -= format.HeadShort // the rest needs a head too
		}
		if n < format.HeadShort {
			return errors.Errorf("cannot cover %d bytes of %s at %d: a record has at least %d", n, seg.Path, from, format.HeadShort)
		}
		h := format.Head{Kind: format.KindLost, Length: uint32(n - format.HeadShort)}
		if err := f.WriteAt(h.Append(nil, nil, w.Mask(format.PlaceOf(seg.Number, uint32(from)))), nil, from); err != nil {
			return err
		}
		from += n
	}
	return nil
}

// DropBuffer empties the buffer, and frees the memory that a large value took.
func (w *Log) DropBuffer() {
	w.Buf = w.Buf[:0]
	if cap(w.Buf) > 2*MaxBuffer {
		w.Buf = nil
	}
}

// Read reads n bytes at a place; they are valid until the next read. It
// answers less at the end of a segment, nothing when there is no such segment.
func (w *Log) Read(at format.Place, n int) ([]byte, error) {
	seg, off := w.At(at), int64(at.Offset())
	if seg == nil {
		return nil, nil
	}
	if off >= seg.Size {
		if seg != w.Active || off-seg.Size > int64(len(w.Buf)) {
			return nil, nil
		}
		b := w.Buf[off-seg.Size:]
		return b[:min(n, len(b))], nil
	}
	n = int(min(int64(n), seg.Size-off))
	f, err := w.File(seg, false)
	if err != nil {
		return nil, errors.Wrap(err, "cannot read the log")
	}
	b := w.pool.Buffer(n)
	m, err := f.ReadAt(b, off)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, errors.Wrap(err, "cannot read the log")
	}
	return b[:m], nil
}

// Mask is combined with the checksum of a record at a place.
func (w *Log) Mask(at format.Place) uint32 { return w.ID.Mask(uint64(at)) }

// Scan begins to read the records of a segment at an offset.
func (w *Log) Scan(seg *Segment, off int64) (*Scanner, error) {
	f, err := w.File(seg, false)
	if err != nil {
		return nil, err
	}
	return &Scanner{F: f, Number: seg.Number, ID: w.ID, Size: seg.Size, Off: off}, nil
}

// OwnHeader reads a segment's header; false if it isn't a good one of a log of this Kind.
func (w *Log) OwnHeader(seg *Segment) (format.SegmentHeader, bool, error) {
	h, ok, err := w.Header(seg)
	return h, ok && h.Kind == w.Kind, err
}
