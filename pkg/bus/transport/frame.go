package transport

import (
	"encoding/binary"

	"github.com/pkg/errors"
)

// The bounds of a frame, checked before it is decoded.
const (
	// MaxFrame is the size of a request, reply or event in bytes.
	MaxFrame = 4 << 20
	// MaxDepth is how deep arrays and maps may nest.
	MaxDepth = 32
	// MaxValues is how many values one frame may hold, nested ones included.
	MaxValues = 1 << 18
)

// CheckFrame reports whether frame is exactly one MessagePack value within the
// bounds of this package. It allocates nothing and recurses at most MaxDepth
// deep, so that a hostile frame costs no more than reading it; the decoder
// behind it has no bounds of its own.
func CheckFrame(frame []byte) error {
	if len(frame) > MaxFrame {
		return errors.Errorf("cannot take a frame of %d bytes: at most %d are allowed", len(frame), MaxFrame)
	}
	s := scanner{rest: frame}
	if err := s.value(0); err != nil {
		return err
	}
	if len(s.rest) > 0 {
		return errors.Errorf("cannot take a frame with %d bytes after its value", len(s.rest))
	}
	return nil
}

type scanner struct {
	rest   []byte
	values int
}

// value takes one value with its content off the front.
func (s *scanner) value(depth int) error {
	if s.values++; s.values > MaxValues {
		return errors.Errorf("cannot take a frame of more than %d values", MaxValues)
	}
	head, err := s.take(1)
	if err != nil {
		return err
	}
	switch c := head[0]; {
	case c <= 0x7f || c >= 0xe0: // fixint
		return nil
	case c <= 0x8f: // fixmap
		return s.items(2*uint64(c&0x0f), depth)
	case c <= 0x9f: // fixarray
		return s.items(uint64(c&0x0f), depth)
	case c <= 0xbf: // fixstr
		return s.skip(uint64(c & 0x1f))
	default:
		return s.wide(c, depth)
	}
}

// wide takes the bytes after a code of 0xc0 to 0xdf.
func (s *scanner) wide(c byte, depth int) error {
	switch c {
	case 0xc0, 0xc2, 0xc3: // nil, false, true
		return nil
	case 0xc4, 0xc5, 0xc6: // bin
		return s.sized(1<<(c-0xc4), 0)
	case 0xc7, 0xc8, 0xc9: // ext: its type is one byte more
		return s.sized(1<<(c-0xc7), 1)
	case 0xca: // float32
		return s.skip(4)
	case 0xcb: // float64
		return s.skip(8)
	case 0xcc, 0xcd, 0xce, 0xcf: // uint
		return s.skip(1 << (c - 0xcc))
	case 0xd0, 0xd1, 0xd2, 0xd3: // int
		return s.skip(1 << (c - 0xd0))
	case 0xd4, 0xd5, 0xd6, 0xd7, 0xd8: // fixext
		return s.skip(1<<(c-0xd4) + 1)
	case 0xd9, 0xda, 0xdb: // str
		return s.sized(1<<(c-0xd9), 0)
	case 0xdc, 0xdd: // array
		n, err := s.length(2 << (c - 0xdc))
		if err != nil {
			return err
		}
		return s.items(n, depth)
	case 0xde, 0xdf: // map
		n, err := s.length(2 << (c - 0xde))
		if err != nil {
			return err
		}
		return s.items(2*n, depth)
	}
	return errors.Errorf("cannot take a frame with the code 0x%02x", c)
}

func (s *scanner) items(n uint64, depth int) error {
	if depth >= MaxDepth {
		return errors.Errorf("cannot take a frame that nests deeper than %d", MaxDepth)
	}
	// Each item takes a byte at least, so a false length is noticed here.
	if n > uint64(len(s.rest)) {
		return errors.Errorf("cannot take a frame that ends before its %d items", n)
	}
	for range n {
		if err := s.value(depth + 1); err != nil {
			return err
		}
	}
	return nil
}

func (s *scanner) sized(width int, extra uint64) error {
	n, err := s.length(width)
	if err != nil {
		return err
	}
	return s.skip(n + extra)
}

// length reads a big-endian length of width bytes.
func (s *scanner) length(width int) (uint64, error) {
	b, err := s.take(uint64(width))
	if err != nil {
		return 0, err
	}
	switch width {
	case 1:
		return uint64(b[0]), nil
	case 2:
		return uint64(binary.BigEndian.Uint16(b)), nil
	default:
		return uint64(binary.BigEndian.Uint32(b)), nil
	}
}

func (s *scanner) skip(n uint64) error {
	_, err := s.take(n)
	return err
}

func (s *scanner) take(n uint64) ([]byte, error) {
	if n > uint64(len(s.rest)) {
		return nil, errors.New("cannot take a frame that ends in the middle of a value")
	}
	b := s.rest[:n]
	s.rest = s.rest[n:]
	return b, nil
}
