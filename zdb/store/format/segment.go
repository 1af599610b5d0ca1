package format

import (
	"encoding/binary"
)

// A segment is a file of the log: a header and records, the older before the younger. Their
// numbers grow and are never used again.
const (
	segmentMagic      = "zdbsegm1"
	SegmentHeaderSize = 128
	MaxSegments       = 1 << 31
)

// FileState is where 0-db's files would go on.
type FileState struct {
	File  uint32 // the active one
	Data  uint32 // offset of its next data entry
	Index uint32 // offset of its next index entry
	Prev  uint32 // offset of the data entry that came last
}

func (s *FileState) append(b []byte, next uint64) []byte {
	le := binary.LittleEndian
	b = le.AppendUint32(b, s.File)
	b = le.AppendUint32(b, s.Data)
	b = le.AppendUint32(b, s.Index)
	b = le.AppendUint32(b, s.Prev)
	return le.AppendUint64(b, next)
}

func readState(b []byte) (s FileState, next uint64) {
	le := binary.LittleEndian
	return FileState{le.Uint32(b), le.Uint32(b[4:]), le.Uint32(b[8:]), le.Uint32(b[12:])}, le.Uint64(b[16:])
}

// Kind has the settings that may not change between two starts.
type Kind struct {
	Sequential bool
	IDSize     int
}

func (k Kind) bytes() [2]byte {
	out := [2]byte{0, byte(k.IDSize)}
	if k.Sequential {
		out[0] = 1
	}
	return out
}

// Append appends the encoded header.
func (h *SegmentHeader) Append(b []byte) []byte {
	from, le := len(b), binary.LittleEndian
	b = append(b, segmentMagic...)
	b = le.AppendUint64(b, h.ID[0])
	b = le.AppendUint64(b, h.ID[1])
	b = le.AppendUint32(b, h.Number)
	mode := h.Kind.bytes()
	b = append(b, mode[0], mode[1], 0, 0)
	b = h.State.append(b, h.Next)
	b = le.AppendUint64(b, h.Boot)
	b = le.AppendUint64(b, uint64(h.Synced))
	b = le.AppendUint64(b, h.SuspectBelow)
	b = append(b, make([]byte, SegmentHeaderSize-4-(len(b)-from))...)
	return le.AppendUint32(b, Checksum(b[from:]))
}

// SegmentHeader is the beginning of a segment. State and Next are those before its first
// record, so that numbers are never reused even if only this header is left.
type SegmentHeader struct {
	ID     Identity
	Number uint32
	Kind   Kind
	State  FileState
	Next   uint64
	// These are zeros in older files.
	Boot         uint64 // the machine's start
	Synced       Place  // all before it was synced
	SuspectBelow uint64 // entries that are older may have been changed in a damaged part of the log; 0: none
}

// ParseSegmentHeader decodes a header; false if it is damaged.
func ParseSegmentHeader(b []byte) (h SegmentHeader, ok bool) {
	le := binary.LittleEndian
	if len(b) < SegmentHeaderSize || string(b[:8]) != segmentMagic ||
		le.Uint32(b[SegmentHeaderSize-4:]) != Checksum(b[:SegmentHeaderSize-4]) {
		return h, false
	}
	h.ID = Identity{le.Uint64(b[8:]), le.Uint64(b[16:])}
	h.Number = le.Uint32(b[24:])
	h.Kind = Kind{Sequential: b[28] == 1, IDSize: int(b[29])}
	h.State, h.Next = readState(b[32:])
	h.Boot, h.Synced, h.SuspectBelow = le.Uint64(b[56:]), Place(le.Uint64(b[64:])), le.Uint64(b[72:])
	return h, h.Number > 0 && h.Next < MaxSlots && h.SuspectBelow < MaxSlots
}
