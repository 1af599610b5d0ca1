package flist

import (
	"encoding/hex"
	"io/fs"
	"slices"
	"strings"

	"github.com/croft-edge/croft/pkg/limit"
	"github.com/croft-edge/croft/pkg/node"
)

// The limits of a flist: bytes of its database, and what it describes. Blocks bounds the content too, to 128 GiB.
var (
	Bytes   = limit.Limit{Name: "flist-bytes", Per: "flist", Each: 32 << 20, Unit: limit.Bytes}
	Entries = limit.Limit{Name: "flist-entries", Per: "flist", Each: 200_000}
	Blocks  = limit.Limit{Name: "flist-blocks", Per: "flist", Each: 262_144}
	Depth   = limit.Limit{Name: "flist-depth", Per: "flist", Each: 128}
)

// Flist is the index of a flist.
type Flist struct {
	Root *Entry
	// Tags are free texts, such as a description.
	Tags   map[string]string
	Routes []Route
}

// Entry is a file, a folder, a symbolic link or a special file.
type Entry struct {
	// Name is the name in its folder; empty for the root.
	Name string
	// Mode has the type and the permission bits.
	Mode     fs.FileMode
	UID, GID uint32
	// Size is the bytes of a regular file, of others what the flist says.
	Size int64
	// Target is that of a symbolic link.
	Target string
	// Blocks are the content of a regular file: all of BlockSize bytes but the last.
	Blocks []Block
	// Entries are those of a folder, sorted by name.
	Entries []*Entry
}

// Find returns the entry of that name in a folder; nil without one.
func (e *Entry) Find(name string) *Entry {
	if i, ok := slices.BinarySearchFunc(e.Entries, name, func(e *Entry, name string) int { return strings.Compare(e.Name, name) }); ok {
		return e.Entries[i]
	}
	return nil
}

// Plain is the size of the content of a regular file's block, in bytes.
func (e *Entry) Plain(block int) int {
	return int(min(BlockSize, e.Size-int64(block)*BlockSize))
}

// Route says where blocks are: those of which the ID's first byte is First, Last or in between.
type Route struct {
	First, Last byte
	URL         string
}

// Has reports whether a block should be there.
func (r Route) Has(id Hash) bool { return r.First <= id[0] && id[0] <= r.Last }

// Hash is a BLAKE2b-256.
type Hash [32]byte

// String is the hash in hexadecimal.
func (h Hash) String() string { return hex.EncodeToString(h[:]) }

// Refused makes the error of a flist that can't be used.
func Refused(format string, args ...any) error {
	return node.Errorf(node.Refused, "cannot use the flist: "+format, args...)
}
