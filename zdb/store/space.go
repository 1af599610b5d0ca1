package store

import (
	"github.com/croft-edge/croft/pkg/zdbspace"
	"github.com/croft-edge/croft/zdb/store/format"
	"github.com/croft-edge/croft/zdb/store/index"
	"github.com/croft-edge/croft/zdb/store/tombstones"
	"github.com/croft-edge/croft/zdb/store/wal"
)

// MaxDisk is how much disk a store with a limit of size takes, in bytes.
func MaxDisk(size uint64) uint64 { return zdbspace.Bound(size) }

// ledger counts live entries and the bytes of their records.
type ledger struct {
	format.Counters
	inserts  uint64 // entries created since the store was opened
	live     int64  // bytes of records that are needed
	segments *wal.Segments
}

// account adds to the needed bytes of the segment of a place.
func (l *ledger) account(at format.Place, n int64) {
	if seg := l.segments.At(at); seg != nil {
		seg.Live += n
		l.live += n
	}
}

// put counts a new version that took old's place, if that was found.
func (l *ledger) put(c *change, old *version, key, value int) {
	l.account(c.at, int64(c.size))
	l.DataBytes += uint64(value)
	if old.found {
		l.account(c.old, -int64(c.oldSize))
		l.DataBytes -= uint64(old.head.Length)
		return
	}
	l.Entries++
	l.inserts++
	l.KeyBytes += uint64(key)
}

// remove counts a deletion of old.
func (l *ledger) remove(c *change, old *version, key int) {
	l.Entries--
	l.KeyBytes -= uint64(key)
	l.DataBytes -= uint64(old.head.Length)
	l.account(c.old, -int64(c.oldSize))
}

const (
	// entryCost is an entry's size on disk beside its key and payload, in
	// bytes: a head and a slot.
	entryCost = format.HeadLong + format.SlotSize

	segmentSmallest = 4 << 20
	segmentLargest  = 32 << 20
)

// limits are how much a store may hold and how much disk it may take, in bytes.
type limits struct {
	size    uint64 // live payload; 0: no limit
	segment uint64 // of a segment; 0: chosen by size
}

// segmentSize is the size at which a segment is full.
func (l *limits) segmentSize() int64 {
	switch {
	case l.segment > 0:
		return int64(l.segment)
	case l.size == 0:
		return segmentLargest
	}
	return int64(max(segmentSmallest, min(l.size/32, segmentLargest)))
}

// fixed is the part of MaxDisk that doesn't grow with the limit. With a segment size
// of the caller's own it is in proportion.
func (l *limits) fixed() uint64 {
	if l.segment > 0 {
		return 8 * l.segment
	}
	return zdbspace.Bound(0)
}

// The space between hard and MaxDisk is for the temporary needs of a checkpoint and of a segment
// that is being compacted: an eighth of fixed each, at most.

// soft is the disk use from which the log is compacted, hard that from which writes wait for compaction.
func (l *limits) soft() int64 { return int64(min(l.size+l.size/4+l.fixed()/2, 1<<62)) }

func (l *limits) hard() int64 { return int64(min(l.size+l.size/4+l.fixed()/4*3, 1<<62)) }

// allow says whether a payload of n bytes may take the place of old, if that was found, or come
// beside it: ErrWorm, ErrNoSpace.
func (l *limits) allow(c *format.Counters, old *version, key, n int, o SetOptions) error {
	if old.found && o.Worm {
		return ErrWorm
	}
	if l.size == 0 {
		return nil
	}
	had, more := uint64(0), uint64(n+key+entryCost)
	if old.found {
		had = uint64(old.head.Length)
		more -= uint64(key + entryCost)
	}
	if c.DataBytes+uint64(n) > l.size+had {
		return ErrNoSpace
	}
	all := c.DataBytes + c.KeyBytes + entryCost*c.Entries
	if more > had && all+more-had > l.size+l.size/8+l.fixed()/16 {
		return ErrNoSpace
	}
	return nil
}

// space is how much disk is in use, and how much of it nobody needs.
type space struct {
	limits     *limits
	log        *wal.Log
	index      *index.Index
	tombstones *tombstones.File
	reserve    *reserve
	ledger     *ledger
	leaving    int64 // bytes of files that are being removed
}

// tightLeast is how much garbage is worth compacting when the disk is full, in bytes.
const tightLeast = 4 << 10

// used is the size of all files, with unwritten data.
func (s *space) used() int64 {
	return s.log.Bytes + int64(len(s.log.Buf)) + s.index.Bytes + int64(len(s.index.Tail)) + s.tombstones.Bytes +
		s.reserve.checkpoint + s.leaving + s.aside()
}

// aside is the preallocated space that isn't used.
func (s *space) aside() int64 {
	return s.reserve.file.bytes + s.reserve.spare.bytes + s.tombstones.Unused() + s.index.Ahead + s.log.Unused()
}

func (s *space) garbage() int64 {
	return s.used() - s.ledger.live - int64(s.ledger.Entries)*format.SlotSize
}

// pressed says whether space is needed.
func (s *space) pressed() bool {
	return s.reserve.gate.full != nil && s.garbage()-s.aside() > tightLeast || s.crowded()
}

// crowded says whether the store takes much more than it needs, or nearly all that it may.
func (s *space) crowded() bool {
	if s.limits.size > 0 {
		return s.used() > s.limits.soft()
	}
	g := s.garbage() - s.aside()
	return g > 2*s.log.SegmentSize && g > s.used()/2
}
