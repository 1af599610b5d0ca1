package store

import (
	"encoding/binary"
	"slices"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/zdb/store/disk"
	"github.com/croft-edge/croft/zdb/store/format"
	"github.com/croft-edge/croft/zdb/store/index"
	"github.com/croft-edge/croft/zdb/store/wal"
)

// replayMode applies the log's records in one mode.
type replayMode interface {
	put(p *replay, r *wal.Record)
	delete(p *replay, r *wal.Record)
	// used answers the slot that a new version used up, and its position. Later versions have higher ones.
	used(h *format.Head) (slot uint64, index Position)
}

// replay brings the index up to the log's end, from a place of the log. Replaying a record again
// makes no difference.
type replay struct {
	mode     replayMode
	log      *wal.Log
	index    *index.Index
	recovery *index.Recovery
	files    *virtualFiles
	trust    *trust

	rebuild           bool           // the index is made from nothing
	dead              []format.Place // tombstones, sorted; only with rebuild
	tombstonesDamaged bool
	records           int // that were replayed
	failed            error
}

// from replays the records from a place on.
func (p *replay) from(at format.Place) error {
	for i, seg := range p.log.Order {
		if seg.Number < at.Segment() {
			continue
		}
		seg.Dirty, p.log.Created = true, true // the process that wrote it may have ended before it was synced
		off := int64(format.SegmentHeaderSize)
		if seg.Number == at.Segment() {
			off = max(off, int64(at.Offset()))
		}
		last := i == len(p.log.Order)-1
		whole, err := p.segment(seg, off, last)
		if err != nil {
			return err
		}
		if last {
			err = p.goOn(seg, whole)
		}
		if err != nil {
			return err
		}
	}
	p.endSuspicion()
	return p.failed
}

// goOn makes the last segment the one that is written to, if it is good.
func (p *replay) goOn(seg *wal.Segment, whole bool) error {
	if !whole && seg.Size == 0 {
		p.log.Active = seg // begun, maybe with room that was set aside
		return nil
	}
	if !whole && seg.Size <= format.SegmentHeaderSize {
		p.log.Remove(seg)
		return seg.Disk.Remove(seg.Path)
	}
	if whole {
		p.log.Active = seg
		p.log.Sealed = p.log.Sealed || seg.Boot != p.trust.boot || seg.Damaged
	}
	return nil
}

// segment replays the records of a segment. whole says whether its header is good.
func (p *replay) segment(seg *wal.Segment, off int64, last bool) (whole bool, err error) {
	h, whole, err := p.log.OwnHeader(seg)
	if err != nil {
		return false, err
	}
	if whole && h.ID != p.log.ID {
		return false, errors.Errorf("%s belongs to another store", seg.Path)
	}
	if whole && off == format.SegmentHeaderSize {
		p.reach(h.State, h.Next)
	}
	scan, err := p.log.Scan(seg, off)
	if err != nil {
		return false, err
	}
	var r wal.Record // one for all: the mode gets its address
	for good := off; good < seg.Size; {
		scan.Off = good
		// Other files that replay reads may have closed this one, and its number may be another's.
		if scan.F, err = p.log.File(seg, false); err != nil {
			return false, err
		}
		var ok bool
		if r, ok, err = scan.Next(last || !p.rebuild); err != nil {
			return false, err
		}
		if !ok {
			if r, ok, err = repairRecord(scan, good); err != nil {
				return false, err
			}
			if ok {
				_ = p.trust.damage.record(r.At, "its head") // it logs it
				if err := p.record(&r); err != nil {
					return false, err
				}
				good += int64(r.Size())
				continue
			}
			scan.Off = good
		}
		end, follows := scan.Off, true
		intact := ok && (r.Payload == nil || r.Intact())
		if !intact {
			// If something good follows it was damaged, else it is the torn end.
			r.Key = slices.Clone(r.Key)
			if follows, err = scan.Resync(); err != nil {
				return false, err
			}
		}
		switch {
		case intact || ok && (p.trust.sure(seg, good) || follows && !r.Moved):
			// What is unreadable behind it, if anything, comes next. A torn value is answered as damaged, never by an older one.
			err, scan.Off = p.record(&r), end
		case follows && scan.Off <= good:
			return false, errors.Errorf("cannot read %s at %d: it is shorter than its size", seg.Path, good)
		case follows:
			// A torn copy of compaction too: its original is there for as long as the copy isn't synced.
			p.lose(seg, good, scan.Off)
		default:
			return whole, p.end(scan, seg, good, last)
		}
		if err != nil {
			return false, err
		}
		good = scan.Off
	}
	return whole, nil
}

