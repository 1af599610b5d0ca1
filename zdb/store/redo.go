package store

import (
	"path/filepath"
	"slices"

	"github.com/pkg/errors"
)

// redoFrom does what the records of the log from a place on did. Doing it
// again makes no difference.
func (o *opening) redoFrom(at place) error {
	for i, seg := range o.wal.order {
		if seg.number < at.segment() {
			continue
		}
		seg.dirty, o.wal.created = true, true // who wrote it may have ended before it was synced
		off := int64(segmentHeader)
		if seg.number == at.segment() {
			off = max(off, int64(at.offset()))
		}
		last := i == len(o.wal.order)-1
		whole, err := o.redoSegment(seg, off, last)
		if err != nil {
			return err
		}
		if last {
			err = o.goOn(seg, whole)
		}
		if err != nil {
			return err
		}
	}
	o.endDoubt()
	return o.failed
}

// goOn makes the last segment the one that is written to, if it is good.
func (o *opening) goOn(seg *segment, whole bool) error {
	if !whole && seg.size == 0 {
		o.wal.active = seg // begun, maybe with room that was set aside
		return nil
	}
	if !whole && seg.size <= segmentHeader {
		o.wal.remove(seg)
		return o.disk.Remove(seg.path)
	}
	if whole {
		o.wal.active = seg
		o.wal.ended = o.wal.ended || seg.boot != o.boot || seg.damaged
	}
	return nil
}

// redoSegment does what the records of a segment did. whole says whether its header is good.
func (o *opening) redoSegment(seg *segment, off int64, last bool) (whole bool, err error) {
	h, whole, err := o.headerOf(seg)
	if err != nil {
		return false, err
	}
	if whole && h.id != o.wal.id {
		return false, errors.Errorf("%s belongs to another store", seg.path)
	}
	if whole && off == segmentHeader {
		o.reach(h.state, h.next)
	}
	f, err := o.shared.get(&seg.handle, false)
	if err != nil {
		return false, err
	}
	scan := &scanner{f: f, number: seg.number, id: o.wal.id, size: seg.size, off: off}
	for good := off; good < seg.size; {
		scan.off = good
		r, ok, err := scan.next(last || !o.rebuild)
		if err != nil {
			return false, err
		}
		if !ok {
			if r, ok, err = o.damagedRecord(scan, good); err != nil {
				return false, err
			}
			if ok {
				_ = o.damage(r.at, "its head") // it says so
				if err := o.redo(&r); err != nil {
					return false, err
				}
				good = good + int64(r.size())
				continue
			}
			scan.off = good
		}
		end, follows := scan.off, true
		if !ok || r.payload != nil && payloadCRC(r.payload) != r.crc {
			// If something good follows it was damaged, else it is the torn end.
			r.key = slices.Clone(r.key)
			if follows, err = scan.find(); err != nil {
				return false, err
			}
		}
		switch {
		case ok && (follows || o.sure(seg, good)):
			if err = o.redo(&r); !follows {
				scan.off = end
			}
		case follows:
			o.unknown(seg, good, scan.off)
		default:
			return whole, o.end(scan, seg, good, last)
		}
		if err != nil {
			return false, err
		}
		good = scan.off
	}
	return whole, nil
}

// end ends a segment of which the rest can't be read.
func (o *opening) end(scan *scanner, seg *segment, good int64, last bool) error {
	torn, err := o.tornAt(scan, good)
	if err != nil {
		return err
	}
	if o.sure(seg, good) && !(last && torn) {
		o.unknown(seg, good, seg.size)
		return nil
	}
	return o.cut(seg, good, last)
}

// skip notes that nothing good lies between two places of a segment.
func (o *opening) skip(seg *segment, from, to int64) {
	o.cfg.Log.Error().Str("file", seg.path).Int64("offset", from).Int64("bytes", to-from).
		Msg("the log is damaged; what lies there is lost, and the segment is kept as it is")
	seg.damaged = true
	o.damaged++
}

