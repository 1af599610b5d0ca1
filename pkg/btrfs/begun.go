package btrfs

import (
	"encoding/binary"
	"io"
	"slices"

	"github.com/pkg/errors"
)

// The first tree blocks' place, and the layout of a block's header (btrfs_tree.h; make_btrfs of btrfs-progs writes them).
const (
	// FirstOffset and FirstSize are the part of a device that mkfs.btrfs --mixed writes its first tree blocks to.
	FirstOffset = 1 << 20
	FirstSize   = 64 << 10

	firstGeneration = 1
	blockSize       = 4096

	headerOffset     = 0x30
	headerGeneration = 0x50
	headerLevel      = 0x64
)

// Begun reports whether mkfs.btrfs --mixed has begun to format a device: whether the header of one of its first tree blocks is there.
// mkfs.btrfs writes these blocks and the superblock, and then syncs for the first time. A power cut before that can leave any of their sectors
// and lose the others, so that no block needs to be whole. The blocks' generation is 1; those of what is written to a file system are higher.
func Begun(device io.ReaderAt) (bool, error) {
	part := make([]byte, FirstSize)
	n, err := device.ReadAt(part, FirstOffset)
	if n < len(part) && !errors.Is(err, io.EOF) {
		return false, Wrap(err, "cannot read the first tree blocks")
	}
	at := uint64(FirstOffset)
	for block := range slices.Chunk(part[:n], blockSize) {
		if isFirst(block, at) {
			return true, nil
		}
		at += blockSize
	}
	return false, nil
}

// isFirst reports whether a block of a device begins with the header of a first tree block.
func isFirst(block []byte, at uint64) bool {
	return len(block) == blockSize && binary.LittleEndian.Uint64(block[headerOffset:]) == at &&
		binary.LittleEndian.Uint64(block[headerGeneration:]) == firstGeneration && block[headerLevel] == 0
}