// end ends a segment of which the rest can't be read.
func (p *replay) end(scan *wal.Scanner, seg *wal.Segment, good int64, last bool) error {
	torn, err := tornAt(scan, good)
	if err != nil {
		return err
	}
	if p.trust.sure(seg, good) && !(last && torn) {
		p.trust.lose(seg, good, seg.Size)
		return nil
	}
	return p.cut(seg, good, last)
}

// lose goes on behind a part of a segment that can't be read.
func (p *replay) lose(seg *wal.Segment, from, to int64) {
	if p.trust.sure(seg, from) {
		p.trust.lose(seg, from, to)
		return
	}
	p.trust.damage.log.Error().Str("file", seg.Path).Int64("offset", from).Int64("bytes", to-from).
		Msg("a power cut took a part of the log; the records there are lost")
	p.trust.damage.count++
	p.note(seg, func() error { return p.log.Fill(seg, from, to) })
}

// cut removes the bytes after the last good record of a segment.
func (p *replay) cut(seg *wal.Segment, good int64, last bool) error {
	truncate := func() error {
		f, err := p.log.File(seg, false)
		if err == nil {
			err = f.Truncate(good)
		}
		return err
	}
	shorter := func() {
		p.log.Bytes -= seg.Size - good
		seg.Size, seg.Dirty = good, true
	}
	log := &p.trust.damage.log
	if !last {
		log.Error().Str("file", seg.Path).Int64("offset", good).Int64("bytes", seg.Size-good).
			Msg("a power cut took the end of a segment; the records there are lost")
		if p.note(seg, truncate) {
			shorter()
		}
		return nil
	}
	log.Warn().Str("file", seg.Path).Int64("offset", good).Int64("bytes", seg.Size-good).
		Msg("the log has a torn end: cut")
	err := truncate()
	switch {
	case err != nil && !disk.IsFull(err):
		return err
	case err != nil && seg.Boot != p.trust.boot:
		seg.Damaged = true // nothing more is written to it
	default:
		p.log.Torn = err != nil // then it is cut before the next write
	}
	shorter()
	return nil
}

// note changes a segment so that it shows what a power cut took from it, and reports whether it did. Without the note
// the segment is kept as it is, and an index that is rebuilt takes the loss for damage, and older entries for suspect. Nothing is
// noted without a checkpoint and without the segment's header: then less is known to have been synced than was.
func (p *replay) note(seg *wal.Segment, change func() error) bool {
	if !p.trust.checkpointed || seg.Boot == 0 {
		seg.Damaged = true
		return false
	}
	seg.Dirty = true
	if err := change(); err != nil {
		seg.Damaged = true
		p.trust.damage.log.Warn().Err(err).Str("file", seg.Path).Msg("cannot note in the log what a power cut took")
		return false
	}
	return true
}

// reach notes that the log got as far as a state.
func (p *replay) reach(st format.FileState, next uint64) {
	if p.index.Next < next {
		p.jump(next)
	}
	p.files.reach(st)
}

// jump goes to a slot's number that isn't the next: those between are holes.
func (p *replay) jump(next uint64) {
	if err := p.recovery.Jump(next); err != nil {
		p.failed = err
	}
}

// record replays one record.
func (p *replay) record(r *wal.Record) error {
	p.records++
	if r.Kind == format.KindLost {
		return nil
	}
	used, made := p.mode.used(&r.Head)
	if !r.Moved {
		p.files.replay(&r.Head, made)
	}
	switch r.Kind {
	case format.KindPut:
		if !r.Moved {
			p.trust.resume(used)
		}
		p.mode.put(p, r)
	case format.KindDelete:
		p.mode.delete(p, r)
	}
	if p.failed == nil && len(p.index.Tail) >= index.TailWrite {
		p.failed = p.index.WriteTail()
	}
	return p.failed
}

// put puts a slot where it belongs.
func (p *replay) put(r *wal.Record, number uint64, sl *format.Slot) {
	if !r.Moved && number >= p.index.Next {
		if number > p.index.Next {
			p.jump(number)
		}
		p.index.Append(sl)
		return
	}
	p.change(number, sl)
}

// change changes a slot that is there, or makes it when the index is rebuilt.
func (p *replay) change(number uint64, sl *format.Slot) {
	x := p.index
	known := number < x.Next && (number >= x.Written || !p.rebuild && x.Chunk(number/x.ChunkSlots) != nil)
	switch {
	case known:
		x.Set(number, sl)
	case p.rebuild && p.failed == nil:
		p.failed = p.recovery.Overwrite(number, sl)
	}
}

