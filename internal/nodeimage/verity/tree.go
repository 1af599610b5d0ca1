// Package verity makes and describes dm-verity's hash trees (the kernel's Documentation/admin-guide/device-mapper/verity.rst): the
// kernel checks each block of a device against the tree when it reads it, and the tree against one root hash.
package verity

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/pkg/errors"
)

const (
	// BlockBytes is the size of a block of data and of a block of hashes.
	BlockBytes = 4096
	hashBytes  = sha256.Size
	perBlock   = BlockBytes / hashBytes
	// mostSalt is the kernel's limit of a salt, in bytes.
	mostSalt = 256
	// leastBlocks: of one block the kernel wants no tree.
	leastBlocks = 2
	// mostBlocks bounds the data: 1 TiB.
	mostBlocks = 1 << 28
)

// Tree describes a hash tree that stands behind its data in the same file, with the root's block first and without a superblock.
type Tree struct {
	// DataBlocks is the number of blocks of data; the tree begins behind them.
	DataBlocks int64 `json:"data_blocks"`
	// Salt and RootHash are hexadecimal digits, of lower case.
	Salt     string `json:"salt"`
	RootHash string `json:"root_hash"`
}

// Validate names the wrong field, its value, and what is allowed.
func (t Tree) Validate() error {
	if t.DataBlocks < leastBlocks || t.DataBlocks > mostBlocks {
		return errors.Errorf("cannot use a hash tree: data_blocks is %d, must be %d to %d", t.DataBlocks, leastBlocks, mostBlocks)
	}
	if salt, err := hex.DecodeString(t.Salt); err != nil || len(salt) == 0 || len(salt) > mostSalt || t.Salt != strings.ToLower(t.Salt) {
		return errors.Errorf("cannot use a hash tree: salt is %q, must be 1 to %d bytes as lower-case hexadecimal digits", t.Salt, mostSalt)
	}
	if hash, err := hex.DecodeString(t.RootHash); err != nil || len(hash) != hashBytes || t.RootHash != strings.ToLower(t.RootHash) {
		return errors.Errorf("cannot use a hash tree: root_hash is %q, must be %d lower-case hexadecimal digits", t.RootHash, 2*hashBytes)
	}
	return nil
}

// levels are the numbers of blocks of the tree's levels, the lowest first; the last one has the root's block alone.
func (t Tree) levels() []int64 {
	var out []int64
	for n := t.DataBlocks; n > 1; {
		n = (n + perBlock - 1) / perBlock
		out = append(out, n)
	}
	return out
}

// FileBytes is the size of the file with data and tree.
func (t Tree) FileBytes() int64 {
	total := t.DataBlocks
	for _, n := range t.levels() {
		total += n
	}
	return total * BlockBytes
}

// Sectors is the size of the data in sectors of 512 bytes, as device mapper counts.
func (t Tree) Sectors() uint64 { return uint64(t.DataBlocks) * BlockBytes / 512 }

// Table is the line of device mapper's target verity for a device with data and tree. A machine that reads a wrong block gets an I/O
// error.
func (t Tree) Table(device string) string {
	return fmt.Sprintf("1 %s %s %d %d %d %d sha256 %s %s",
		device, device, BlockBytes, BlockBytes, t.DataBlocks, t.DataBlocks, t.RootHash, t.Salt)
}

// CheckTop checks the tree's first block in a file against the root hash: it tells the file of another image from one that is damaged, of
// which the kernel finds each wrong block when it reads it.
func (t Tree) CheckTop(file io.ReaderAt) error {
	salt, err := hex.DecodeString(t.Salt)
	if err != nil {
		return errors.Wrap(err, "cannot use a hash tree's salt")
	}
	top, err := hashes(io.NewSectionReader(file, t.DataBlocks*BlockBytes, BlockBytes), salt)
	if err != nil {
		return errors.Wrap(err, "cannot read the hash tree")
	}
	if hex.EncodeToString(top) != t.RootHash {
		return errors.Errorf("its hash tree has the root hash %x, must have %s", top, t.RootHash)
	}
	return nil
}

// Append fills the file up to whole blocks with zeros, and appends the hash tree of all its blocks.
func Append(path string, salt []byte) (Tree, error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return Tree{}, errors.Wrap(err, "cannot make a hash tree")
	}
	defer f.Close()
	t, err := appendTo(f, salt)
	if err != nil {
		return Tree{}, errors.Wrapf(err, "cannot make the hash tree of %s", path)
	}
	return t, f.Sync()
}

func appendTo(f *os.File, salt []byte) (Tree, error) {
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return Tree{}, err
	}
	if size == 0 {
		return Tree{}, errors.New("it is empty")
	}
	if _, err := f.Write(make([]byte, -size&(BlockBytes-1))); err != nil {
		return Tree{}, err
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return Tree{}, err
	}
	t := Tree{DataBlocks: (size + BlockBytes - 1) / BlockBytes, Salt: hex.EncodeToString(salt)}
	level, err := hashes(bufio.NewReaderSize(f, 1<<20), salt)
	if err != nil {
		return Tree{}, err
	}
	var levels [][]byte
	for {
		blocks := padded(level)
		levels = append(levels, blocks)
		if level, err = hashes(bytes.NewReader(blocks), salt); err != nil {
			return Tree{}, err
		}
		if len(level) == hashBytes {
			break
		}
	}
	t.RootHash = hex.EncodeToString(level)
	if err := t.Validate(); err != nil {
		return Tree{}, err
	}
	for i := len(levels) - 1; i >= 0; i-- {
		if _, err := f.Write(levels[i]); err != nil {
			return Tree{}, err
		}
	}
	return t, nil
}

// hashes are the hashes of a reader's blocks, one behind the other.
func hashes(r io.Reader, salt []byte) ([]byte, error) {
	var out []byte
	block := make([]byte, BlockBytes)
	h := sha256.New()
	for {
		if _, err := io.ReadFull(r, block); errors.Is(err, io.EOF) {
			return out, nil
		} else if err != nil {
			return nil, err
		}
		h.Reset()
		h.Write(salt)
		h.Write(block)
		out = h.Sum(out)
	}
}

// padded fills a level up to whole blocks.
func padded(level []byte) []byte { return append(level, make([]byte, -len(level)&(BlockBytes-1))...) }
