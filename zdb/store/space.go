package store

import "github.com/croft-edge/croft/pkg/zdbspace"

// MaxDisk is how much disk a store with a limit of size takes, in bytes.
func MaxDisk(size uint64) uint64 { return zdbspace.Bound(size) }

// entryCost is what an entry takes on disk beside its key and payload, in
// bytes: a head and a slot.
const entryCost = headLong + slotSize

const (
	segmentSmallest = 4 << 20
	segmentLargest  = 32 << 20
)

// SetMaxSize sets how much live payload there may be, in bytes; 0 is no limit.
// All files of the store stay below MaxDisk of it: what was overwritten and
// deleted goes when its space is needed, and Set answers ErrNoSpace also
// when there are so many small entries that they alone would take an eighth more.
func (s *Store) SetMaxSize(size uint64) {
	s.cfg.MaxSize = size
	s.stuck = 0
	s.wal.most = s.segmentSize()
}

func (s *Store) segmentSize() int64 {
	switch {
	case s.cfg.SegmentSize > 0:
		return int64(s.cfg.SegmentSize)
	case s.cfg.MaxSize == 0:
		return segmentLargest
	}
	return int64(max(segmentSmallest, min(s.cfg.MaxSize/32, segmentLargest)))
}

// fixed is the part of MaxDisk that doesn't grow with the limit. With a segment size
// of the caller's own it is in proportion.
func (s *Store) fixed() uint64 {
	if s.cfg.SegmentSize > 0 {
		return 8 * s.cfg.SegmentSize
	}
	return zdbspace.Bound(0)
}

// What a checkpoint and a segment that is being cleaned take for a while has its place between
// hard and MaxDisk: an eighth of fixed each, at most.

// soft is how much disk may be in use before it is cleaned, hard how much before writing waits for that.
func (s *Store) soft() int64 { return int64(min(s.cfg.MaxSize+s.cfg.MaxSize/4+s.fixed()/2, 1<<62)) }

func (s *Store) hard() int64 {
	return int64(min(s.cfg.MaxSize+s.cfg.MaxSize/4+s.fixed()/4*3, 1<<62))
}

// used is the size of all files, with what is to be written.
func (s *Store) used() int64 {
	return s.wal.bytes + int64(len(s.wal.buf)) + s.index.bytes + int64(len(s.index.tail)) + s.kills + s.checkpointBytes + s.leaving + s.taken()
}

// garbage is how much of it nobody needs.
func (s *Store) garbage() int64 {
	return s.used() - s.live - int64(s.counters.entries)*slotSize
}

// pressed says whether space is needed.
func (s *Store) pressed() bool {
	return s.tight != nil && s.garbage()-s.taken() > tightLeast || s.crowded()
}

// tightLeast is how much garbage is worth cleaning when the disk is full, in bytes.
const tightLeast = 4 << 10

// crowded says whether the store takes much more than it needs, or nearly all that it may.
func (s *Store) crowded() bool {
	if s.cfg.MaxSize > 0 {
		return s.used() > s.soft()
	}
	g := s.garbage() - s.taken()
	return g > 2*s.wal.most && g > s.used()/2
}

// allowed says whether a payload of n bytes may take the place of old, if that was found, or come beside it.
func (s *Store) allowed(old *version, key, n int) error {
	limit, c := s.cfg.MaxSize, &s.counters
	if limit == 0 {
		return nil
	}
	had, more := uint64(0), uint64(n+key+entryCost)
	if old.found {
		had = uint64(old.head.length)
		more -= uint64(key + entryCost)
	}
	if c.dataBytes+uint64(n) > limit+had {
		return ErrNoSpace
	}
	all := c.dataBytes + c.keyBytes + entryCost*c.entries
	if more > had && all+more-had > limit+limit/8+s.fixed()/16 {
		return ErrNoSpace
	}
	return nil
}

// relieve makes room for n bytes when the disk is full to the limit; that
// takes a while.
func (s *Store) relieve(n int64) error {
	if s.cfg.MaxSize == 0 || s.used()+n <= s.hard() || s.used() < s.stuck+s.wal.most/4 {
		return nil
	}
	if err := s.commit(nil); err != nil {
		return err
	}
	s.await()
	for s.used()+n > s.hard() && s.broken == nil {
		before := s.used()
		for s.clean(1 << 30) {
		}
		if err := s.commit(nil); err != nil {
			return err
		}
		s.await()
		if err := s.checkpointNow(); err != nil {
			return err
		}
		s.await()
		if s.used() >= before {
			s.stuck = s.used()
			return nil
		}
	}
	return s.broken
}