// cut cuts what follows the last good record of a segment.
func (o *opening) cut(seg *segment, good int64, last bool) error {
	if !last {
		o.cfg.Log.Error().Str("file", seg.path).Int64("offset", good).Int64("bytes", seg.size-good).
			Msg("the end of a segment is damaged; what lies there is lost")
		seg.damaged = true
		return nil
	}
	o.cfg.Log.Warn().Str("file", seg.path).Int64("offset", good).Int64("bytes", seg.size-good).
		Msg("the log has a torn end: cut")
	f, err := o.shared.get(&seg.handle, false)
	if err != nil {
		return err
	}
	err = f.Truncate(good)
	if err != nil && !isFull(err) {
		return err
	}
	o.wal.torn = err != nil // then it is cut before the next write
	o.wal.bytes -= seg.size - good
	seg.size, seg.dirty = good, true
	return nil
}

// reach notes that the log got as far as a state.
func (o *opening) reach(st state, next uint64) {
	if o.index.next < next {
		o.jump(next)
	}
	if o.state.file < st.file || o.state.file == st.file && o.state.data < st.data {
		o.state = st
	}
}

// jump goes to a slot's number that isn't the next: those between are holes.
func (o *opening) jump(next uint64) {
	if len(o.index.tail) > 0 {
		if err := o.index.writeTail(); err != nil {
			// It can't be lost: the tail is in memory still. But it must be written to jump.
			o.failed = err
			return
		}
	}
	o.index.next, o.index.tailFrom = next, next
}

func (o *opening) redo(r *scanned) error {
	o.redone++
	o.redoState(r)
	if r.kind == kindPut && !r.moved {
		o.settleDoubt(r.born(o.cfg.Sequential))
	}
	switch {
	case r.kind == kindPut && o.cfg.Sequential:
		o.redoSequential(r)
	case r.kind == kindPut:
		sl := slotOf(&r.head, o.wal.id.hash(r.key), r.at)
		o.put(r, r.slot, &sl)
		if r.long {
			o.index.setDead(r.other.slot)
		}
		if o.isKilled(r.at) {
			o.index.setDead(r.slot)
		}
	case r.kind == kindDelete && o.cfg.Sequential:
		o.bury(r.slot, r.other.at)
	case r.kind == kindDelete:
		o.index.setDead(r.other.slot)
	}
	if o.failed == nil && len(o.index.tail) >= tailWrite {
		o.failed = o.index.writeTail()
	}
	return o.failed
}

// redoState moves on in 0-db's files as a record did.
func (o *opening) redoState(r *scanned) {
	if r.moved {
		return
	}
	st, l := &o.state, o.cfg.Layout
	if r.data.File > st.file {
		*st = state{file: r.data.File, data: l.DataHeader, index: l.IndexHeader}
	}
	switch r.kind {
	case kindRotate:
		st.prev = r.prev
		return
	case kindPut:
		made := r.index
		if r.long && o.cfg.Sequential {
			made = r.other.index
		}
		st.index = made.Offset + l.IndexEntry + uint32(r.keyLen)
	}
	st.prev = r.data.Offset
	st.data = r.data.Offset + l.DataEntry + uint32(r.keyLen) + r.length
}

// put puts a slot where it belongs.
func (o *opening) put(r *scanned, number uint64, sl *slot) {
	x := o.index
	if !r.moved && number >= x.next {
		if number > x.next {
			o.jump(number)
		}
		x.append(sl)
		return
	}
	o.change(number, sl)
}

// change changes a slot that is there, or makes it when the index is made again.
func (o *opening) change(number uint64, sl *slot) {
	x := o.index
	c := x.chunk(number / x.per)
	switch {
	case number >= x.tailFrom && number < x.next:
		x.set(number, sl)
	case !o.rebuild && c != nil && number < x.next:
		x.set(number, sl)
	case o.rebuild && o.failed == nil:
		o.failed = o.write(number, sl)
	}
}

