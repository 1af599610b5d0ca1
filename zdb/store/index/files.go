package index

import (
	"slices"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/zdb/store/disk"
	"github.com/croft-edge/croft/zdb/store/format"
)

// Files is the chunks that exist, and how much of them is on disk.
type Files struct {
	Shape
	List  []*Chunk // by number
	Bytes int64    // of all files
	Ahead int64    // bytes set aside behind the end of the last file

	Written uint64 // the slots below this number are in files
	Stray   bool   // files may have content of an earlier index: recovery is running

	pool    *disk.Pool
	upTo    uint64 // the slots below this number have room that is set aside
	created bool   // a file was created since the last checkpoint
	window  window
}

// window is a piece of a chunk that was read ahead.
type window struct {
	c    *Chunk
	from int // slot of the file
	n    int
	b    []byte
}

// aheadSlots is for how many slots room is set aside at once, at most.
const aheadSlots = 1024

func (x *Files) chunkAt(number uint64) (int, bool) {
	return slices.BinarySearchFunc(x.List, number, func(c *Chunk, n uint64) int {
		switch {
		case c.Number < n:
			return -1
		case c.Number > n:
			return 1
		}
		return 0
	})
}

// Chunk answers the chunk with a number, nil if there is none.
func (x *Files) Chunk(number uint64) *Chunk {
	n := len(x.List)
	if n > 0 && x.List[n-1].Number == number {
		return x.List[n-1]
	}
	if i, ok := x.chunkAt(number); ok {
		return x.List[i]
	}
	return nil
}

// MakeChunk answers the chunk with a number, a new one if there is none.
func (x *Files) MakeChunk(number uint64) *Chunk {
	i, ok := x.chunkAt(number)
	if !ok {
		x.List = slices.Insert(x.List, i, x.NewChunk(number))
	}
	return x.List[i]
}

// InFile is how many slots a chunk's file has.
func (x *Files) InFile(c *Chunk) int {
	if c.Packed {
		return int(c.Count)
	}
	if x.Written <= c.Number*x.ChunkSlots {
		return 0
	}
	return int(min(x.Written-c.Number*x.ChunkSlots, x.ChunkSlots))
}

// read answers the slot at a place in a chunk's file, valid until the next read.
func (x *Files) read(c *Chunk, at, ahead int) ([]byte, error) {
	w := &x.window
	if w.c == c && at >= w.from && at < w.from+w.n {
		return w.b[(at-w.from)*format.SlotSize:][:format.SlotSize], nil
	}
	if c.Bytes == 0 {
		// There is no file yet, and these are holes before its first slot.
		w.c, w.n = nil, 0
		clear(w.b[:format.SlotSize])
		return w.b[:format.SlotSize], nil
	}
	n := max(1, min(ahead+1, WindowSlots, x.InFile(c)-at))
	f, err := x.pool.Get(&c.Handle, false)
	if err == nil {
		w.c, w.from, w.n = c, at, n
		err = disk.ReadZeros(f, w.b[:n*format.SlotSize], x.SlotsFrom()+int64(at)*format.SlotSize)
	}
	if err != nil {
		w.c, w.n = nil, 0
		return nil, errors.Wrap(err, "cannot read the index")
	}
	return w.b[:format.SlotSize], nil
}

