package btrfs

import (
	"bytes"
	"encoding/hex"
	"io"
	"os"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/pkg/node"
)

// The superblocks' places and layout (btrfs_tree.h; disk-io.h of btrfs-progs has the magic of an unfinished one).
const (
	// SuperOffset and SuperSize are the place of the superblock; Copies has those of its copies.
	SuperOffset = 64 << 10
	SuperSize   = 4096

	wholeMagic      = "_BHRfS_M"
	unfinishedMagic = "!BHRfS_M"

	superUUID  = 0x20
	superMagic = 0x40
	superLabel = 0x12b
	labelSize  = 256
)

// Super is a superblock's description of its file system.
type Super struct {
	UUID  string
	Label string
}

// Copies are the offsets at which a large enough device has copies of the superblock.
func Copies() []int64 { return []int64{64 << 20, 256 << 30} }

// ReadSuper reads the superblock on an unmounted device or image. NotExist
// when there is none.
func ReadSuper(path string) (Super, error) { return readSuper(path, wholeMagic, SuperOffset) }

// ReadCopy reads the first copy of the superblock that is there: a file system whose superblock is damaged has them still, and can be
// repaired. NotExist when there is none.
func ReadCopy(path string) (Super, error) {
	return readSuper(path, wholeMagic, Copies()...)
}

// ReadUnfinished reads the superblock that a device has while mkfs.btrfs works on it. NotExist when it has another one, or none.
func ReadUnfinished(path string) (Super, error) { return readSuper(path, unfinishedMagic, SuperOffset) }

// readSuper reads the first superblock with that magic at one of the offsets.
func readSuper(path, magic string, offsets ...int64) (Super, error) {
	f, err := os.Open(path)
	if err != nil {
		return Super{}, Wrap(err, "cannot read superblock of %s", path)
	}
	defer f.Close()
	block := make([]byte, SuperSize)
	for _, at := range offsets {
		_, err = f.ReadAt(block, at)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return Super{}, Wrap(err, "cannot read superblock of %s", path)
		}
		if string(block[superMagic:superMagic+8]) == magic {
			label, _, _ := bytes.Cut(block[superLabel:superLabel+labelSize], []byte{0})
			return Super{UUID: formatUUID(block[superUUID : superUUID+16]), Label: string(label)}, nil
		}
	}
	return Super{}, node.Errorf(node.NotExist, "cannot read superblock of %s: there is none of btrfs", path)
}

func formatUUID(b []byte) string {
	h := hex.EncodeToString(b)
	return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
}
