package store

import (
	"encoding/binary"
	"fmt"
	"path/filepath"
)

// A segment is a file of the log: a header and records, the older before the younger. Their
// numbers grow and are never used again.
const (
	segmentMagic  = "zdbsegm1"
	segmentHeader = 128
	segmentsMost  = 1 << 31
)

type segment struct {
	handle
	number uint32
	size   int64 // of the file, as far as it holds good records
	live   int64 // bytes of records that are needed
	dirty  bool  // written since the last sync began

	boot uint64 // the machine's start in which it was begun, 0 if that isn't known

	damaged bool // it isn't cleaned any more
}

func segmentName(number uint32) string { return fmt.Sprintf("log-%010d", number) }

// state is where 0-db's files would go on.
type state struct {
	file  uint32 // the active one
	data  uint32 // offset of its next data entry
	index uint32 // offset of its next index entry
	prev  uint32 // offset of the data entry that came last
}

func (s *state) append(b []byte, next uint64) []byte {
	le := binary.LittleEndian
	b = le.AppendUint32(b, s.file)
	b = le.AppendUint32(b, s.data)
	b = le.AppendUint32(b, s.index)
	b = le.AppendUint32(b, s.prev)
	return le.AppendUint64(b, next)
}

func readState(b []byte) (s state, next uint64) {
	le := binary.LittleEndian
	return state{le.Uint32(b), le.Uint32(b[4:]), le.Uint32(b[8:]), le.Uint32(b[12:])}, le.Uint64(b[16:])
}

// kind is what may not change between two starts.
type kind struct {
	sequential bool
	idSize     int
}

func (k kind) bytes() [2]byte {
	out := [2]byte{0, byte(k.idSize)}
	if k.sequential {
		out[0] = 1
	}
	return out
}

// append appends the header of a segment: the state is that before its first
// record, so that numbers are never given again even if this is all that is left.
func (h *segmentHead) append(b []byte) []byte {
	from, le := len(b), binary.LittleEndian
	b = append(b, segmentMagic...)
	b = le.AppendUint64(b, h.id[0])
	b = le.AppendUint64(b, h.id[1])
	b = le.AppendUint32(b, h.number)
	mode := h.kind.bytes()
	b = append(b, mode[0], mode[1], 0, 0)
	b = h.state.append(b, h.next)
	b = le.AppendUint64(b, h.boot)
	b = le.AppendUint64(b, uint64(h.synced))
	b = le.AppendUint64(b, h.doubt)
	b = append(b, make([]byte, segmentHeader-4-(len(b)-from))...)
	return le.AppendUint32(b, crcOf(b[from:]))
}

type segmentHead struct {
	id     identity
	number uint32
	kind   kind
	state  state
	next   uint64
	// These are zeros in older files.
	boot   uint64 // the machine's start
	synced place  // all before it was made last
	doubt  uint64 // Store.doubt
}

func parseSegmentHeader(b []byte) (h segmentHead, ok bool) {
	le := binary.LittleEndian
	if len(b) < segmentHeader || string(b[:8]) != segmentMagic ||
		le.Uint32(b[segmentHeader-4:]) != crcOf(b[:segmentHeader-4]) {
		return h, false
	}
	h.id = identity{le.Uint64(b[8:]), le.Uint64(b[16:])}
	h.number = le.Uint32(b[24:])
	h.kind = kind{sequential: b[28] == 1, idSize: int(b[29])}
	h.state, h.next = readState(b[32:])
	h.boot, h.synced, h.doubt = le.Uint64(b[56:]), place(le.Uint64(b[64:])), le.Uint64(b[72:])
	return h, h.number > 0 && h.next < slotsMost && h.doubt < slotsMost
}

func newSegment(d disk, dir string, number uint32) *segment {
	return &segment{number: number, handle: handle{disk: d, path: filepath.Join(dir, segmentName(number))}}
}
