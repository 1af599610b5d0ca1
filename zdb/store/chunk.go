package store

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"path/filepath"
)

// A chunk is a file of the index: a header, in user mode a bit for each slot that
// says whether it is dead, and slots. In a dense chunk a slot lies where its number says, in a
// packed one there are only those that lived when it was packed, in order.
const (
	chunkMagic  = "zdbindx1"
	chunkHeader = 512
	// A unit of the bits is a disk's sector: what a power cut leaves of it is old
	// or new. 504 bytes of bits, a checksum, four bytes of nothing.
	unitSize = 512
	unitBits = 504 * 8
	// chunkSlots is how many slots a chunk is for: full units, below 1<<16.
	chunkSlots = 16 * unitBits
)

type chunk struct {
	handle
	number uint64
	packed bool
	count  uint32   // of slots in a packed file
	bytes  int64    // of the file; 0: there is none yet
	live   uint32   // slots
	dead   []uint64 // in user mode: a bit for each slot, set when it is dead or a hole
	stale  uint64   // units of dead that are newer than those in the file
	dirty  bool     // the file was written since the last checkpoint

	first      Position // of the first slot
	firstKnown bool
}

func chunkName(number uint64) string { return fmt.Sprintf("index-%010d", number) }

// shape is what all chunks of a store have in common.
type shape struct {
	disk       disk
	dir        string
	id         identity
	per        uint64 // slots of a chunk
	sequential bool
}

func (s *shape) units() int { return int((s.per + unitBits - 1) / unitBits) }

// slotsFrom is where the slots of a chunk begin.
func (s *shape) slotsFrom() int64 {
	if s.sequential {
		return chunkHeader
	}
	return chunkHeader + int64(s.units())*unitSize
}

func (s *shape) newPath(number uint64) string { return filepath.Join(s.dir, chunkName(number)) }

func (s *shape) newChunk(number uint64) *chunk {
	c := &chunk{number: number, handle: handle{disk: s.disk, path: s.newPath(number)}}
	if !s.sequential {
		c.dead = make([]uint64, (s.per+63)/64)
	}
	return c
}

func (s *shape) header(c *chunk) []byte {
	b := make([]byte, chunkHeader)
	le := binary.LittleEndian
	copy(b, chunkMagic)
	le.PutUint64(b[8:], s.id[0])
	le.PutUint64(b[16:], s.id[1])
	le.PutUint64(b[24:], c.number)
	le.PutUint32(b[32:], uint32(s.per))
	if s.sequential {
		b[36] = 1
	}
	if c.packed {
		b[37] = 1
	}
	le.PutUint32(b[40:], c.count)
	le.PutUint32(b[chunkHeader-4:], crcOf(b[:chunkHeader-4]))
	return b
}

// readHeader fills in what a chunk's header says; false if it isn't this one's.
func (s *shape) readHeader(c *chunk, b []byte) bool {
	le := binary.LittleEndian
	if len(b) < chunkHeader || string(b[:8]) != chunkMagic || le.Uint32(b[chunkHeader-4:]) != crcOf(b[:chunkHeader-4]) {
		return false
	}
	mine := le.Uint64(b[8:]) == s.id[0] && le.Uint64(b[16:]) == s.id[1] &&
		le.Uint64(b[24:]) == c.number && uint64(le.Uint32(b[32:])) == s.per && (b[36] == 1) == s.sequential
	c.packed, c.count = b[37] == 1, le.Uint32(b[40:])
	return mine && uint64(c.count) <= s.per
}

func unitMask(id identity, chunk uint64, unit int) uint32 {
	return id.mask(chunk<<8 | uint64(unit) | 1<<62)
}

// appendUnit appends one unit of a chunk's bits as it is in the file.
func (s *shape) appendUnit(b []byte, c *chunk, unit int) []byte {
	from, le := len(b), binary.LittleEndian
	for i := unit * unitBits / 64; i < (unit+1)*unitBits/64; i++ {
		var w uint64
		if i < len(c.dead) {
			w = c.dead[i]
		}
		b = le.AppendUint64(b, w)
	}
	b = le.AppendUint32(b, crcOf(b[from:])^unitMask(s.id, c.number, unit))
	return le.AppendUint32(b, 0)
}

func (s *shape) readUnit(c *chunk, unit int, b []byte) bool {
	le := binary.LittleEndian
	if le.Uint32(b[unitBits/8:]) != crcOf(b[:unitBits/8])^unitMask(s.id, c.number, unit) {
		return false
	}
	for i := range unitBits / 64 {
		if at := unit*unitBits/64 + i; at < len(c.dead) {
			c.dead[at] = le.Uint64(b[8*i:])
		}
	}
	return true
}

func (c *chunk) isDead(i uint64) bool { return c.dead[i/64]>>(i%64)&1 == 1 }

// nextLive answers the first slot from i on whose bit isn't set, below end.
func (c *chunk) nextLive(i, end uint64) (uint64, bool) {
	for i < end {
		w := ^c.dead[i/64] >> (i % 64)
		if w != 0 {
			i += uint64(bits.TrailingZeros64(w))
			return i, i < end
		}
		i = (i/64 + 1) * 64
	}
	return 0, false
}

// prevLive answers the last slot below end whose bit isn't set.
func (c *chunk) prevLive(end uint64) (uint64, bool) {
	for end > 0 {
		i := end - 1
		w := ^c.dead[i/64] << (63 - i%64)
		if w != 0 {
			return i - uint64(bits.LeadingZeros64(w)), true
		}
		end = i / 64 * 64
	}
	return 0, false
}
