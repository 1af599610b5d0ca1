package store

import (
	"encoding/binary"
	"io"
)

// scanner reads the records of a segment one after the other.
type scanner struct {
	f       io.ReaderAt
	number  uint32
	id      identity
	size    int64 // of the file
	off     int64 // of the next record
	buf     []byte
	bufAt   int64
	bufSize int
}

// scanRead is how much is read at once; more for larger records.
const scanRead = 256 << 10

// scanned is one record. key and payload are valid until the scanner's next call.
type scanned struct {
	head
	key     []byte
	payload []byte // nil when it wasn't asked for
	raw     []byte // the whole record, as payload
	at      place
}

// bytes answers up to n bytes at off.
func (s *scanner) bytes(off int64, n int) ([]byte, error) {
	n = int(min(int64(n), s.size-off))
	if n <= 0 {
		return nil, nil
	}
	if off >= s.bufAt && off+int64(n) <= s.bufAt+int64(len(s.buf)) {
		return s.buf[off-s.bufAt:][:n], nil
	}
	want := max(n, int(min(int64(max(s.bufSize, scanRead)), s.size-off)))
	if cap(s.buf) < want {
		s.buf = make([]byte, want)
	}
	s.buf, s.bufAt = s.buf[:want], off
	m, err := s.f.ReadAt(s.buf, off)
	s.buf = s.buf[:m]
	if err == io.EOF {
		err = nil
	}
	return s.buf[:min(n, m)], err
}

// next reads the record at s.off, with its payload if that is wanted; ok is false at the end
// or where there is no good record. s.off is then still there.
func (s *scanner) next(payload bool) (r scanned, ok bool, err error) {
	r.at = placeOf(s.number, uint32(s.off))
	b, err := s.bytes(s.off, headMost)
	if err != nil {
		return r, false, err
	}
	var needs int
	r.head, r.key, needs, ok = parseHead(b, s.id.mask(uint64(r.at)))
	if !ok || s.off+int64(r.size()) > s.size {
		return r, false, nil
	}
	if payload {
		if r.raw, err = s.bytes(s.off, int(r.size())); err != nil || len(r.raw) < int(r.size()) {
			return r, false, err
		}
		r.key, r.payload = r.raw[r.headLen():needs], r.raw[needs:]
	}
	s.off += int64(r.size())
	return r, true, nil
}

// find goes to the next place from s.off on where a good record begins; false
// if there is none.
func (s *scanner) find() (bool, error) {
	for ; s.off+headShort <= s.size; s.off++ {
		b, err := s.bytes(s.off, headMost)
		if err != nil {
			return false, err
		}
		if len(b) < headShort {
			return false, nil
		}
		if binary.LittleEndian.Uint16(b[4:]) != recordMagic {
			continue
		}
		h, _, _, ok := parseHead(b, s.id.mask(uint64(placeOf(s.number, uint32(s.off)))))
		if ok && s.off+int64(h.size()) <= s.size {
			return true, nil
		}
	}
	return false, nil
}
