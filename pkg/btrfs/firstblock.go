package btrfs

import (
	"encoding/binary"
	"hash/crc32"
)

// BlockSize is the size in bytes of a tree block where data and metadata share groups of blocks.
const BlockSize = 4096

// The first tree blocks' place, and the layout of a block's header (btrfs_tree.h; make_btrfs of btrfs-progs writes them).
const (
	firstOffset     = 1 << 20
	firstSpan       = 64 << 10
	firstGeneration = 1

	headerChecked    = 0x20
	headerOffset     = 0x30
	headerGeneration = 0x50
	headerLevel      = 0x64
)

// FirstBlock reports whether a block of BlockSize at that offset of a device is one of those that mkfs.btrfs --mixed writes before any
// superblock. They can be all that is on a disk when a power cut ends its formatting. They hold nothing of anybody's: the generations of
// what is written to a file system are higher.
func FirstBlock(block []byte, at int64) bool {
	return len(block) == BlockSize && at >= firstOffset && at < firstOffset+firstSpan &&
		binary.LittleEndian.Uint64(block[headerOffset:]) == uint64(at) &&
		binary.LittleEndian.Uint64(block[headerGeneration:]) == firstGeneration && block[headerLevel] == 0 &&
		binary.LittleEndian.Uint32(block) == crc32.Checksum(block[headerChecked:], crc32.MakeTable(crc32.Castagnoli))
}
