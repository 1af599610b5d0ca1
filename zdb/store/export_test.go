package store

import (
	"encoding/binary"
	"strings"
	"time"
)

// Disk and File are what the store needs of files, for tests that break them.
type (
	Disk = disk
	File = file
)

// RealDisk is the machine's.
func RealDisk() Disk { return realDisk{} }

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
func PayloadCRC(p []byte) uint32 { return payloadCRC(p) }

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
	s := &Store{cfg: Config{MaxSize: limit}}
	return s.hard()
}

// SegmentFor is the size of a segment of a store with a limit.
func SegmentFor(limit uint64) uint64 {
	s := &Store{cfg: Config{MaxSize: limit}}
	return uint64(s.segmentSize())
}

// ScanLog reads a segment as it is done at the start, and answers how many records it has.
func ScanLog(f File, size int64, number uint32) int {
	s := &scanner{f: f, number: number, size: size, id: sealed()}
	for n := 0; ; n++ {
		_, ok, err := s.next(n%2 == 0)
		if err != nil {
			return n
		}
		if ok {
			continue
		}
		if found, err := s.find(); err != nil || !found {
			return n
		}
	}
}

// sealed is the identity 7 as WithIdentity makes it.
func sealed() identity {
	le := binary.LittleEndian
	return identity{le.Uint64([]byte{7, 8, 9, 10, 11, 12, 13, 14}), le.Uint64([]byte{15, 16, 17, 18, 19, 20, 21, 22})}
}

// ReadSlots reads an index' file as it is done at the start.
func ReadSlots(b []byte, sequential bool) {
	s := &shape{per: 64, id: sealed(), sequential: sequential}
	c := s.newChunk(0)
	if !s.readHeader(c, b) {
		return
	}
	for at := s.slotsFrom(); at+slotSize <= int64(len(b)); at += slotSize {
		parseSlot(b[at:], s.id, uint64(at))
	}
	if !sequential && int64(len(b)) >= s.slotsFrom() {
		s.readUnit(c, 0, b[chunkHeader:])
	}
}

// ReadCheckpoint reads a checkpoint; what it answers must be the same when it is written again.
func ReadCheckpoint(b []byte) (again []byte, ok bool) {
	m, err := parseImage(b)
	if err != nil {
		return nil, false
	}
	return m.bytes(), true
}

// ReadKills reads a file of kills and answers how many places it has.
func ReadKills(f File, size int64) int {
	n := 0
	_, _, _ = readKills(f, size, func(p []place) { n += len(p) })
	return n
}

// Seal makes the checksums right of what is damaged in a file, so that a fuzzer gets further.
// The file is one of a store with the identity 7 as WithIdentity makes it.
func Seal(name string, b []byte) {
	id := sealed()
	le := binary.LittleEndian
	switch {
	case name == checkpointFile && len(b) > 4:
		le.PutUint32(b[len(b)-4:], crcOf(b[:len(b)-4]))
	case strings.HasPrefix(name, "log-") && len(b) >= segmentHeader:
		le.PutUint32(b[segmentHeader-4:], crcOf(b[:segmentHeader-4]))
		n, _ := numbered(name, "log-", 31)
		sealRecords(b, id, uint32(n))
	case strings.HasPrefix(name, "index-") && len(b) >= chunkHeader:
		le.PutUint32(b[chunkHeader-4:], crcOf(b[:chunkHeader-4]))
	}
}

func sealRecords(b []byte, id identity, number uint32) {
	le := binary.LittleEndian
	for off := segmentHeader; off+headShort <= len(b); {
		h := head{keyLen: b[off+7], long: b[off+6]&flagLong != 0, length: le.Uint32(b[off+8:])}
		end := off + h.headLen() + int(h.keyLen)
		if h.length > maxValue || end > len(b) {
			return
		}
		le.PutUint16(b[off+4:], recordMagic)
		le.PutUint32(b[off:], crcOf(b[off+4:end])^id.mask(uint64(placeOf(number, uint32(off)))))
		off += int(h.size())
	}
}

// Keys is the keys' table by itself.
type Keys struct{ k keys }

// NewKeys makes an empty table.
func NewKeys() *Keys { return &Keys{} }

// Add adds a key.
func (k *Keys) Add(hash, at uint64) {
	k.k.room(hash)
	k.k.add(hash, place(at), 1)
}

// Remove removes one.
func (k *Keys) Remove(hash, at uint64) { k.k.remove(hash, place(at)) }

// Has says whether it is there.
func (k *Keys) Has(hash, at uint64) bool { return k.k.locate(hash, place(at)) != nil }

// Count is how many there are.
func (k *Keys) Count() uint64 { return k.k.count }

// Close gives back the memory.
func (k *Keys) Close() { k.k.close() }
