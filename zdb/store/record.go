package store

import "encoding/binary"

// A record of the log is a head, a key and a payload. The head's checksum
// covers the key too and depends on where the record lies.
//
//	 0 checksum   4 magic        6 kind and flags  7 length of the key
//	 8 length     12 payload's checksum            16 time
//	20 data file  24 data offset 28 offset before  32 slot
//	40 index file 44 index offset
//
// One that takes another's place goes on with
//
//	48 slot of the other version  56 its index file  60 its index offset
//	64 segment and offset where the other version lies
//
// In user mode the other version's slot is the one it always had. In
// sequential mode the new version takes over the slot, and the other gets a new one.
const (
	headShort = 48
	headLong  = 72
	headMost  = headLong + MaxKey

	recordMagic = 0xdb5a

	kindPut    = 1
	kindDelete = 2
	kindRotate = 3
	kindMask   = 0x07
	flagLong   = 0x08
	flagMoved  = 0x10

	// maxValue is the longest payload. 0-db's limit is 8 MiB.
	maxValue = 64 << 20
)

// place is where a record lies: a segment and an offset in it. Zero is nowhere.
type place uint64

func placeOf(segment, offset uint32) place { return place(segment)<<32 | place(offset) }
func (p place) segment() uint32            { return uint32(p >> 32) }
func (p place) offset() uint32             { return uint32(p) }

// head is what a record says beside key and payload.
type head struct {
	kind   uint8
	moved  bool
	keyLen uint8
	length uint32
	crc    uint32
	time   uint32
	data   Position // where 0-db's data file would have it
	prev   uint32   // the offset of the entry before it there
	slot   uint64
	index  Position // where 0-db's index file has its slot

	long  bool // the other version
	other other
}

// other is the version that a record takes the place of.
type other struct {
	slot  uint64
	index Position
	at    place
}

func (h *head) headLen() int {
	if h.long {
		return headLong
	}
	return headShort
}

// size is how many bytes the record takes.
func (h *head) size() uint32 { return uint32(h.headLen()) + uint32(h.keyLen) + h.length }

// appendRecord appends the record with key, without its payload.
func (h *head) appendRecord(b []byte, key []byte, mask uint32) []byte {
	from := len(b)
	flags := h.kind
	if h.long {
		flags |= flagLong
	}
	if h.moved {
		flags |= flagMoved
	}
	le := binary.LittleEndian
	b = le.AppendUint32(b, 0)
	b = le.AppendUint16(b, recordMagic)
	b = append(b, flags, h.keyLen)
	b = le.AppendUint32(b, h.length)
	b = le.AppendUint32(b, h.crc)
	b = le.AppendUint32(b, h.time)
	b = le.AppendUint32(b, h.data.File)
	b = le.AppendUint32(b, h.data.Offset)
	b = le.AppendUint32(b, h.prev)
	b = le.AppendUint64(b, h.slot)
	b = le.AppendUint32(b, h.index.File)
	b = le.AppendUint32(b, h.index.Offset)
	if h.long {
		b = le.AppendUint64(b, h.other.slot)
		b = le.AppendUint32(b, h.other.index.File)
		b = le.AppendUint32(b, h.other.index.Offset)
		b = le.AppendUint64(b, uint64(h.other.at))
	}
	b = append(b, key...)
	le.PutUint32(b[from:], crcOf(b[from+4:])^mask)
	return b
}

// parseHead reads head and key of the record at the beginning of b. needs is
// how many bytes of b that takes, when the first headShort of them look like a record: with more
// of them it may succeed. The key is a part of b.
func parseHead(b []byte, mask uint32) (h head, key []byte, needs int, ok bool) {
	le := binary.LittleEndian
	if len(b) < headShort {
		return h, nil, headShort, false
	}
	if le.Uint16(b[4:]) != recordMagic {
		return h, nil, 0, false
	}
	h.kind, h.long, h.moved, h.keyLen = b[6]&kindMask, b[6]&flagLong != 0, b[6]&flagMoved != 0, b[7]
	h.length = le.Uint32(b[8:])
	if h.kind < kindPut || h.kind > kindRotate || h.length > maxValue {
		return h, nil, 0, false
	}
	needs = h.headLen() + int(h.keyLen)
	if len(b) < needs {
		return h, nil, needs, false
	}
	if le.Uint32(b) != crcOf(b[4:needs])^mask {
		return h, nil, 0, false
	}
	h.crc, h.time = le.Uint32(b[12:]), le.Uint32(b[16:])
	h.data = Position{le.Uint32(b[20:]), le.Uint32(b[24:])}
	h.prev, h.slot = le.Uint32(b[28:]), le.Uint64(b[32:])
	h.index = Position{le.Uint32(b[40:]), le.Uint32(b[44:])}
	if h.long {
		h.other.slot = le.Uint64(b[48:])
		h.other.index = Position{le.Uint32(b[56:]), le.Uint32(b[60:])}
		h.other.at = place(le.Uint64(b[64:]))
	}
	return h, b[h.headLen():needs], needs, h.slot < slotsMost && h.other.slot < slotsMost
}
