package store

import (
	"bytes"

	"github.com/pkg/errors"
	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/zdb/store/format"
	"github.com/croft-edge/croft/zdb/store/wal"
)

// version is one version of an entry, as far as it was read.
type version struct {
	found bool
	slot  uint64
	index Position
	at    format.Place
	size  uint32      // of the record
	head  format.Head // from the slot, when only that was read
	key   []byte
	raw   []byte      // the record, or the beginning of it
	sl    format.Slot // in sequential mode
}

// versionOf is the version that a slot describes.
func versionOf(number uint64, sl *format.Slot) version {
	return version{
		found: true, slot: number, index: sl.Index, at: sl.At, size: sl.Size(), sl: *sl,
		head: format.Head{KeyLen: sl.KeyLen, Length: sl.Length, CRC: sl.CRC, Time: sl.Time},
	}
}

func (v *version) entry(dead bool) Entry {
	return Entry{
		Key: v.key, Length: v.head.Length, CRC: v.head.CRC, Time: v.head.Time, Deleted: dead,
		Position: v.index, slot: v.slot,
	}
}

// damage counts and logs damaged records, and knows which entries are suspect.
//
// A part of the log that can't be read may have changed or deleted any older entry, or created one.
// Versions older than the first slot that was used after it, and absent keys, are answered
// ErrDamaged, since the answer may be outdated.
type damage struct {
	segments     *wal.Segments
	log          zerolog.Logger
	count        uint64 // since the store was opened
	suspectBelow uint64 // versions that used slots below are suspect; 0: none
}

// record notes that a record is damaged. It answers ErrDamaged.
func (d *damage) record(at format.Place, what string) error {
	d.count++
	seg := d.segments.At(at)
	if seg == nil {
		d.log.Error().Uint32("segment", at.Segment()).Uint32("offset", at.Offset()).
			Msg("a segment of the log is gone that holds live entries")
		return ErrDamaged
	}
	if !seg.Damaged {
		seg.Damaged = true
		d.log.Error().Str("file", seg.Path).Uint32("offset", at.Offset()).Str("what", what).
			Msg("a record of the log is damaged; the segment is kept as it is")
	}
	return ErrDamaged
}

// suspect counts an answer for an entry that may have been changed in a damaged part of the log.
func (d *damage) suspect() error {
	d.count++
	return ErrDamaged
}

// versions reads the records of versions.
type versions struct {
	log    *wal.Log
	damage *damage
}

// read reads the first n bytes of a version's record.
func (r *versions) read(v *version, n int) error {
	b, err := r.log.Read(v.at, n)
	if err != nil {
		return err
	}
	var ok bool
	v.head, v.key, _, ok = format.ParseHead(b, r.log.Mask(v.at))
	if !ok || v.head.Kind != format.KindPut || v.size != 0 && v.head.Size() != v.size {
		return r.damage.record(v.at, "its head")
	}
	v.raw, v.size = b, v.head.Size()
	v.slot, v.index = v.head.Slot, v.head.Index
	return nil
}

// payload answers a version's payload, checked, valid until the next read.
func (r *versions) payload(v *version) ([]byte, error) {
	if len(v.raw) < int(v.size) || len(v.raw) == 0 {
		length, crc := v.head.Length, v.head.CRC
		if err := r.read(v, int(v.size)); err != nil {
			return nil, err
		}
		if v.head.Length != length || v.head.CRC != crc || len(v.raw) < int(v.size) {
			return nil, r.damage.record(v.at, "its length")
		}
	}
	p := v.raw[int(v.size)-int(v.head.Length) : v.size]
	if format.PayloadCRC(p) != v.head.CRC {
		return nil, r.damage.record(v.at, "its payload")
	}
	return p, nil
}

// same says whether a version has this payload. A damaged one hasn't.
func (r *versions) same(old *version, value []byte) (bool, error) {
	if !old.found || old.head.Length != uint32(len(value)) || old.head.CRC != format.PayloadCRC(value) {
		return false, nil
	}
	was, err := r.payload(old)
	if err != nil {
		return false, errorUnless(err, ErrDamaged)
	}
	return bytes.Equal(was, value), nil
}

// head reads the head of the record at a place; false if it isn't a good one.
func (r *versions) head(at format.Place) (format.Head, bool, error) {
	b, err := r.log.Read(at, format.HeadMost)
	if err != nil {
		return format.Head{}, false, err
	}
	h, _, _, ok := format.ParseHead(b, r.log.Mask(at))
	return h, ok, nil
}

func errorUnless(err, forgiven error) error {
	if errors.Is(err, forgiven) {
		return nil
	}
	return err
}