// write puts a slot right into its file.
func (o *opening) write(number uint64, sl *slot) error {
	x := o.index
	c := x.makeChunk(number / x.per)
	if err := x.begin(c); err != nil {
		return err
	}
	f, err := x.shared.get(&c.handle, true)
	if err != nil {
		return err
	}
	var b [slotSize]byte
	sl.put(b[:], x.id, number)
	off := x.slotsFrom() + int64(number%x.per)*slotSize
	x.window.c, x.window.n = nil, 0
	x.grown(c, off+slotSize)
	return f.WriteAt(b[:], nil, off)
}

func (o *opening) redoSequential(r *scanned) {
	now := slotOf(&r.head, r.slot, r.at)
	if !r.long {
		o.put(r, r.slot, &now)
	} else {
		if was, state := o.slotNow(r.slot); state == slotGood {
			now.data = was.data
		}
		// The old version's slot comes last: it is the next.
		o.change(r.slot, &now)
		o.supersede(r)
	}
	if o.isKilled(r.at) {
		// A later version took the slot. If it isn't deleted it comes later in the log.
		o.change(r.slot, &slot{})
	}
}

// slotNow reads a slot, those behind the next too when the index is made again.
func (o *opening) slotNow(number uint64) (slot, slotState) {
	x := o.index
	if number >= x.next {
		c := x.chunk(number / x.per)
		if c == nil || c.bytes == 0 {
			return slot{}, slotAbsent
		}
		f, err := x.shared.get(&c.handle, false)
		var b [slotSize]byte
		if err == nil {
			err = readZeros(f, b[:], x.slotsFrom()+int64(number%x.per)*slotSize)
		}
		if err != nil {
			return slot{}, slotBad
		}
		return parseSlot(b[:], x.id, number)
	}
	sl, state, err := x.get(number, 0)
	if err != nil {
		return sl, slotBad
	}
	return sl, state
}

// supersede gives the version that an update took the place of its slot.
func (o *opening) supersede(r *scanned) {
	number := r.other.slot
	if r.moved {
		if _, state := o.slotNow(number); !o.rebuild || state == slotGood {
			return
		}
	}
	was, ok := o.versionAt(r.other.at)
	if !ok {
		if !r.moved && number >= o.index.next {
			o.jump(number + 1)
		}
		return
	}
	old := slotOf(&was, r.slot, r.other.at)
	old.flags |= slotDead | slotOld
	old.index, old.data = r.other.index, r.data.Offset
	o.put(r, number, &old)
}

// versionAt reads the head of the record at a place.
func (o *opening) versionAt(at place) (head, bool) {
	b, err := o.wal.read(at, headMost)
	if err != nil {
		return head{}, false
	}
	h, _, _, ok := parseHead(b, o.wal.mask(at))
	return h, ok && h.kind == kindPut
}

// bury marks an id's slot dead; at is where its last version lies.
func (o *opening) bury(number uint64, at place) {
	sl, state := o.slotNow(number)
	if state != slotGood || sl.at != at {
		// The slot's last version is one that was cleaned away, unless it can be read.
		sl = slot{}
		if h, ok := o.versionAt(at); ok {
			sl = slotOf(&h, number, at)
		}
	}
	if sl.flags != 0 {
		sl.flags |= slotDead
	}
	o.change(number, &sl)
}

func (o *opening) isKilled(at place) bool {
	if len(o.killed) == 0 {
		return false
	}
	_, found := slices.BinarySearch(o.killed, at)
	return found
}

// findKills finds out where the good part of the file of kills ends.
func (o *opening) findKills(size int64) error {
	if size == 0 {
		return nil
	}
	f, err := o.disk.Open(filepath.Join(o.cfg.Dir, killsFile), false)
	if err != nil {
		return err
	}
	defer f.Close()
	o.kills, o.killsBad, err = readKills(f, size, func([]place) {})
	o.killsMin = o.kills
	return err
}

func (o *opening) loadKills() error {
	if o.kills == 0 {
		return nil
	}
	f, err := o.disk.Open(filepath.Join(o.cfg.Dir, killsFile), false)
	if err != nil {
		return err
	}
	defer f.Close()
	_, _, err = readKills(f, o.kills, func(p []place) { o.killed = append(o.killed, p...) })
	slices.Sort(o.killed)
	return err
}
