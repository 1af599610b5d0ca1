package store

import (
	"cmp"

	"github.com/croft-edge/croft/zdb/store/format"
	"github.com/croft-edge/croft/zdb/store/index"
	"github.com/croft-edge/croft/zdb/store/wal"
)

// rawReader finds records by their position in 0-db's data files.
type rawReader struct {
	log      *wal.Log
	index    *index.Index
	mode     mode
	versions *versions
	files    *virtualFiles
	commit   func(extra []byte) error // writes the batch

	last   format.Place // of the record that was found last by scanning a segment
	lastAt Position
}

// entry does Store.Raw.
func (r *rawReader) entry(p Position) (RawEntry, error) {
	if p.File > r.files.File {
		return RawEntry{}, ErrOffset
	}
	if p.File == r.files.File && p.Offset >= r.files.Data {
		return RawEntry{}, ErrEOF
	}
	at, err := r.bySlot(p)
	if err == nil && at == 0 {
		at, err = r.byScan(p)
	}
	if err != nil {
		return RawEntry{}, err
	}
	return r.read(at)
}

func (r *rawReader) read(at format.Place) (RawEntry, error) {
	damage := r.versions.damage
	b, err := r.log.Read(at, format.HeadMost)
	if err != nil {
		return RawEntry{}, err
	}
	h, _, _, ok := format.ParseHead(b, r.log.Mask(at))
	if !ok {
		return RawEntry{}, damage.record(at, "its head")
	}
	if b, err = r.log.Read(at, int(h.Size())); err != nil {
		return RawEntry{}, err
	}
	h, key, n, ok := format.ParseHead(b, r.log.Mask(at))
	if !ok || len(b) < int(h.Size()) || format.PayloadCRC(b[n:]) != h.CRC && h.Kind == format.KindPut {
		return RawEntry{}, damage.record(at, "its payload")
	}
	return RawEntry{Key: key, Previous: h.Prev, CRC: h.CRC, Deleted: h.Kind == format.KindDelete, Time: h.Time, Value: b[n:]}, nil
}

// bySlot looks for a version by the slot that was made when it was written.
// Zero: it isn't found like this.
func (r *rawReader) bySlot(p Position) (format.Place, error) {
	from, to := uint64(0), r.index.Next
	for from < to {
		mid := (from + to) / 2
		number, sl, found, err := r.index.GoodFrom(mid, to)
		if err != nil {
			return 0, err
		}
		switch made := (Position{File: sl.Index.File, Offset: sl.Data}); {
		case !found || p.Before(made):
			to = mid
		case made.Before(p):
			from = number + 1
		default:
			return r.ofEntry(&sl, p)
		}
	}
	return 0, nil
}

// ofEntry looks among the versions of a slot's entry for the one at p.
func (r *rawReader) ofEntry(sl *format.Slot, p Position) (format.Place, error) {
	if sl.Flags&format.SlotOld != 0 {
		// The slot was made by an update of another one.
		own, state, err := r.index.Get(sl.Hash, 0)
		if err != nil || state != format.SlotGood {
			return 0, err
		}
		*sl = own
	}
	for range 1 << 20 {
		h, ok, err := r.versions.head(sl.At)
		if err != nil || !ok {
			return 0, err
		}
		if h.Data == p {
			return sl.At, nil
		}
		older, ok := r.mode.older(h)
		if !ok {
			return 0, nil
		}
		var state format.SlotState
		if *sl, state, err = r.index.Get(older, 0); err != nil || state != format.SlotGood {
			return 0, err
		}
	}
	return 0, nil
}

// byScan looks for a record in the segment in which it was first written:
// deletions have no slot.
func (r *rawReader) byScan(p Position) (format.Place, error) {
	if err := r.commit(nil); err != nil {
		return 0, err
	}
	order := r.log.Order
	if n := len(order); n > 0 && order[n-1].Size == 0 {
		order = order[:n-1] // begun, and nothing written yet
	}
	from, to := 0, len(order)
	for from < to {
		mid := (from + to) / 2
		h, ok, err := r.log.OwnHeader(order[mid])
		for at := mid; !ok && err == nil && at > from; {
			// A damaged header says nothing: ask the one before it.
			at--
			h, ok, err = r.log.OwnHeader(order[at])
		}
		switch {
		case err != nil:
			return 0, err
		case ok && p.Before(Position{File: h.State.File, Offset: h.State.Data}):
			to = mid
		default:
			from = mid + 1
		}
	}
	if from == 0 {
		return 0, ErrOffset
	}
	return r.scan(order[from-1], p)
}

func (r *rawReader) scan(seg *wal.Segment, p Position) (format.Place, error) {
	off := int64(format.SegmentHeaderSize)
	if r.last.Segment() == seg.Number && !p.Before(r.lastAt) {
		off = int64(r.last.Offset())
	}
	scan, err := r.log.Scan(seg, off)
	if err != nil {
		return 0, err
	}
	for {
		rec, ok, err := scan.Next(false)
		if err != nil {
			return 0, err
		}
		switch {
		case !ok && scan.Off >= seg.Size:
			if p.File < r.files.File {
				return 0, ErrEOF
			}
			return 0, ErrOffset
		case !ok:
			if found, err := scan.Resync(); err != nil || !found {
				return 0, cmp.Or(err, ErrOffset)
			}
		case rec.Moved || rec.Kind == format.KindRotate || rec.Kind == format.KindLost || rec.Data.Before(p):
		case rec.Data == p:
			r.last, r.lastAt = rec.At, p
			return rec.At, nil
		case rec.Data.File > p.File:
			return 0, ErrEOF
		default:
			return 0, ErrOffset
		}
	}
}
