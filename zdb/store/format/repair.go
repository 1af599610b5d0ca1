package format

import (
	"slices"
)

// RepairHead undoes one flipped bit in a head and its key, if that is their only damage: their checksum distinguishes
// it from all other damages of up to four bits.
func RepairHead(damaged []byte, mask uint32) (Head, []byte, bool) {
	b := slices.Clone(damaged[:min(len(damaged), HeadMost)])
	for i := range 8 * len(b) {
		b[i/8] ^= 1 << (i % 8)
		h, key, needs, ok := ParseHead(b, mask)
		if ok && i/8 < needs {
			return h, key, true
		}
		b[i/8] ^= 1 << (i % 8)
	}
	return Head{}, nil, false
}

// RepairSegmentHeader undoes one flipped bit in the header of a segment.
func RepairSegmentHeader(b []byte) (SegmentHeader, bool) {
	for i := range 8 * len(b) {
		b[i/8] ^= 1 << (i % 8)
		if h, ok := ParseSegmentHeader(b); ok {
			return h, true
		}
		b[i/8] ^= 1 << (i % 8)
	}
	return SegmentHeader{}, false
}
