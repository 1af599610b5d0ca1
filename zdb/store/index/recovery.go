package index

import (
	"fmt"
	"slices"

	"github.com/croft-edge/croft/zdb/store/disk"
	"github.com/croft-edge/croft/zdb/store/format"
)

// DamageError says that the files of the index can't be used as they are.
type DamageError struct {
	Why   string
	Chunk uint64
}

func (e *DamageError) Error() string {
	return fmt.Sprintf("the index is damaged: %s (file %d)", e.Why, e.Chunk)
}

// Recovery has the operations on an index that only the opening of a store needs.
type Recovery struct {
	index *Index
	live  func(s *format.Slot) error
	buf   []byte
	slot  format.Slot // one for all: live gets its address
}

// Recover begins the recovery of an index.
func Recover(x *Index) *Recovery { return &Recovery{index: x} }

// Reset empties the index, whose files are removed by the caller.
func (r *Recovery) Reset() {
	x := r.index
	x.Close()
	*x = *New(x.Shape, x.pool)
}

// OpenChunk opens the file of a chunk that a checkpoint names. Errors: DamageError, and the disk's.
func (r *Recovery) OpenChunk(usage format.ChunkUsage, size int64) error {
	x := r.index
	if usage.Number > x.Next/x.ChunkSlots {
		return &DamageError{"a file is of later slots than there are", usage.Number}
	}
	c := x.MakeChunk(usage.Number)
	c.Live = usage.Live
	f, err := x.pool.Get(&c.Handle, false)
	if err != nil {
		return err
	}
	b := make([]byte, x.SlotsFrom())
	if err := disk.ReadZeros(f, b, 0); err != nil {
		return err
	}
	if !x.ReadHeader(c, b) {
		return &DamageError{"a file has a bad header", c.Number}
	}
	c.Bytes = size
	x.Bytes += size
	if size < x.SlotsFrom()+int64(x.InFile(c))*format.SlotSize {
		return &DamageError{"a file is too short", c.Number}
	}
	if !x.DeadBits {
		return nil
	}
	for unit := range x.Units() {
		if !c.Packed && uint64(unit*UnitBits) >= uint64(x.InFile(c)) {
			break
		}
		if !x.ReadUnit(c, unit, b[HeaderSize+unit*UnitSize:]) {
			return &DamageError{"a file has bad marks", c.Number}
		}
	}
	return nil
}

// ExtendFiles writes the new slots, and makes files that end with holes as long as their slots: Jump and Overwrite
// leave them shorter.
func (r *Recovery) ExtendFiles() error {
	x := r.index
	if err := x.WriteTail(); err != nil {
		return err
	}
	for _, c := range slices.Clone(x.List) {
		size := x.SlotsFrom() + int64(x.Places(c))*format.SlotSize
		if c.Bytes >= size {
			continue
		}
		f, err := x.pool.Get(&c.Handle, true)
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

// MaxSlots is how many slots there may be at most.
func (r *Recovery) MaxSlots() uint64 {
	x := r.index
	n := uint64(0)
	for _, c := range x.List {
		n += uint64(x.Places(c))
	}
	return n
}

// loadRead is how many slots are read at once.
const loadRead = 4096

// Load calls live with every live slot, and counts these in their chunks. All slots must be in files.
// Errors: DamageError, live's, and the disk's.
func (r *Recovery) Load(live func(s *format.Slot) error) error {
	r.live, r.buf = live, make([]byte, loadRead*format.SlotSize)
	for _, c := range r.index.List {
		c.Live = 0
		if err := r.loadChunk(c); err != nil {
			return err
		}
	}
	return nil
}

func (r *Recovery) loadChunk(c *Chunk) error {
	x := r.index
	f, err := x.pool.Get(&c.Handle, false)
	if err != nil {
		return err
	}
	for at, total := 0, x.InFile(c); at < total; {
		n := min(loadRead, total-at)
		b := r.buf[:n*format.SlotSize]
		if err := disk.ReadZeros(f, b, x.SlotsFrom()+int64(at)*format.SlotSize); err != nil {
			return err
		}
		for i := range n {
			if err := r.loadSlot(c, at+i, b[i*format.SlotSize:][:format.SlotSize]); err != nil {
				return err
			}
		}
		at += n
	}
	return nil
}

func (r *Recovery) loadSlot(c *Chunk, at int, b []byte) error {
	x := r.index
	number := x.NumberOf(c, at, b)
	i := number - c.Number*x.ChunkSlots
	if i >= x.ChunkSlots || number >= x.Next {
		return &DamageError{"a slot has a bad number", c.Number}
	}
	if x.DeadBits && c.IsDead(i) {
		return nil
	}
	if len(x.fresh.at) > 0 {
		if changed := x.fresh.get(number); changed != nil {
			b = changed
		}
	}
	var state format.SlotState
	r.slot, state = format.ParseSlot(b, x.ID, number)
	switch {
	case state == format.SlotBad:
		return &DamageError{"a slot is damaged", c.Number}
	case state == format.SlotAbsent:
		if x.DeadBits {
			c.Dead[i/64] |= 1 << (i % 64)
			c.Stale |= 1 << (i / UnitBits)
		}
		return nil
	case r.slot.Dead():
		return nil
	}
	c.Live++
	return r.live(&r.slot)
}

// Jump goes on with a slot number that isn't the next: those between are holes. When the new
// slots can't be written nothing changes.
func (r *Recovery) Jump(next uint64) error {
	x := r.index
	if len(x.Tail) > 0 {
		if err := x.WriteTail(); err != nil {
			return err
		}
	}
	x.Next, x.Written = next, next
	return nil
}

// Overwrite writes a slot right into its file, in an index that is being rebuilt.
func (r *Recovery) Overwrite(number uint64, s *format.Slot) error {
	x := r.index
	c := x.MakeChunk(number / x.ChunkSlots)
	if err := x.begin(c); err != nil {
		return err
	}
	f, err := x.pool.Get(&c.Handle, true)
	if err != nil {
		return err
	}
	var b [format.SlotSize]byte
	s.Encode(b[:], x.ID, number)
	off := x.SlotsFrom() + int64(number%x.ChunkSlots)*format.SlotSize
	x.window.c, x.window.n = nil, 0
	x.grown(c, off+format.SlotSize)
	return f.WriteAt(b[:], nil, off)
}

// Peek reads a slot of an index that is being rebuilt, where there may be some behind the next one.
func (r *Recovery) Peek(number uint64) (format.Slot, format.SlotState) {
	x := r.index
	if number < x.Next {
		s, state, err := x.Get(number, 0)
		if err != nil {
			state = format.SlotBad
		}
		return s, state
	}
	c := x.Chunk(number / x.ChunkSlots)
	if c == nil || c.Bytes == 0 {
		return format.Slot{}, format.SlotAbsent
	}
	f, err := x.pool.Get(&c.Handle, false)
	var b [format.SlotSize]byte
	if err == nil {
		err = disk.ReadZeros(f, b[:], x.SlotsFrom()+int64(number%x.ChunkSlots)*format.SlotSize)
	}
	if err != nil {
		return format.Slot{}, format.SlotBad
	}
	return format.ParseSlot(b[:], x.ID, number)
}
