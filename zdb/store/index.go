package store

import (
	"slices"

	"github.com/pkg/errors"
)

// index is the slots. New ones are kept in tail until there are enough for a write;
// changes of older ones in fresh, until a checkpoint writes them: they may be
// on disk only after the records that they are about.
type index struct {
	shape
	shared *Shared
	chunks []*chunk // those that exist, by number

	next     uint64 // the next slot's number
	tail     []byte // slots from tailFrom to next
	tailFrom uint64

	fresh  *overlay
	frozen *overlay // what a checkpoint is writing
	spare  *overlay // is empty, and the next fresh

	bytes   int64  // of all files
	ahead   int64  // bytes that are set aside behind the last one's end
	upTo    uint64 // the slots below this one have room that is set aside
	created bool   // a file was made since the last checkpoint
	window  window
	stray   bool                // files may have content of an earlier index: it is being opened
	bad     func(number uint64) // told of slots that aren't what was written
}

// window is a piece of a chunk that was read ahead.
type window struct {
	c    *chunk
	from int // slot of the file
	n    int
	b    []byte
}

const (
	windowSlots = 64
	// tailWrite is how many bytes of new slots are written together.
	tailWrite = 64 << 10
)

func newIndex(sh shape, shared *Shared) *index {
	return &index{shape: sh, shared: shared, fresh: newOverlay(), spare: newOverlay(), stray: true, window: window{b: make([]byte, windowSlots*slotSize)}}
}

func (x *index) chunk(number uint64) *chunk {
	n := len(x.chunks)
	if n > 0 && x.chunks[n-1].number == number {
		return x.chunks[n-1]
	}
	if i, ok := x.chunkAt(number); ok {
		return x.chunks[i]
	}
	return nil
}

func (x *index) chunkAt(number uint64) (int, bool) {
	return slices.BinarySearchFunc(x.chunks, number, func(c *chunk, n uint64) int {
		switch {
		case c.number < n:
			return -1
		case c.number > n:
			return 1
		}
		return 0
	})
}

// makeChunk answers the chunk with a number, a new one if there is none.
func (x *index) makeChunk(number uint64) *chunk {
	i, ok := x.chunkAt(number)
	if !ok {
		x.chunks = slices.Insert(x.chunks, i, x.newChunk(number))
	}
	return x.chunks[i]
}

// append adds the next slot.
func (x *index) append(s *slot) {
	number := x.next
	c := x.chunk(number / x.per)
	if c == nil {
		c = x.makeChunk(number / x.per)
	}
	var zero [slotSize]byte
	x.tail = append(x.tail, zero[:]...)
	s.put(x.tail[len(x.tail)-slotSize:], x.id, number)
	x.next++
	c.stale |= 1 << (number % x.per / unitBits)
	if !s.dead() {
		c.live++
	}
}

// cut takes back the slots from next on, which aren't in a file yet.
func (x *index) cut(next uint64, chunks int) {
	x.tail = x.tail[:(next-x.tailFrom)*slotSize]
	x.next = next
	x.chunks = x.chunks[:chunks]
}

// bytesOf answers where a slot is in memory, or nil.
func (x *index) bytesOf(number uint64) []byte {
	if number >= x.tailFrom {
		return x.tail[(number-x.tailFrom)*slotSize:][:slotSize]
	}
	if b := x.fresh.get(number); b != nil {
		return b
	}
	if x.frozen != nil {
		return x.frozen.get(number)
	}
	return nil
}

// get reads a slot, and ahead slots behind it when it must be read from the file.
func (x *index) get(number uint64, ahead int) (slot, slotState, error) {
	if number >= x.next {
		return slot{}, slotAbsent, nil
	}
	if b := x.bytesOf(number); b != nil {
		s, state := x.parse(b, number)
		return s, state, nil
	}
	c := x.chunk(number / x.per)
	if c == nil {
		return slot{}, slotAbsent, nil
	}
	at := int(number % x.per)
	if c.packed {
		i, found, err := x.search(c, uint16(at))
		if err != nil || !found {
			return slot{}, slotAbsent, err
		}
		at = i
	}
	b, err := x.read(c, at, ahead)
	if err != nil {
		return slot{}, slotBad, err
	}
	s, state := x.parse(b, number)
	return s, state, nil
}

func (x *index) parse(b []byte, number uint64) (slot, slotState) {
	s, state := parseSlot(b, x.id, number)
	if state == slotBad && x.bad != nil {
		x.bad(number)
	}
	return s, state
}

// set changes a slot that is there. It answers what it was in memory, nil if it wasn't.
func (x *index) set(number uint64, s *slot) {
	if number >= x.tailFrom {
		s.put(x.bytesOf(number), x.id, number)
		return
	}
	s.put(x.fresh.set(number), x.id, number)
}

// inFile is how many slots a chunk's file has.
func (x *index) inFile(c *chunk) int {
	if c.packed {
		return int(c.count)
	}
	if x.tailFrom <= c.number*x.per {
		return 0
	}
	return int(min(x.tailFrom-c.number*x.per, x.per))
}

