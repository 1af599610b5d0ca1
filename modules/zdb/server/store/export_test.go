package store

import "time"

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
