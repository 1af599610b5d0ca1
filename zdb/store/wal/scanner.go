package wal

import (
	"encoding/binary"
	"io"

	"github.com/croft-edge/croft/zdb/store/format"
)

// Scanner reads the records of a segment one after the other.
type Scanner struct {
	F       io.ReaderAt
	Number  uint32
	ID      format.Identity
	Size    int64 // of the file
	Off     int64 // of the next record
	buf     []byte
	bufAt   int64
	bufSize int
}

// scanRead is how much is read at once; more for larger records.
const scanRead = 256 << 10

// Record is one record. Key and Payload are valid until the scanner's next call.
type Record struct {
	format.Head
	Key     []byte
	Payload []byte // nil when it wasn't asked for
	raw     []byte // the whole record, as payload
	At      format.Place
}

// Intact says whether the payload, which was read, is as it was written.
func (r *Record) Intact() bool {
	return r.Kind == format.KindLost || format.PayloadCRC(r.Payload) == r.CRC
}

// Bytes answers up to n bytes at off.
func (s *Scanner) Bytes(off int64, n int) ([]byte, error) {
	n = int(min(int64(n), s.Size-off))
	if n <= 0 {
		return nil, nil
	}
	if off >= s.bufAt && off+int64(n) <= s.bufAt+int64(len(s.buf)) {
		return s.buf[off-s.bufAt:][:n], nil
	}
	want := max(n, int(min(int64(max(s.bufSize, scanRead)), s.Size-off)))
	if cap(s.buf) < want {
		s.buf = make([]byte, want)
	}
	s.buf, s.bufAt = s.buf[:want], off
	m, err := s.F.ReadAt(s.buf, off)
	s.buf = s.buf[:m]
	if err == io.EOF {
		err = nil
	}
	return s.buf[:min(n, m)], err
}

// Next reads the record at s.off, with its payload if that is wanted; ok is false at the end
// or where there is no good record. s.Off stays there.
func (s *Scanner) Next(payload bool) (r Record, ok bool, err error) {
	r.At = format.PlaceOf(s.Number, uint32(s.Off))
	b, err := s.Bytes(s.Off, format.HeadMost)
	if err != nil {
		return r, false, err
	}
	var needs int
	r.Head, r.Key, needs, ok = format.ParseHead(b, s.ID.Mask(uint64(r.At)))
	if !ok || s.Off+int64(r.Size()) > s.Size {
		return r, false, nil
	}
	if payload {
		if r.raw, err = s.Bytes(s.Off, int(r.Size())); err != nil || len(r.raw) < int(r.Size()) {
			return r, false, err
		}
		r.Key, r.Payload = r.raw[r.HeadLen():needs], r.raw[needs:]
	}
	s.Off += int64(r.Size())
	return r, true, nil
}

// Resync goes to the next place from s.Off on where a good record begins; false
// if there is none.
func (s *Scanner) Resync() (bool, error) {
	for ; s.Off+format.HeadShort <= s.Size; s.Off++ {
		b, err := s.Bytes(s.Off, format.HeadMost)
		if err != nil {
			return false, err
		}
		if len(b) < format.HeadShort {
			return false, nil
		}
		if binary.LittleEndian.Uint16(b[4:]) != format.RecordMagic {
			continue
		}
		h, _, _, ok := format.ParseHead(b, s.ID.Mask(uint64(format.PlaceOf(s.Number, uint32(s.Off)))))
		if ok && s.Off+int64(h.Size()) <= s.Size {
			return true, nil
		}
	}
	return false, nil
}
