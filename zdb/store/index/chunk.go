package index

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"path/filepath"

	"github.com/croft-edge/croft/zdb/store/disk"
	"github.com/croft-edge/croft/zdb/store/format"
)

// A chunk is a file of the index: a header, with DeadBits a bit for each slot, and slots. In a dense
// chunk the number of a slot is its place; a packed chunk has only the slots that were live when
// it was packed, in order.
const (
	chunkMagic = "zdbindx1"
	HeaderSize = 512
	// A unit of the bits is a disk's sector: a power cut leaves the old or the new
	// one. 504 bytes of bits, a checksum, four bytes of nothing.
	UnitSize = 512
	UnitBits = 504 * 8
	// ChunkSlots is how many slots a chunk is for: full units, below 1<<16.
	ChunkSlots = 16 * UnitBits
)

// Chunk is one file of the index.
type Chunk struct {
	disk.Handle
	Number uint64
	Packed bool
	Count  uint32   // of slots in a packed file
	Bytes  int64    // of the file; 0: there is none yet
	Live   uint32   // slots
	Dead   []uint64 // with DeadBits: a bit for each slot, set when it is dead or a hole
	Stale  uint64   // units of dead that are newer than those in the file
	Dirty  bool     // the file was written since the last checkpoint

	first      format.Position // of the first slot
	firstKnown bool
}

// ChunkName is the name of a chunk's file.
func ChunkName(number uint64) string { return fmt.Sprintf("index-%010d", number) }

// Shape has the properties that all chunks of a store share.
type Shape struct {
	Disk       disk.Disk
	Dir        string
	ID         format.Identity
	ChunkSlots uint64 // slots of a chunk
	DeadBits   bool   // chunks have a bit for each slot that says whether it is dead; else the slots say so
}

// Units is how many units of dead bits a chunk has.
func (s *Shape) Units() int { return int((s.ChunkSlots + UnitBits - 1) / UnitBits) }

// SlotsFrom is where the slots of a chunk begin.
func (s *Shape) SlotsFrom() int64 {
	if !s.DeadBits {
		return HeaderSize
	}
	return HeaderSize + int64(s.Units())*UnitSize
}

func (s *Shape) newPath(number uint64) string { return filepath.Join(s.Dir, ChunkName(number)) }

// NewChunk is a chunk in memory; its file is made by the first write.
func (s *Shape) NewChunk(number uint64) *Chunk {
	c := &Chunk{Number: number, Handle: disk.Handle{Disk: s.Disk, Path: s.newPath(number)}}
	if s.DeadBits {
		c.Dead = make([]uint64, (s.ChunkSlots+63)/64)
	}
	return c
}

// header encodes a chunk's header.
func (s *Shape) header(c *Chunk) []byte {
	b := make([]byte, HeaderSize)
	le := binary.LittleEndian
	copy(b, chunkMagic)
	le.PutUint64(b[8:], s.ID[0])
	le.PutUint64(b[16:], s.ID[1])
	le.PutUint64(b[24:], c.Number)
	le.PutUint32(b[32:], uint32(s.ChunkSlots))
	if !s.DeadBits {
		b[36] = 1
	}
	if c.Packed {
		b[37] = 1
	}
	le.PutUint32(b[40:], c.Count)
	le.PutUint32(b[HeaderSize-4:], format.Checksum(b[:HeaderSize-4]))
	return b
}

// ReadHeader decodes a chunk's header; false if it is damaged or of another chunk.
func (s *Shape) ReadHeader(c *Chunk, b []byte) bool {
	le := binary.LittleEndian
	if len(b) < HeaderSize || string(b[:8]) != chunkMagic || le.Uint32(b[HeaderSize-4:]) != format.Checksum(b[:HeaderSize-4]) {
		return false
	}
	mine := le.Uint64(b[8:]) == s.ID[0] && le.Uint64(b[16:]) == s.ID[1] &&
		le.Uint64(b[24:]) == c.Number && uint64(le.Uint32(b[32:])) == s.ChunkSlots && (b[36] == 1) == !s.DeadBits
	c.Packed, c.Count = b[37] == 1, le.Uint32(b[40:])
	return mine && uint64(c.Count) <= s.ChunkSlots
}

func unitMask(id format.Identity, chunk uint64, unit int) uint32 {
	return id.Mask(chunk<<8 | uint64(unit) | 1<<62)
}

// appendUnit appends one unit of a chunk's bits as it is in the file.
func (s *Shape) appendUnit(b []byte, c *Chunk, unit int) []byte {
	from, le := len(b), binary.LittleEndian
	for i := unit * UnitBits / 64; i < (unit+1)*UnitBits/64; i++ {
		var w uint64
		if i < len(c.Dead) {
			w = c.Dead[i]
		}
		b = le.AppendUint64(b, w)
	}
	b = le.AppendUint32(b, format.Checksum(b[from:])^unitMask(s.ID, c.Number, unit))
	return le.AppendUint32(b, 0)
}

// ReadUnit takes one unit of dead bits; false if its checksum is wrong.
func (s *Shape) ReadUnit(c *Chunk, unit int, b []byte) bool {
	le := binary.LittleEndian
	if le.Uint32(b[UnitBits/8:]) != format.Checksum(b[:UnitBits/8])^unitMask(s.ID, c.Number, unit) {
		return false
	}
	for i := range UnitBits / 64 {
		if at := unit*UnitBits/64 + i; at < len(c.Dead) {
			c.Dead[at] = le.Uint64(b[8*i:])
		}
	}
	return true
}

// IsDead reports the dead bit of a slot of the chunk.
func (c *Chunk) IsDead(i uint64) bool { return c.Dead[i/64]>>(i%64)&1 == 1 }

// nextLive answers the first slot from i on whose bit isn't set, below end.
func (c *Chunk) nextLive(i, end uint64) (uint64, bool) {
	for i < end {
		w := ^c.Dead[i/64] >> (i % 64)
		if w != 0 {
			i += uint64(bits.TrailingZeros64(w))
			return i, i < end
		}
		i = (i/64 + 1) * 64
	}
	return 0, false
}

// prevLive answers the last slot below end whose bit isn't set.
func (c *Chunk) prevLive(end uint64) (uint64, bool) {
	for end > 0 {
		i := end - 1
		w := ^c.Dead[i/64] << (63 - i%64)
		if w != 0 {
			return i - uint64(bits.LeadingZeros64(w)), true
		}
		end = i / 64 * 64
	}
	return 0, false
}