// read answers the slot at a place in a chunk's file, valid until the next read.
func (x *index) read(c *chunk, at, ahead int) ([]byte, error) {
	w := &x.window
	if w.c == c && at >= w.from && at < w.from+w.n {
		return w.b[(at-w.from)*slotSize:][:slotSize], nil
	}
	if c.bytes == 0 {
		// There is no file yet, and these are holes before its first slot.
		w.c, w.n = nil, 0
		clear(w.b[:slotSize])
		return w.b[:slotSize], nil
	}
	n := max(1, min(ahead+1, windowSlots, x.inFile(c)-at))
	f, err := x.shared.get(&c.handle, false)
	if err == nil {
		w.c, w.from, w.n = c, at, n
		err = readZeros(f, w.b[:n*slotSize], x.slotsFrom()+int64(at)*slotSize)
	}
	if err != nil {
		w.c, w.n = nil, 0
		return nil, errors.Wrap(err, "cannot read the index")
	}
	return w.b[:slotSize], nil
}

// search finds the first slot in a packed chunk's file whose number's low bits
// are number or more.
func (x *index) search(c *chunk, low uint16) (at int, found bool, err error) {
	from, to := 0, int(c.count)
	for from < to {
		mid := (from + to) / 2
		ahead := 0
		if to-from < windowSlots {
			mid, ahead = (from+to)/2, to-mid
		}
		b, err := x.read(c, mid, ahead)
		if err != nil {
			return 0, false, err
		}
		// The numbers in a chunk differ in their distance from its first only.
		got := x.within(c, slotNumber(b))
		if got == low {
			return mid, true, nil
		}
		if got < low {
			from = mid + 1
		} else {
			to = mid
		}
	}
	return from, false, nil
}

// within turns the low 16 bits of a slot's number into its place among the chunk's.
func (x *index) within(c *chunk, low uint16) uint16 { return low - uint16(c.number*x.per) }

// writeTail writes the new slots to their files.
func (x *index) writeTail() error {
	for x.tailFrom < x.next {
		c := x.chunk(x.tailFrom / x.per)
		at := x.tailFrom % x.per
		n := min(x.next-x.tailFrom, x.per-at)
		if err := x.begin(c); err != nil {
			return err
		}
		f, err := x.shared.get(&c.handle, true)
		if err != nil {
			return errors.Wrap(err, "cannot write the index")
		}
		off := x.slotsFrom() + int64(at)*slotSize
		if err := f.WriteAt(x.tail[:n*slotSize], nil, off); err != nil {
			return errors.Wrap(err, "cannot write the index")
		}
		x.grown(c, off+int64(n)*slotSize)
		x.tailFrom += n
		x.tail = append(x.tail[:0], x.tail[n*slotSize:]...)
	}
	return nil
}

// aheadSlots is for how many slots room is set aside at once, at most.
const aheadSlots = 1024

// setAside sees to it that the next slot has room in its file.
func (x *index) setAside() error {
	if x.next+1 < x.upTo {
		return nil
	}
	number := (x.next + 1) / x.per // an update uses up the next slot, and the segment may hold two of them
	f, err := x.disk.Open(x.newPath(number), true)
	if err != nil {
		return errors.Wrap(err, "cannot write the index")
	}
	defer f.Close()
	low := (x.next + 1) % x.per
	n := max(1, min(aheadSlots, x.per-low, (low+x.next+16)/4))
	end := x.slotsFrom() + int64(low+n)*slotSize
	if err := f.Allocate(0, end); err != nil {
		return err
	}
	x.upTo = number*x.per + low + n
	x.ahead = end
	if c := x.chunk(number); c != nil {
		x.ahead = max(0, end-c.bytes)
	}
	return nil
}

// begin makes a chunk's file.
func (x *index) begin(c *chunk) error {
	if c.bytes > 0 {
		return nil
	}
	f, err := x.shared.get(&c.handle, true)
	if err == nil && x.stray {
		err = f.Truncate(0)
	}
	if err == nil {
		err = f.WriteAt(x.header(c), nil, 0)
	}
	if err != nil {
		return errors.Wrap(err, "cannot write the index")
	}
	x.created = true
	x.grown(c, x.slotsFrom())
	return nil
}

func (x *index) grown(c *chunk, size int64) {
	c.dirty = true
	if size > c.bytes {
		x.bytes += size - c.bytes
		x.ahead = max(0, x.ahead-(size-c.bytes))
		c.bytes = size
	}
}

// setDead marks a slot dead in user mode; false if it was or there is none.
func (x *index) setDead(number uint64) bool {
	c := x.chunk(number / x.per)
	i := number % x.per
	if c == nil || c.isDead(i) {
		return false
	}
	c.dead[i/64] |= 1 << (i % 64)
	c.stale |= 1 << (i / unitBits)
	c.live--
	return true
}

// setAlive takes setDead back.
func (x *index) setAlive(number uint64) {
	c := x.chunk(number / x.per)
	i := number % x.per
	c.dead[i/64] &^= 1 << (i % 64)
	c.live++
}

// replaced forgets what was read of a chunk's file, which is another now.
func (x *index) replaced(c *chunk, bytes int64) {
	x.shared.drop(&c.handle)
	x.window.c, x.window.n = nil, 0
	x.bytes += bytes - c.bytes
	c.bytes = bytes
}

func (x *index) drop(c *chunk) {
	x.replaced(c, 0)
	x.chunks = slices.DeleteFunc(x.chunks, func(a *chunk) bool { return a == c })
}

func (x *index) close() {
	for _, c := range x.chunks {
		x.shared.drop(&c.handle)
	}
}
