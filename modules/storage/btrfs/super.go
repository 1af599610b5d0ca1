package btrfs

import (
	"bytes"
	"encoding/hex"
	"io"
	"os"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/pkg/node"
)

// The first superblock's place and layout (btrfs_tree.h).
const (
	superOffset = 64 << 10
	superSize   = 4096
	superUUID   = 0x20
	superMagic  = 0x40
	superLabel  = 0x12b
	labelSize   = 256
)

// Super is a superblock's description of its file system.
type Super struct {
	UUID  string
	Label string
}

// ReadSuper reads the superblock on an unmounted device or image. NotExist
// when there is none.
func ReadSuper(path string) (Super, error) {
	f, err := os.Open(path)
	if err != nil {
		return Super{}, Wrap(err, "cannot read superblock of %s", path)
	}
	defer f.Close()
	block := make([]byte, superSize)
	_, err = f.ReadAt(block, superOffset)
	short := errors.Is(err, io.EOF)
	if err != nil && !short {
		return Super{}, Wrap(err, "cannot read superblock of %s", path)
	}
	if short || string(block[superMagic:superMagic+8]) != "_BHRfS_M" {
		return Super{}, node.Errorf(node.NotExist, "cannot read superblock of %s: there is none of btrfs", path)
	}
	label, _, _ := bytes.Cut(block[superLabel:superLabel+labelSize], []byte{0})
	return Super{UUID: formatUUID(block[superUUID : superUUID+16]), Label: string(label)}, nil
}

func formatUUID(b []byte) string {
	h := hex.EncodeToString(b)
	return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
}
