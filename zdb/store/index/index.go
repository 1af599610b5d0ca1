package index

import (
	"github.com/pkg/errors"

	"github.com/croft-edge/croft/zdb/store/disk"
	"github.com/croft-edge/croft/zdb/store/format"
)

// Index is the slots of a store: those in files, the new ones behind them, and
// the changed ones that wait for a checkpoint.
type Index struct {
	*Files
	Next uint64              // the next slot's number
	Tail []byte              // slots from Files.Written to Next
	Bad  func(number uint64) // called with a slot that is damaged

	fresh  *overlay
	frozen *overlay // changes that a checkpoint is writing
	spare  *overlay // is empty, and the next fresh
}

const (
	// WindowSlots is the most slots that are read ahead.
	WindowSlots = 64
	// TailWrite is how many bytes of new slots are written together.
	TailWrite = 64 << 10
)

// New makes an empty index.
func New(sh Shape, pool *disk.Pool) *Index {
	return &Index{
		Files: &Files{Shape: sh, pool: pool, Stray: true, window: window{b: make([]byte, WindowSlots*format.SlotSize)}},
		fresh: newOverlay(), spare: newOverlay(),
	}
}

// Append adds the next slot.
func (x *Index) Append(s *format.Slot) {
	number := x.Next
	c := x.Chunk(number / x.ChunkSlots)
	if c == nil {
		c = x.MakeChunk(number / x.ChunkSlots)
	}
	var zero [format.SlotSize]byte
	x.Tail = append(x.Tail, zero[:]...)
	s.Encode(x.Tail[len(x.Tail)-format.SlotSize:], x.ID, number)
	x.Next++
	c.Stale |= 1 << (number % x.ChunkSlots / UnitBits)
	if !s.Dead() {
		c.Live++
	}
}

// Cut takes back the slots from next on, which aren't in a file yet.
func (x *Index) Cut(next uint64, chunks int) {
	x.Tail = x.Tail[:(next-x.Written)*format.SlotSize]
	x.Next = next
	x.List = x.List[:chunks]
}

// bytesOf answers where a slot is in memory, or nil.
func (x *Index) bytesOf(number uint64) []byte {
	if number >= x.Written {
		return x.Tail[(number-x.Written)*format.SlotSize:][:format.SlotSize]
	}
	if b := x.fresh.get(number); b != nil {
		return b
	}
	if x.frozen != nil {
		return x.frozen.get(number)
	}
	return nil
}

// Get reads a slot, and ahead slots behind it when it must be read from the file.
func (x *Index) Get(number uint64, ahead int) (format.Slot, format.SlotState, error) {
	if number >= x.Next {
		return format.Slot{}, format.SlotAbsent, nil
	}
	if b := x.bytesOf(number); b != nil {
		s, state := x.parse(b, number)
		return s, state, nil
	}
	c := x.Chunk(number / x.ChunkSlots)
	if c == nil {
		return format.Slot{}, format.SlotAbsent, nil
	}
	at := int(number % x.ChunkSlots)
	if c.Packed {
		i, found, err := x.search(c, uint16(at))
		if err != nil || !found {
			return format.Slot{}, format.SlotAbsent, err
		}
		at = i
	}
	b, err := x.read(c, at, ahead)
	if err != nil {
		return format.Slot{}, format.SlotBad, err
	}
	s, state := x.parse(b, number)
	return s, state, nil
}

func (x *Index) parse(b []byte, number uint64) (format.Slot, format.SlotState) {
	s, state := format.ParseSlot(b, x.ID, number)
	if state == format.SlotBad && x.Bad != nil {
		x.Bad(number)
	}
	return s, state
}

// Set changes an existing slot, in memory.
func (x *Index) Set(number uint64, s *format.Slot) {
	if number >= x.Written {
		s.Encode(x.bytesOf(number), x.ID, number)
		return
	}
	s.Encode(x.fresh.set(number), x.ID, number)
}

// WriteTail writes the new slots to their files.
func (x *Index) WriteTail() error {
	for x.Written < x.Next {
		c := x.Chunk(x.Written / x.ChunkSlots)
		at := x.Written % x.ChunkSlots
		n := min(x.Next-x.Written, x.ChunkSlots-at)
		if err := x.begin(c); err != nil {
			return err
		}
		f, err := x.pool.Get(&c.Handle, true)
		if err != nil {
			return errors.Wrap(err, "cannot write the index")
		}
		off := x.SlotsFrom() + int64(at)*format.SlotSize
		if err := f.WriteAt(x.Tail[:n*format.SlotSize], nil, off); err != nil {
			return errors.Wrap(err, "cannot write the index")
		}
		x.grown(c, off+int64(n)*format.SlotSize)
		x.Written += n
		x.Tail = append(x.Tail[:0], x.Tail[n*format.SlotSize:]...)
	}
	return nil
}

// Changed is how many slots wait for a checkpoint.
func (x *Index) Changed() int { return len(x.fresh.at) }

// Saved answers a slot's bytes in memory that a change would overwrite, for Restore; nil if
// there are none.
func (x *Index) Saved(number uint64) []byte {
	if number >= x.Written {
		return x.bytesOf(number)
	}
	return x.fresh.get(number)
}

// Restore undoes the change of a slot; was is a copy of Saved's answer before the change.
func (x *Index) Restore(number uint64, was []byte) {
	switch {
	case was == nil:
		x.fresh.forget(number)
	case number >= x.Written:
		copy(x.bytesOf(number), was)
	default:
		copy(x.fresh.set(number), was)
	}
}

// CutLast removes the last slot, which isn't in a file yet; live says whether it was live.
func (x *Index) CutLast(live bool) {
	if live {
		x.Chunk((x.Next-1)/x.ChunkSlots).Live--
	}
	x.Cut(x.Next-1, len(x.List))
}

// Dead reports whether a slot is marked dead: in the chunk's bits, or in the slot itself.
func (x *Index) Dead(number uint64, s *format.Slot) bool {
	if !x.DeadBits {
		return s.Dead()
	}
	c := x.Chunk(number / x.ChunkSlots)
	return c == nil || c.IsDead(number%x.ChunkSlots)
}
