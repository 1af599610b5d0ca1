package store

import (
	"encoding/binary"
	"path/filepath"

	"github.com/pkg/errors"
)

// A checkpoint is what was so at a place of the log: the index' files hold
// what all records before it did.
type image struct {
	id       identity
	kind     kind
	per      uint64
	at       place
	state    state
	next     uint64
	counters counters
	doubt    uint64 // Store.doubt
	segments []segmentImage
	chunks   []chunkImage
}

type segmentImage struct {
	number uint32
	live   int64
}

type chunkImage struct {
	number uint64
	live   uint32
}

const (
	checkpointMagic = "zdbchck2"
	checkpointOld   = "zdbchck1" // has no doubt
	checkpointFile  = "checkpoint"
	imageFixed      = 8 + 16 + 4 + 4 + 8 + 24 + 24 + 4 + 4
	segmentImageLen = 12
	chunkImageLen   = 12
)

func (s *Store) checkpointPath() string { return filepath.Join(s.cfg.IndexDir, checkpointFile) }

func (m *image) bytes() []byte {
	le := binary.LittleEndian
	b := append([]byte(nil), checkpointMagic...)
	b = le.AppendUint64(b, m.id[0])
	b = le.AppendUint64(b, m.id[1])
	mode := m.kind.bytes()
	b = append(b, mode[0], mode[1], 0, 0)
	b = le.AppendUint32(b, uint32(m.per))
	b = le.AppendUint64(b, uint64(m.at))
	b = m.state.append(b, m.next)
	b = le.AppendUint64(b, m.counters.entries)
	b = le.AppendUint64(b, m.counters.dataBytes)
	b = le.AppendUint64(b, m.counters.keyBytes)
	b = le.AppendUint32(b, uint32(len(m.segments)))
	b = le.AppendUint32(b, uint32(len(m.chunks)))
	b = le.AppendUint64(b, m.doubt)
	for _, s := range m.segments {
		b = le.AppendUint32(b, s.number)
		b = le.AppendUint64(b, uint64(s.live))
	}
	for _, c := range m.chunks {
		b = le.AppendUint64(b, c.number)
		b = le.AppendUint32(b, c.live)
	}
	return le.AppendUint32(b, crcOf(b))
}

func parseImage(b []byte) (*image, error) {
	le := binary.LittleEndian
	if len(b) < imageFixed+4 || string(b[:8]) != checkpointMagic && string(b[:8]) != checkpointOld {
		return nil, errors.New("it isn't one")
	}
	if le.Uint32(b[len(b)-4:]) != crcOf(b[:len(b)-4]) {
		return nil, errors.New("its checksum is wrong")
	}
	m := &image{
		id: identity{le.Uint64(b[8:]), le.Uint64(b[16:])}, kind: kind{sequential: b[24] == 1, idSize: int(b[25])},
		per: uint64(le.Uint32(b[28:])), at: place(le.Uint64(b[32:])),
	}
	m.state, m.next = readState(b[40:])
	if m.next >= slotsMost || m.at.segment() == 0 || m.at.segment() > segmentsMost {
		return nil, errors.New("its numbers are impossible")
	}
	m.counters = counters{entries: le.Uint64(b[64:]), dataBytes: le.Uint64(b[72:]), keyBytes: le.Uint64(b[80:])}
	segments, chunks := int64(le.Uint32(b[88:])), int64(le.Uint32(b[92:]))
	rest := b[imageFixed : len(b)-4]
	if string(b[:8]) == checkpointMagic {
		if len(rest) < 8 {
			return nil, errors.New("its length is wrong")
		}
		if m.doubt, rest = le.Uint64(rest), rest[8:]; m.doubt >= slotsMost {
			return nil, errors.New("its numbers are impossible")
		}
	}
	if int64(len(rest)) != segments*segmentImageLen+chunks*chunkImageLen {
		return nil, errors.New("its length is wrong")
	}
	for range segments {
		m.segments = append(m.segments, segmentImage{le.Uint32(rest), int64(le.Uint64(rest[4:]))})
		rest = rest[segmentImageLen:]
	}
	for range chunks {
		m.chunks = append(m.chunks, chunkImage{le.Uint64(rest), le.Uint32(rest[8:])})
		rest = rest[chunkImageLen:]
	}
	return m, nil
}
