package store

import (
	"slices"
)

// openChunks opens the files of the index that the checkpoint names, and
// removes the others.
func (o *opening) openChunks() error {
	x := o.index
	for _, m := range o.image.chunks {
		size, there := o.chunks[m.number]
		if !there {
			return o.notIndex("a file of it is gone", m.number)
		}
		delete(o.chunks, m.number)
		if m.number > x.next/x.per {
			return o.notIndex("a file is of later slots than there are", m.number)
		}
		c := x.makeChunk(m.number)
		c.live = m.live
		if err := o.openChunk(c, size); err != nil {
			return err
		}
	}
	for n := range o.chunks {
		if err := o.remove(x.newChunk(n).path); err != nil {
			return err
		}
		delete(o.chunks, n)
	}
	return nil
}

func (o *opening) openChunk(c *chunk, size int64) error {
	x := o.index
	f, err := x.shared.get(&c.handle, false)
	if err != nil {
		return err
	}
	b := make([]byte, x.slotsFrom())
	if err := readZeros(f, b, 0); err != nil {
		return err
	}
	if !x.readHeader(c, b) {
		return o.notIndex("a file has a bad header", c.number)
	}
	c.bytes = size
	x.bytes += size
	if size < x.slotsFrom()+int64(x.inFile(c))*slotSize {
		return o.notIndex("a file is too short", c.number)
	}
	if x.sequential {
		return nil
	}
	for unit := range x.units() {
		if !c.packed && uint64(unit*unitBits) >= uint64(x.inFile(c)) {
			break
		}
		if !x.readUnit(c, unit, b[chunkHeader+unit*unitSize:]) {
			return o.notIndex("a file has bad marks", c.number)
		}
	}
	return nil
}

func (o *opening) notIndex(why string, chunk uint64) error {
	o.cfg.Log.Error().Str("dir", o.cfg.IndexDir).Uint64("file", chunk).Str("why", why).Msg("the index is damaged")
	return errIndex
}

// finishChunks makes the files of an index that was made again as long as they should be, and
// forgets those that hold nothing.
func (o *opening) finishChunks() error {
	x := o.index
	if err := x.writeTail(); err != nil {
		return err
	}
	for _, c := range slices.Clone(x.chunks) {
		c.live = 0
		size := x.slotsFrom() + int64(x.places(c))*slotSize
		if c.bytes >= size {
			continue
		}
		f, err := x.shared.get(&c.handle, true)
		if err != nil {
			return err
		}
		if err := f.Truncate(size); err != nil {
			return err
		}
		x.grown(c, size)
	}
	return nil
}

// load goes through all slots, counts what lives, and fills the keys' table.
func (o *opening) load() error {
	if !o.cfg.Sequential && o.image != nil && !o.keys.reserve(min(o.image.counters.entries, o.slots())) {
		return ErrFull
	}
	if err := o.index.writeTail(); err != nil {
		return err
	}
	o.counters, o.live = counters{}, 0
	for _, seg := range o.wal.order {
		seg.live = 0
	}
	lost := 0
	o.loading.keys = &o.keys
	for _, c := range o.index.chunks {
		c.live = 0
		n, err := o.loadChunk(c)
		if err != nil {
			return err
		}
		lost += n
	}
	if !o.loading.flush() {
		return ErrFull
	}
	if lost > 0 {
		o.cfg.Log.Error().Str("dir", o.cfg.Dir).Int("entries", lost).Msg("entries lie in segments of the log that are gone")
	}
	return nil
}

// slots is how many slots there may be at most.
func (o *opening) slots() uint64 {
	n := uint64(0)
	for _, c := range o.index.chunks {
		n += uint64(o.index.places(c))
	}
	return n
}

// loadRead is how many slots are read at once.
const loadRead = 4096

func (o *opening) loadChunk(c *chunk) (lost int, err error) {
	x := o.index
	buf := make([]byte, loadRead*slotSize)
	f, err := x.shared.get(&c.handle, false)
	if err != nil {
		return 0, err
	}
	for at, total := 0, x.inFile(c); at < total; {
		n := min(loadRead, total-at)
		b := buf[:n*slotSize]
		if err := readZeros(f, b, x.slotsFrom()+int64(at)*slotSize); err != nil {
			return 0, err
		}
		for i := range n {
			gone, err := o.loadSlot(c, at+i, b[i*slotSize:][:slotSize])
			if err != nil {
				return 0, err
			}
			lost += gone
		}
		at += n
	}
	return lost, nil
}

// loadSlot counts one slot; it answers 1 if it lives and its record is gone.
func (o *opening) loadSlot(c *chunk, at int, b []byte) (int, error) {
	x := o.index
	number := x.numberOf(c, at, b)
	i := number - c.number*x.per
	if i >= x.per || number >= x.next {
		return 0, o.notIndex("a slot has a bad number", c.number)
	}
	if !x.sequential && c.isDead(i) {
		return 0, nil
	}
	if len(x.fresh.at) > 0 {
		if changed := x.fresh.get(number); changed != nil {
			b = changed
		}
	}
	sl, state := parseSlot(b, x.id, number)
	switch {
	case state == slotBad:
		return 0, o.notIndex("a slot is damaged", c.number)
	case state == slotAbsent:
		if !x.sequential {
			c.dead[i/64] |= 1 << (i % 64)
			c.stale |= 1 << (i / unitBits)
		}
		return 0, nil
	case sl.dead():
		return 0, nil
	}
	c.live++
	n := &o.counters
	n.entries++
	n.dataBytes += uint64(sl.length)
	n.keyBytes += uint64(sl.keyLen)
	if !x.sequential && !o.loading.add(loadedKey{sl.hash, sl.at, sl.size()}) {
		return 0, ErrFull
	}
	if seg := o.lastSegment; seg == nil || seg.number != sl.at.segment() {
		if seg = o.wal.segments[sl.at.segment()]; seg == nil {
			return 1, nil
		}
		o.lastSegment = seg
	}
	o.lastSegment.live += int64(sl.size())
	o.live += int64(sl.size())
	return 0, nil
}
