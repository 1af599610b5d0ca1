package format

import (
	"encoding/binary"

	"github.com/pkg/errors"
)

// Checkpoint is the state of the store at a place of the log: the index' files have the
// effects of all records before it.
type Checkpoint struct {
	ID           Identity
	Kind         Kind
	Per          uint64 // slots of a chunk
	At           Place
	State        FileState
	Next         uint64
	Counters     Counters
	SuspectBelow uint64 // entries that are older may have been changed in a damaged part of the log; 0: none
	Segments     []SegmentUsage
	Chunks       []ChunkUsage
}

// SegmentUsage is a segment and its bytes of live records.
type SegmentUsage struct {
	Number uint32
	Live   int64
}

// ChunkUsage is a chunk of the index and its number of live slots.
type ChunkUsage struct {
	Number uint64
	Live   uint32
}

const (
	checkpointMagic = "zdbchck2"
	checkpointOld   = "zdbchck1" // version 1, without SuspectBelow
	// CheckpointFile is the name of the checkpoint's file.
	CheckpointFile   = "checkpoint"
	fixedSize        = 8 + 16 + 4 + 4 + 8 + 24 + 24 + 4 + 4
	segmentUsageSize = 12
	chunkUsageSize   = 12
)

// Encode is the content of the checkpoint's file.
func (m *Checkpoint) Encode() []byte {
	le := binary.LittleEndian
	b := append([]byte(nil), checkpointMagic...)
	b = le.AppendUint64(b, m.ID[0])
	b = le.AppendUint64(b, m.ID[1])
	mode := m.Kind.bytes()
	b = append(b, mode[0], mode[1], 0, 0)
	b = le.AppendUint32(b, uint32(m.Per))
	b = le.AppendUint64(b, uint64(m.At))
	b = m.State.append(b, m.Next)
	b = le.AppendUint64(b, m.Counters.Entries)
	b = le.AppendUint64(b, m.Counters.DataBytes)
	b = le.AppendUint64(b, m.Counters.KeyBytes)
	b = le.AppendUint32(b, uint32(len(m.Segments)))
	b = le.AppendUint32(b, uint32(len(m.Chunks)))
	b = le.AppendUint64(b, m.SuspectBelow)
	for _, s := range m.Segments {
		b = le.AppendUint32(b, s.Number)
		b = le.AppendUint64(b, uint64(s.Live))
	}
	for _, c := range m.Chunks {
		b = le.AppendUint64(b, c.Number)
		b = le.AppendUint32(b, c.Live)
	}
	return le.AppendUint32(b, Checksum(b))
}

// ParseCheckpoint decodes a file, also of version 1.
func ParseCheckpoint(b []byte) (*Checkpoint, error) {
	le := binary.LittleEndian
	if len(b) < fixedSize+4 || string(b[:8]) != checkpointMagic && string(b[:8]) != checkpointOld {
		return nil, errors.New("it isn't one")
	}
	if le.Uint32(b[len(b)-4:]) != Checksum(b[:len(b)-4]) {
		return nil, errors.New("its checksum is wrong")
	}
	m := &Checkpoint{
		ID: Identity{le.Uint64(b[8:]), le.Uint64(b[16:])}, Kind: Kind{Sequential: b[24] == 1, IDSize: int(b[25])},
		Per: uint64(le.Uint32(b[28:])), At: Place(le.Uint64(b[32:])),
	}
	m.State, m.Next = readState(b[40:])
	if m.Next >= MaxSlots || m.At.Segment() == 0 || m.At.Segment() > MaxSegments {
		return nil, errors.New("its numbers are impossible")
	}
	m.Counters = Counters{Entries: le.Uint64(b[64:]), DataBytes: le.Uint64(b[72:]), KeyBytes: le.Uint64(b[80:])}
	segments, chunks := int64(le.Uint32(b[88:])), int64(le.Uint32(b[92:]))
	rest := b[fixedSize : len(b)-4]
	if string(b[:8]) == checkpointMagic {
		if len(rest) < 8 {
			return nil, errors.New("its length is wrong")
		}
		if m.SuspectBelow, rest = le.Uint64(rest), rest[8:]; m.SuspectBelow >= MaxSlots {
			return nil, errors.New("its numbers are impossible")
		}
	}
	if int64(len(rest)) != segments*segmentUsageSize+chunks*chunkUsageSize {
		return nil, errors.New("its length is wrong")
	}
	for range segments {
		m.Segments = append(m.Segments, SegmentUsage{le.Uint32(rest), int64(le.Uint64(rest[4:]))})
		rest = rest[segmentUsageSize:]
	}
	for range chunks {
		m.Chunks = append(m.Chunks, ChunkUsage{le.Uint64(rest), le.Uint32(rest[8:])})
		rest = rest[chunkUsageSize:]
	}
	return m, nil
}

// Counters are of the live entries.
type Counters struct {
	Entries, DataBytes, KeyBytes uint64
}
