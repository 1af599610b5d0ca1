package store

import (
	"encoding/binary"
	"strings"
	"time"

	"github.com/croft-edge/croft/zdb/store/disk"
	"github.com/croft-edge/croft/zdb/store/format"
	"github.com/croft-edge/croft/zdb/store/index"
	"github.com/croft-edge/croft/zdb/store/tombstones"
	"github.com/croft-edge/croft/zdb/store/wal"
)

// Disk and File are what the store needs of files, for tests that break them.
type (
	Disk = disk.Disk
	File = disk.File
)

// RealDisk is the machine's.
func RealDisk() Disk { return disk.Real{} }

// OnDisk makes a store use another disk.
func (c Config) OnDisk(d Disk) Config {
	c.disk = d
	return c
}

// WithChunks makes the index' files hold so many slots.
func (c Config) WithChunks(slots uint64) Config {
	c.slots = slots
	return c
}

// AtTime gives a store another clock.
func (c Config) AtTime(now func() time.Time) Config {
	c.now = now
	return c
}

// PayloadCRC is 0-db's checksum.
func PayloadCRC(p []byte) uint32 { return format.PayloadCRC(p) }

// WithIdentity makes a new store's random numbers known.
func (c Config) WithIdentity(b byte) Config {
	c.fresh = func(p []byte) {
		for i := range p {
			p[i] = b + byte(i)
		}
	}
	return c
}

// HardLimit is how many bytes a store with a limit takes before writing waits.
func HardLimit(limit uint64) int64 {
	l := limits{size: limit}
	return l.hard()
}

// SegmentFor is the size of a segment of a store with a limit.
func SegmentFor(limit uint64) uint64 {
	l := limits{size: limit}
	return uint64(l.segmentSize())
}

// ScanLog reads a segment as recovery does, and answers how many records it has.
func ScanLog(f File, size int64, number uint32) int {
	s := &wal.Scanner{F: f, Number: number, Size: size, ID: sealed()}
	for n := 0; ; n++ {
		_, ok, err := s.Next(n%2 == 0)
		if err != nil {
			return n
		}
		if ok {
			continue
		}
		if found, err := s.Resync(); err != nil || !found {
			return n
		}
	}
}

// sealed is the identity 7 as WithIdentity makes it.
func sealed() format.Identity {
	le := binary.LittleEndian
	return format.Identity{le.Uint64([]byte{7, 8, 9, 10, 11, 12, 13, 14}), le.Uint64([]byte{15, 16, 17, 18, 19, 20, 21, 22})}
}

// ReadSlots reads an index' file as recovery does.
func ReadSlots(b []byte, sequential bool) {
	s := &index.Shape{ChunkSlots: 64, ID: sealed(), DeadBits: !sequential}
	c := s.NewChunk(0)
	if !s.ReadHeader(c, b) {
		return
	}
	for at := s.SlotsFrom(); at+format.SlotSize <= int64(len(b)); at += format.SlotSize {
		format.ParseSlot(b[at:], s.ID, uint64(at))
	}
	if !sequential && int64(len(b)) >= s.SlotsFrom() {
		s.ReadUnit(c, 0, b[index.HeaderSize:])
	}
}

// ReadCheckpoint reads a checkpoint; what it answers must be the same when it is written again.
func ReadCheckpoint(b []byte) (again []byte, ok bool) {
	m, err := format.ParseCheckpoint(b)
	if err != nil {
		return nil, false
	}
	return m.Encode(), true
}

// ReadTombstones reads a file of tombstones and answers how many places it has.
func ReadTombstones(f File, size int64) int {
	n := 0
	_, _, _ = tombstones.Read(f, size, func(p []format.Place) { n += len(p) })
	return n
}

// Seal corrects the checksums of damaged parts of a file, so that a fuzzer gets further.
// The file is one of a store with the identity 7 as WithIdentity makes it.
func Seal(name string, b []byte) {
	id := sealed()
	le := binary.LittleEndian
	switch {
	case name == format.CheckpointFile && len(b) > 4:
		le.PutUint32(b[len(b)-4:], format.Checksum(b[:len(b)-4]))
	case strings.HasPrefix(name, "log-") && len(b) >= format.SegmentHeaderSize:
		le.PutUint32(b[format.SegmentHeaderSize-4:], format.Checksum(b[:format.SegmentHeaderSize-4]))
		n, _ := numbered(name, "log-", 31)
		sealRecords(b, id, uint32(n))
	case strings.HasPrefix(name, "index-") && len(b) >= index.HeaderSize:
		le.PutUint32(b[index.HeaderSize-4:], format.Checksum(b[:index.HeaderSize-4]))
	}
}

func sealRecords(b []byte, id format.Identity, number uint32) {
	le := binary.LittleEndian
	for off := format.SegmentHeaderSize; off+format.HeadShort <= len(b); {
		h := format.Head{KeyLen: b[off+7], Replaces: b[off+6]&format.FlagLong != 0, Length: le.Uint32(b[off+8:])}
		end := off + h.HeadLen() + int(h.KeyLen)
		if h.Length > format.MaxValue || end > len(b) {
			return
		}
		le.PutUint16(b[off+4:], format.RecordMagic)
		le.PutUint32(b[off:], format.Checksum(b[off+4:end])^id.Mask(uint64(format.PlaceOf(number, uint32(off)))))
		off += int(h.Size())
	}
}
