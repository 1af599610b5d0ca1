package tombstones

import (
	"encoding/binary"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/zdb/store/disk"
	"github.com/croft-edge/croft/zdb/store/format"
)

// The file is blocks of a magic, a count, a checksum and places.
const (
	// Name is the file's name.
	Name        = "kills"
	blockHeader = 16
	blockMagic  = 0x6b696c6c
	smallSize   = 1 << 20 // bytes up to which the file isn't looked through
	maxBlock    = 1 << 16 // places of a block
)

// size is how many bytes the blocks of so many places take.
func size(places int) int64 {
	blocks := (places + maxBlock - 1) / maxBlock
	return int64(blocks)*blockHeader + 8*int64(places)
}

// appendBlocks appends the blocks of places.
func appendBlocks(b []byte, places []format.Place) []byte {
	le := binary.LittleEndian
	for len(places) > 0 {
		n := min(len(places), maxBlock)
		from := len(b)
		b = le.AppendUint32(b, blockMagic)
		b = le.AppendUint32(b, uint32(n))
		b = le.AppendUint64(b, 0)
		for _, at := range places[:n] {
			b = le.AppendUint64(b, uint64(at))
		}
		le.PutUint32(b[from+8:], format.Checksum(b[from+blockHeader:]))
		places = places[n:]
	}
	return b
}

// Read reads the blocks of a file up to size, and answers where the last good one ends, and whether one is damaged.
func Read(f disk.File, size int64, seen func([]format.Place)) (end int64, bad bool, err error) {
	le := binary.LittleEndian
	b := make([]byte, 8*maxBlock)
	places := make([]format.Place, 0, maxBlock)
	for off := int64(0); off+blockHeader <= size; {
		var head [blockHeader]byte
		if _, err := f.ReadAt(head[:], off); err != nil {
			return 0, false, errors.Wrap(err, "cannot read the tombstones")
		}
		n := int64(le.Uint32(head[4:]))
		if le.Uint32(head[:]) != blockMagic || n > maxBlock {
			return end, head != [blockHeader]byte{}, nil
		}
		if off+blockHeader+8*n > size {
			break // the last one, torn
		}
		if _, err := f.ReadAt(b[:8*n], off+blockHeader); err != nil {
			return 0, false, errors.Wrap(err, "cannot read the tombstones")
		}
		off += blockHeader + 8*n
		if format.Checksum(b[:8*n]) != le.Uint32(head[8:]) {
			bad = true // damaged; or the last one, torn
			continue
		}
		end, places = off, places[:0]
		for i := range n {
			places = append(places, format.Place(le.Uint64(b[8*i:])))
		}
		seen(places)
	}
	return end, bad, nil
}