// search finds the first slot in a packed chunk's file whose number's low bits
// are number or more.
func (x *Files) search(c *Chunk, low uint16) (at int, found bool, err error) {
	from, to := 0, int(c.Count)
	for from < to {
		mid := (from + to) / 2
		ahead := 0
		if to-from < WindowSlots {
			mid, ahead = (from+to)/2, to-mid
		}
		b, err := x.read(c, mid, ahead)
		if err != nil {
			return 0, false, err
		}
		// The numbers in a chunk differ in their distance from its first only.
		got := x.within(c, format.LowBits(b))
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
func (x *Files) within(c *Chunk, low uint16) uint16 { return low - uint16(c.Number*x.ChunkSlots) }

// SetAside sets room aside for the slot after next, and some more: an update uses up a
// slot, and a segment may hold two updates.
func (x *Files) SetAside(next uint64) error {
	if next+1 < x.upTo {
		return nil
	}
	number := (next + 1) / x.ChunkSlots
	f, err := x.Disk.Open(x.newPath(number), true)
	if err != nil {
		return errors.Wrap(err, "cannot write the index")
	}
	defer f.Close()
	low := (next + 1) % x.ChunkSlots
	n := max(1, min(aheadSlots, x.ChunkSlots-low, (low+next+16)/4))
	end := x.SlotsFrom() + int64(low+n)*format.SlotSize
	if err := f.Allocate(0, end); err != nil {
		return err
	}
	x.upTo = number*x.ChunkSlots + low + n
	x.Ahead = end
	if c := x.Chunk(number); c != nil {
		x.Ahead = max(0, end-c.Bytes)
	}
	return nil
}

// begin makes a chunk's file.
func (x *Files) begin(c *Chunk) error {
	if c.Bytes > 0 {
		return nil
	}
	f, err := x.pool.Get(&c.Handle, true)
	if err == nil && x.Stray {
		err = f.Truncate(0)
	}
	if err == nil {
		err = f.WriteAt(x.header(c), nil, 0)
	}
	if err != nil {
		return errors.Wrap(err, "cannot write the index")
	}
	x.created = true
	x.grown(c, x.SlotsFrom())
	return nil
}

// grown notes the size of a chunk's file after a write.
func (x *Files) grown(c *Chunk, size int64) {
	c.Dirty = true
	if size > c.Bytes {
		x.Bytes += size - c.Bytes
		x.Ahead = max(0, x.Ahead-(size-c.Bytes))
		c.Bytes = size
	}
}

// SetDead marks a slot dead in user mode; false if it was or there is none.
func (x *Files) SetDead(number uint64) bool {
	c := x.Chunk(number / x.ChunkSlots)
	i := number % x.ChunkSlots
	if c == nil || c.IsDead(i) {
		return false
	}
	c.Dead[i/64] |= 1 << (i % 64)
	c.Stale |= 1 << (i / UnitBits)
	c.Live--
	return true
}

// SetAlive takes setDead back.
func (x *Files) SetAlive(number uint64) {
	c := x.Chunk(number / x.ChunkSlots)
	i := number % x.ChunkSlots
	c.Dead[i/64] &^= 1 << (i % 64)
	c.Live++
}

// replaced drops cached data of a chunk's file, which was replaced, and counts its new size.
func (x *Files) replaced(c *Chunk, bytes int64) {
	x.pool.Drop(&c.Handle)
	x.window.c, x.window.n = nil, 0
	x.Bytes += bytes - c.Bytes
	c.Bytes = bytes
}

// Drop forgets a chunk; its file is removed by the caller.
func (x *Files) Drop(c *Chunk) {
	x.replaced(c, 0)
	x.List = slices.DeleteFunc(x.List, func(a *Chunk) bool { return a == c })
}

// Close closes the chunks' files.
func (x *Files) Close() {
	for _, c := range x.List {
		x.pool.Drop(&c.Handle)
	}
}

func (x *Files) windowHas(c *Chunk, at int) bool {
	w := &x.window
	return w.c == c && at >= w.from && at < w.from+w.n
}

// NumberOf is the number of the slot at a place of a chunk's file whose low 16 bits are
// known when it is a packed one.
func (x *Files) NumberOf(c *Chunk, at int, b []byte) uint64 {
	if !c.Packed {
		return c.Number*x.ChunkSlots + uint64(at)
	}
	return c.Number*x.ChunkSlots + uint64(x.within(c, format.LowBits(b)))
}

// placeFrom is the first place of a chunk whose slot has a number of at least low.
func (x *Index) placeFrom(c *Chunk, low uint64) (int, error) {
	if !c.Packed {
		return int(min(low, uint64(x.Places(c)))), nil
	}
	if low >= x.ChunkSlots {
		return int(c.Count), nil
	}
	at, _, err := x.search(c, uint16(low))
	return at, err
}
