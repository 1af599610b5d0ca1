package wal

import (
	"fmt"
	"path/filepath"
	"slices"

	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/zdb/store/disk"
	"github.com/croft-edge/croft/zdb/store/format"
)

// Segment is a file of the log and its usage.
type Segment struct {
	disk.Handle
	Number uint32
	Size   int64 // of the file, as far as it holds good records
	Live   int64 // bytes of records that are needed
	Dirty  bool  // written since the last sync began

	Boot    uint64 // the machine's start in which it was begun, 0 if that isn't known
	Damaged bool   // it is kept as it is: never compacted
}

func segmentName(number uint32) string { return fmt.Sprintf("log-%010d", number) }

// Segments is all segments of a log.
type Segments struct {
	Order   []*Segment // by number
	Last    uint32     // the highest number there ever was
	Bytes   int64      // of all files
	Created bool       // a file was created since the last sync of the folder

	disk     disk.Disk
	pool     *disk.Pool
	dir      string
	byNumber map[uint32]*Segment
	log      zerolog.Logger
}

// NewSegments makes an empty set of segments whose files are in dir.
func NewSegments(d disk.Disk, pool *disk.Pool, dir string, log zerolog.Logger) *Segments {
	return &Segments{disk: d, pool: pool, dir: dir, byNumber: map[uint32]*Segment{}, log: log}
}

// New is a segment in memory; its file is made by the first write.
func (s *Segments) New(number uint32) *Segment {
	return &Segment{Number: number, Handle: disk.Handle{Disk: s.disk, Path: filepath.Join(s.dir, segmentName(number))}}
}

// Get answers the segment with a number, nil if there is none.
func (s *Segments) Get(number uint32) *Segment { return s.byNumber[number] }

// At answers the segment of a place, nil if it is gone.
func (s *Segments) At(p format.Place) *Segment { return s.byNumber[p.Segment()] }

// Add adds a segment.
func (s *Segments) Add(seg *Segment) {
	i, _ := slices.BinarySearchFunc(s.Order, seg.Number, func(a *Segment, n uint32) int { return int(int64(a.Number) - int64(n)) })
	s.Order = slices.Insert(s.Order, i, seg)
	s.byNumber[seg.Number] = seg
	s.Last = max(s.Last, seg.Number)
	s.Bytes += seg.Size
}

// Remove forgets a segment; the caller removes its file.
func (s *Segments) Remove(seg *Segment) {
	s.pool.Drop(&seg.Handle)
	delete(s.byNumber, seg.Number)
	s.Order = slices.DeleteFunc(s.Order, func(a *Segment) bool { return a == seg })
	s.Bytes -= seg.Size
}

// File answers the open file of a segment.
func (s *Segments) File(seg *Segment, create bool) (disk.File, error) {
	return s.pool.Get(&seg.Handle, create)
}

// Header reads a segment's header; false if it isn't a good one. A single wrong bit is repaired.
func (s *Segments) Header(seg *Segment) (format.SegmentHeader, bool, error) {
	if seg.Size < format.SegmentHeaderSize {
		return format.SegmentHeader{}, false, nil
	}
	f, err := s.File(seg, false)
	if err != nil {
		return format.SegmentHeader{}, false, err
	}
	var b [format.SegmentHeaderSize]byte
	if err := disk.ReadZeros(f, b[:], 0); err != nil {
		return format.SegmentHeader{}, false, err
	}
	h, ok := format.ParseSegmentHeader(b[:])
	if !ok {
		if h, ok = format.RepairSegmentHeader(b[:]); ok {
			s.log.Error().Str("file", seg.Path).Msg("a bit in the header of a segment is wrong")
		}
	}
	return h, ok && h.Number == seg.Number, nil
}

// Sync waits until everything that was written is on disk.
func (s *Segments) Sync() error {
	for _, seg := range s.Order {
		if !seg.Dirty {
			continue
		}
		f, err := s.File(seg, false)
		if err == nil {
			err = f.Sync()
		}
		if err != nil {
			return err
		}
		seg.Dirty = false
	}
	if !s.Created {
		return nil
	}
	s.Created = false
	return s.disk.SyncDir(s.dir)
}

// SyncLater returns a function with which another goroutine does the work of a Sync now.
func (s *Segments) SyncLater() func() error {
	var paths []string
	for _, seg := range s.Order {
		if seg.Dirty {
			paths = append(paths, seg.Path)
			seg.Dirty = false
		}
	}
	created, files, dir := s.Created, s.disk, s.dir
	s.Created = false
	return func() error {
		for _, p := range paths {
			if err := disk.SyncFile(files, p); err != nil {
				return err
			}
		}
		if created {
			return files.SyncDir(dir)
		}
		return nil
	}
}

// Close closes the files.
func (s *Segments) Close() {
	for _, seg := range s.Order {
		s.pool.Drop(&seg.Handle)
	}
}
