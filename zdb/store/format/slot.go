package format

import (
	"encoding/binary"
)

// SlotSize is the length of a slot, in bytes: the place of one version's record, and its fields shown on the wire.
// Slots have numbers, in the order in which entries came; in sequential mode the
// number is the id.
//
//	 0 checksum  4 flags        5 length of the key  6 number, its lowest 16 bits
//	 8 key's hash, or the id   16 place             24 payload's length
//	28 index file              32 index offset      36 data offset of what made the slot
//	40 time                    44 payload's checksum
const SlotSize = 48

// MaxSlots is more slots than a store ever has. Arithmetic on lower numbers can't overflow.
const MaxSlots = 1 << 56

// Flags of a slot.
const (
	slotThere = 1 // a slot of zeros is a hole
	SlotDead  = 2 // in sequential mode; in user mode the chunk has a bit for it
	SlotOld   = 4 // an older version of another slot's, the one that hash names
	slotLong  = 8 // the record has a long head
)

// Slot is one slot, decoded.
type Slot struct {
	Flags  uint8
	KeyLen uint8
	Hash   uint64
	At     Place
	Length uint32
	Index  Position
	Data   uint32
	Time   uint32
	CRC    uint32
}

// SlotOf is the slot of the version whose record is h.
func SlotOf(h *Head, hash uint64, at Place) Slot {
	s := Slot{
		Flags: slotThere, KeyLen: h.KeyLen, Hash: hash, At: at, Length: h.Length,
		Index: h.Index, Data: h.Data.Offset, Time: h.Time, CRC: h.CRC,
	}
	if h.Replaces {
		s.Flags |= slotLong
	}
	return s
}

// Size is how many bytes the slot's record takes.
func (s *Slot) Size() uint32 {
	n := uint32(HeadShort)
	if s.Flags&slotLong != 0 {
		n = HeadLong
	}
	return n + uint32(s.KeyLen) + s.Length
}

// Dead reports the mark of a deleted or older version in sequential mode.
func (s *Slot) Dead() bool { return s.Flags&SlotDead != 0 }

func slotMask(id Identity, number uint64) uint32 { return id.Mask(number | 1<<63) }

// Encode writes the slot to b; one without flags is a hole.
func (s *Slot) Encode(b []byte, id Identity, number uint64) {
	if s.Flags == 0 {
		clear(b[:SlotSize])
		return
	}
	le := binary.LittleEndian
	b[4], b[5] = s.Flags, s.KeyLen
	le.PutUint16(b[6:], uint16(number))
	le.PutUint64(b[8:], s.Hash)
	le.PutUint64(b[16:], uint64(s.At))
	le.PutUint32(b[24:], s.Length)
	le.PutUint32(b[28:], s.Index.File)
	le.PutUint32(b[32:], s.Index.Offset)
	le.PutUint32(b[36:], s.Data)
	le.PutUint32(b[40:], s.Time)
	le.PutUint32(b[44:], s.CRC)
	le.PutUint32(b, Checksum(b[4:SlotSize])^slotMask(id, number))
}

// SlotState classifies the bytes found in a slot's place.
type SlotState int

// The states of a slot's bytes.
const (
	SlotAbsent SlotState = iota
	SlotGood
	SlotBad
)

// ParseSlot decodes the slot with a number.
func ParseSlot(b []byte, id Identity, number uint64) (Slot, SlotState) {
	le := binary.LittleEndian
	if b[4] == 0 {
		for _, c := range b[:SlotSize] {
			if c != 0 {
				return Slot{}, SlotBad
			}
		}
		return Slot{}, SlotAbsent
	}
	if le.Uint32(b) != Checksum(b[4:SlotSize])^slotMask(id, number) {
		return Slot{}, SlotBad
	}
	return Slot{
		Flags: b[4], KeyLen: b[5], Hash: le.Uint64(b[8:]), At: Place(le.Uint64(b[16:])),
		Length: le.Uint32(b[24:]), Index: Position{le.Uint32(b[28:]), le.Uint32(b[32:])},
		Data: le.Uint32(b[36:]), Time: le.Uint32(b[40:]), CRC: le.Uint32(b[44:]),
	}, SlotGood
}

// LowBits is the lowest 16 bits of the number of the slot in b.
func LowBits(b []byte) uint16 { return binary.LittleEndian.Uint16(b[6:]) }