// versionAt reads the head of the record at a place; false if it isn't a version's.
func (p *replay) versionAt(at format.Place) (format.Head, bool) {
	r := versions{log: p.log}
	h, ok, err := r.head(at)
	return h, err == nil && ok && h.Kind == format.KindPut
}

// tombstoned says whether the version at a place was replaced or deleted by a record that is gone.
func (p *replay) tombstoned(at format.Place) bool {
	_, found := slices.BinarySearch(p.dead, at)
	return found
}

// endSuspicion ends the search for damage.
func (p *replay) endSuspicion() {
	t := p.trust
	if t.lost > 0 {
		// So many numbers may have been given.
		p.jump(min(p.index.Next+t.lost, format.MaxSlots-1))
		t.resume(p.index.Next)
		t.spread, p.log.Sealed = true, true
	}
	if p.tombstonesDamaged && p.rebuild {
		t.damage.suspectBelow = p.index.Next
		t.spread, p.log.Sealed = true, true
	}
}

// trust distinguishes damage of the log from the effects of a power cut.
type trust struct {
	damage  *damage
	boot    uint64       // the machine's start
	durable format.Place // all of the log before it was synced
	// checkpointed is whether a checkpoint says so, and not only the segments' headers.
	checkpointed bool
	lost         uint64 // slots that a damaged part of the log may have used up, until something good follows
	spread       bool   // entries became suspect at the log's end: a checkpoint should say so soon
}

// sure reports whether a record written at a place must be on disk, so that its absence is damage: no power
// cut came after the segment was begun, or the record was synced before.
func (t *trust) sure(seg *wal.Segment, off int64) bool {
	return seg.Boot != 0 && seg.Boot == t.boot || format.PlaceOf(seg.Number, uint32(off)) < t.durable
}

// lose notes that a part of the log can't be read that must have been on disk.
func (t *trust) lose(seg *wal.Segment, from, to int64) {
	t.damage.log.Error().Str("file", seg.Path).Int64("offset", from).Int64("bytes", to-from).
		Msg("the log is damaged; the records there are lost, and the segment is kept as it is")
	seg.Damaged = true
	t.damage.count++
	t.lost += uint64(to-from)/format.HeadShort + 1
	t.damage.log.Error().Str("file", seg.Path).Int64("offset", from).
		Msg("entries that are older than the damage may have been changed in it: they are answered as damaged until they are set again; copy what can be read, and empty the namespace")
}

// resume notes the slot that a version after the last damage used: older versions are suspect.
func (t *trust) resume(slot uint64) {
	if t.lost > 0 {
		t.lost, t.damage.suspectBelow = 0, max(t.damage.suspectBelow, slot)
	}
}

// repairRecord reads a record whose head has one flipped bit. It must end where another begins, or be
// whole else.
func repairRecord(scan *wal.Scanner, at int64) (r wal.Record, ok bool, err error) {
	r.At = format.PlaceOf(scan.Number, uint32(at))
	b, err := scan.Bytes(at, format.HeadMost)
	if err != nil {
		return r, false, err
	}
	if r.Head, r.Key, ok = format.RepairHead(b, scan.ID.Mask(uint64(r.At))); !ok {
		return r, false, nil
	}
	end := at + int64(r.Size())
	if end > scan.Size {
		return r, false, nil
	}
	scan.Off = end
	if end < scan.Size {
		if _, follows, err := scan.Next(false); err != nil || follows {
			scan.Off = end
			return r, err == nil, err
		}
	}
	scan.Off = end
	payload, err := scan.Bytes(end-int64(r.Length), int(r.Length))
	r.Payload = payload
	return r, err == nil && r.Intact(), err
}

// tornAt says whether the rest of a segment is the beginning of a record: a write that got no further.
func tornAt(scan *wal.Scanner, at int64) (bool, error) {
	b, err := scan.Bytes(at, format.HeadMost)
	if err != nil || len(b) < 6 {
		return true, err
	}
	if binary.LittleEndian.Uint16(b[4:]) != format.RecordMagic {
		return false, nil
	}
	if len(b) < format.HeadShort {
		return true, nil
	}
	h, _, needs, ok := format.ParseHead(b, scan.ID.Mask(uint64(format.PlaceOf(scan.Number, uint32(at)))))
	if ok {
		return at+int64(h.Size()) > scan.Size, nil
	}
	return needs > len(b), nil
}
