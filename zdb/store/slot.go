package store

import "encoding/binary"

// A slot of the index says where a version lies and what the wire shows of it.
// Slots have numbers, in the order in which entries came; in sequential mode the
// number is the id.
//
//	 0 checksum  4 flags        5 length of the key  6 number, its lowest 16 bits
//	 8 key's hash, or the id   16 place             24 payload's length
//	28 index file              32 index offset      36 data offset of what made the slot
//	40 time                    44 payload's checksum
const slotSize = 48

// slotsMost is more slots than a store ever has. Reckoning with lower numbers can't overflow.
const slotsMost = 1 << 56

const (
	slotThere = 1 // a slot of zeros is a hole
	slotDead  = 2 // in sequential mode; in user mode the chunk has a bit for it
	slotOld   = 4 // an older version of another slot's, the one that hash names
	slotLong  = 8 // the record has a long head
)

type slot struct {
	flags  uint8
	keyLen uint8
	hash   uint64
	at     place
	length uint32
	index  Position
	data   uint32
	time   uint32
	crc    uint32
}

// slotOf is the slot of the version whose record is h.
func slotOf(h *head, hash uint64, at place) slot {
	s := slot{
		flags: slotThere, keyLen: h.keyLen, hash: hash, at: at, length: h.length,
		index: h.index, data: h.data.Offset, time: h.time, crc: h.crc,
	}
	if h.long {
		s.flags |= slotLong
	}
	return s
}

// size is how many bytes the slot's record takes.
func (s *slot) size() uint32 {
	n := uint32(headShort)
	if s.flags&slotLong != 0 {
		n = headLong
	}
	return n + uint32(s.keyLen) + s.length
}

func (s *slot) dead() bool { return s.flags&slotDead != 0 }

func slotMask(id identity, number uint64) uint32 { return id.mask(number | 1<<63) }

// put writes the slot to b; one without flags is a hole.
func (s *slot) put(b []byte, id identity, number uint64) {
	if s.flags == 0 {
		clear(b[:slotSize])
		return
	}
	le := binary.LittleEndian
	b[4], b[5] = s.flags, s.keyLen
	le.PutUint16(b[6:], uint16(number))
	le.PutUint64(b[8:], s.hash)
	le.PutUint64(b[16:], uint64(s.at))
	le.PutUint32(b[24:], s.length)
	le.PutUint32(b[28:], s.index.File)
	le.PutUint32(b[32:], s.index.Offset)
	le.PutUint32(b[36:], s.data)
	le.PutUint32(b[40:], s.time)
	le.PutUint32(b[44:], s.crc)
	le.PutUint32(b, crcOf(b[4:slotSize])^slotMask(id, number))
}

// slotState is what was found where a slot should be.
type slotState int

const (
	slotAbsent slotState = iota
	slotGood
	slotBad
)

func parseSlot(b []byte, id identity, number uint64) (slot, slotState) {
	le := binary.LittleEndian
	if b[4] == 0 {
		for _, c := range b[:slotSize] {
			if c != 0 {
				return slot{}, slotBad
			}
		}
		return slot{}, slotAbsent
	}
	if le.Uint32(b) != crcOf(b[4:slotSize])^slotMask(id, number) {
		return slot{}, slotBad
	}
	return slot{
		flags: b[4], keyLen: b[5], hash: le.Uint64(b[8:]), at: place(le.Uint64(b[16:])),
		length: le.Uint32(b[24:]), index: Position{le.Uint32(b[28:]), le.Uint32(b[32:])},
		data: le.Uint32(b[36:]), time: le.Uint32(b[40:]), crc: le.Uint32(b[44:]),
	}, slotGood
}

// slotNumber is the lowest 16 bits of the number of the slot in b.
func slotNumber(b []byte) uint16 { return binary.LittleEndian.Uint16(b[6:]) }

// overlay is slots that were changed and aren't in their files yet.
type overlay struct {
	at    map[uint64]int
	slots []byte
}

func newOverlay() *overlay { return &overlay{at: map[uint64]int{}} }

func (o *overlay) get(number uint64) []byte {
	if len(o.at) == 0 {
		return nil
	}
	if at, ok := o.at[number]; ok {
		return o.slots[at : at+slotSize]
	}
	return nil
}

// set answers the bytes for a slot, which it takes from where they were.
func (o *overlay) set(number uint64) []byte {
	at, ok := o.at[number]
	if !ok {
		at = len(o.slots)
		o.at[number] = at
		o.slots = append(o.slots, make([]byte, slotSize)...)
	}
	return o.slots[at : at+slotSize]
}

func (o *overlay) forget(number uint64) { delete(o.at, number) }

// clear empties the overlay. Its memory stays, unless it is much.
func (o *overlay) clear() {
	if len(o.at) > 2*overlayWant {
		*o = *newOverlay()
		return
	}
	clear(o.at)
	o.slots = o.slots[:0]
}
