package unpack

import (
	"archive/tar"
	"hash/maphash"
	"io"
	"path"
	"strings"

	"github.com/croft-edge/croft/pkg/node"
)

// mostExtra is how much a layer's stream may hold beside files and 2 KiB a
// file, and how much of it may be extended attributes of folders and names,
// which are kept in memory while it is unpacked.
const mostExtra = 16 << 20

// counter counts the bytes, files and folders of a layer, and refuses a layer beyond
// the bounds.
type counter struct {
	Bounds
	// wrote are the bytes of this layer alone, extra those of names and attributes
	// that are kept in memory.
	wrote, extra int64
	// seed and parents find folders that no entry has named yet.
	seed    maphash.Seed
	parents map[uint64]struct{}
	// expected are the folders that the names of entries imply, unnamed those that
	// were made without an entry of their own.
	expected, unnamed int64
}

// count counts an entry, and removes the attributes that are left out. It is false for an
// entry that is left out whole.
func (c *counter) count(h *tar.Header) (bool, error) {
	if h.Typeflag == tar.TypeChar || h.Typeflag == tar.TypeBlock {
		return false, nil
	}
	parents := c.newParents(h.Name)
	c.expected += parents
	c.Files += 1 + parents
	var bytes int64
	if h.Size > 0 {
		// A sparse file is written out in full.
		bytes = h.Size
	}
	kept := int64(len(h.Name))
	for key, value := range h.PAXRecords {
		name, ok := strings.CutPrefix(key, xattrPrefix)
		if !ok || strings.HasPrefix(name, "trusted.") || strings.HasPrefix(name, "security.") && name != fileCaps {
			delete(h.PAXRecords, key)
			continue
		}
		// Each is written, also an empty one.
		bytes += int64(len(name) + len(value))
		if h.Typeflag == tar.TypeDir {
			kept += int64(len(value))
		}
	}
	c.Bytes, c.wrote, c.extra = c.Bytes+bytes, c.wrote+bytes, c.extra+kept
	switch {
	case c.Files > c.MostFiles:
		return false, c.tooMany()
	case c.Bytes > c.MostBytes || c.Bytes < 0:
		return false, c.tooLarge()
	case c.extra > mostExtra+128*c.Files:
		return false, refused("the names and attributes of its files are too long")
	case c.wrote > c.Room:
		return false, node.Errorf(node.NoSpace, "cannot unpack the image: a layer of it needs %d bytes or more, %d are free for it", c.wrote, max(c.Room, 0))
	}
	h.Uid, h.Gid = known(h.Uid), known(h.Gid)
	return true, nil
}

// known returns an ID that a container has: nobody's for all others.
func known(id int) int {
	if id < 0 || id >= IDs {
		return nobody
	}
	return id
}

func (c *counter) tooMany() error {
	return refused("it has more than %d files and folders", c.MostFiles)
}

func (c *counter) tooLarge() error {
	return refused("it unpacks to more than the %d bytes that are allowed", c.MostBytes)
}

// newParents counts the folders above a name that weren't seen before.
func (c *counter) newParents(name string) (n int64) {
	if c.parents == nil {
		c.seed, c.parents = maphash.MakeSeed(), map[uint64]struct{}{}
	}
	for dir := path.Dir(name); dir != "." && dir != "/"; dir = path.Dir(dir) {
		sum := maphash.String(c.seed, dir)
		if _, ok := c.parents[sum]; ok {
			return n
		}
		c.parents[sum] = struct{}{}
		n++
	}
	return n
}

// unnamedFolder counts a folder without an entry, before it is made, and returns how many it
// adds: none when the name of an entry implied it; a link in the name leads to others.
func (c *counter) unnamedFolder() (added int64, err error) {
	if c.unnamed++; c.unnamed <= c.expected {
		return 0, nil
	}
	c.expected++
	c.Files++
	if c.Files > c.MostFiles {
		return 1, c.tooMany()
	}
	return 1, nil
}

// bounded is the stream of a layer; it fails when the stream is much longer than its entries.
type bounded struct {
	counter *counter
	from    io.Reader
	read    int64
}

func (b *bounded) Read(p []byte) (int, error) {
	n, err := b.from.Read(p)
	b.read += int64(n)
	if b.read > b.counter.MostBytes+mostExtra+2048*b.counter.Files {
		return 0, b.counter.tooLarge()
	}
	return n, err
}
