package format

import (
	"encoding/binary"
)

// MaxKey is the longest key, in bytes.
const MaxKey = 255

// A record of the log is a head, a key and a payload. The head's checksum
// covers the key too and depends on where the record lies.
//
//	 0 checksum   4 magic        6 kind and flags  7 length of the key
//	 8 length     12 payload's checksum            16 time
//	20 data file  24 data offset 28 offset before  32 slot
//	40 index file 44 index offset
//
// A record that replaces another version goes on with
//
//	48 slot of the old version    56 its index file  60 its index offset
//	64 segment and offset of the old version
//
// In user mode the old version keeps its slot. In sequential mode the new version takes
// over the slot, and the old version gets the next one.
//
// A record of KindLost covers a part of the log that a power cut took: its payload is what was
// found there, without a checksum.
const (
	HeadShort = 48
	HeadLong  = 72
	HeadMost  = HeadLong + MaxKey

	RecordMagic = 0xdb5a

	KindPut    = 1
	KindDelete = 2
	KindRotate = 3
	KindLost   = 4
	kindMask   = 0x07
	FlagLong   = 0x08
	flagMoved  = 0x10

	// MaxValue is the longest payload. 0-db's limit is 8 MiB.
	MaxValue = 64 << 20
)

// Head is a record without key and payload.
type Head struct {
	Kind   uint8
	Moved  bool
	KeyLen uint8
	Length uint32
	CRC    uint32
	Time   uint32
	Data   Position // of the entry in 0-db's data file
	Prev   uint32   // offset of the entry before it in that file
	Slot   uint64
	Index  Position // of the entry in 0-db's index file

	Replaces bool // Old is the version that it replaces or deletes
	Old      OldVersion
}

// OldVersion is a version that a record replaces or deletes.
type OldVersion struct {
	Slot  uint64
	Index Position
	At    Place
}

// HeadLen is the length of the head, in bytes, without the key.
func (h *Head) HeadLen() int {
	if h.Replaces {
		return HeadLong
	}
	return HeadShort
}

// Size is how many bytes the record takes.
func (h *Head) Size() uint32 { return uint32(h.HeadLen()) + uint32(h.KeyLen) + h.Length }

// Append appends the record with key, without its payload.
func (h *Head) Append(b []byte, key []byte, mask uint32) []byte {
	from := len(b)
	flags := h.Kind
	if h.Replaces {
		flags |= FlagLong
	}
	if h.Moved {
		flags |= flagMoved
	}
	le := binary.LittleEndian
	b = le.AppendUint32(b, 0)
	b = le.AppendUint16(b, RecordMagic)
	b = append(b, flags, h.KeyLen)
	b = le.AppendUint32(b, h.Length)
	b = le.AppendUint32(b, h.CRC)
	b = le.AppendUint32(b, h.Time)
	b = le.AppendUint32(b, h.Data.File)
	b = le.AppendUint32(b, h.Data.Offset)
	b = le.AppendUint32(b, h.Prev)
	b = le.AppendUint64(b, h.Slot)
	b = le.AppendUint32(b, h.Index.File)
	b = le.AppendUint32(b, h.Index.Offset)
	if h.Replaces {
		b = le.AppendUint64(b, h.Old.Slot)
		b = le.AppendUint32(b, h.Old.Index.File)
		b = le.AppendUint32(b, h.Old.Index.Offset)
		b = le.AppendUint64(b, uint64(h.Old.At))
	}
	b = append(b, key...)
	le.PutUint32(b[from:], Checksum(b[from+4:])^mask)
	return b
}

// ParseHead reads head and key of the record at the beginning of b. needs is
// how many bytes of b that takes, when the first HeadShort of them look like a record: with more
// bytes it may succeed. The key is a part of b.
func ParseHead(b []byte, mask uint32) (h Head, key []byte, needs int, ok bool) {
	le := binary.LittleEndian
	if len(b) < HeadShort {
		return h, nil, HeadShort, false
	}
	if le.Uint16(b[4:]) != RecordMagic {
		return h, nil, 0, false
	}
	h.Kind, h.Replaces, h.Moved, h.KeyLen = b[6]&kindMask, b[6]&FlagLong != 0, b[6]&flagMoved != 0, b[7]
	h.Length = le.Uint32(b[8:])
	if h.Kind < KindPut || h.Kind > KindLost || h.Length > MaxValue {
		return h, nil, 0, false
	}
	needs = h.HeadLen() + int(h.KeyLen)
	if len(b) < needs {
		return h, nil, needs, false
	}
	if le.Uint32(b) != Checksum(b[4:needs])^mask {
		return h, nil, 0, false
	}
	h.CRC, h.Time = le.Uint32(b[12:]), le.Uint32(b[16:])
	h.Data = Position{le.Uint32(b[20:]), le.Uint32(b[24:])}
	h.Prev, h.Slot = le.Uint32(b[28:]), le.Uint64(b[32:])
	h.Index = Position{le.Uint32(b[40:]), le.Uint32(b[44:])}
	if h.Replaces {
		h.Old.Slot = le.Uint64(b[48:])
		h.Old.Index = Position{le.Uint32(b[56:]), le.Uint32(b[60:])}
		h.Old.At = Place(le.Uint64(b[64:]))
	}
	return h, b[h.HeadLen():needs], needs, h.Slot < MaxSlots && h.Old.Slot < MaxSlots
}
