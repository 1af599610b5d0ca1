package image

import (
	"archive/tar"
	"bufio"
	"context"
	"hash/maphash"
	"io"
	"path"
	"strings"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/croft-edge/croft/pkg/node"
)

const (
	// xattrPrefix begins what a tar says of extended attributes.
	xattrPrefix = "SCHILY.xattr."
	// mostExtra is how much a layer's stream may hold beside files and 2 KiB a
	// file, and how much of it may be extended attributes of folders and names,
	// which are kept in memory while it is unpacked.
	mostExtra = 16 << 20
	// mostWindow is the memory that a zstd layer may ask for, as zstd's own
	// tools allow it.
	mostWindow = 128 << 20
)

// use counts what an image unpacks to, and ends what goes beyond the limits
// before it is on the disk.
type use struct {
	attempt              *attempt
	bytes, files         int64
	mostBytes, mostFiles int64
	// seed and parents count folders that no entry names.
	seed    maphash.Seed
	parents map[uint64]struct{}
	extra   int64
	looked  int64
}

// admit is asked for each entry of a layer. Device nodes are left out: nothing
// may open them in a container, and who makes one of number 0 makes a whiteout.
// What extended attributes would say to overlayfs is left out too.
func (u *use) admit(h *tar.Header) (bool, error) {
	if h.Typeflag == tar.TypeChar || h.Typeflag == tar.TypeBlock {
		return false, nil
	}
	u.files += 1 + u.newParents(h.Name)
	if h.Size > 0 {
		// A sparse file is written out, so its size is what counts.
		u.bytes += h.Size
	}
	kept := int64(len(h.Name))
	for key, value := range h.PAXRecords {
		name, ok := strings.CutPrefix(key, xattrPrefix)
		if !ok || strings.HasPrefix(name, "trusted.") {
			delete(h.PAXRecords, key)
			continue
		}
		u.bytes += int64(len(value))
		if h.Typeflag == tar.TypeDir {
			kept += int64(len(value))
		}
	}
	u.extra += kept
	switch {
	case u.files > u.mostFiles:
		return false, node.Errorf(node.Refused, "cannot use the image: it has more than %d files and folders", u.mostFiles)
	case u.bytes > u.mostBytes || u.bytes < 0:
		return false, u.tooLarge()
	case u.extra > mostExtra+128*u.files:
		return false, node.Errorf(node.Refused, "cannot use the image: the names and attributes of its files are too long")
	case h.Size >= spaceEach:
		return true, u.attempt.store.room(context.Background(), h.Size)
	}
	return true, nil
}

func (u *use) tooLarge() error {
	return node.Errorf(node.Refused, "cannot use the image: it unpacks to more than the %d bytes that are allowed", u.mostBytes)
}

// newParents counts the folders above a name that weren't seen before.
func (u *use) newParents(name string) (n int64) {
	if u.parents == nil {
		u.seed, u.parents = maphash.MakeSeed(), map[uint64]struct{}{}
	}
	for dir := path.Dir(name); dir != "." && dir != "/"; dir = path.Dir(dir) {
		sum := maphash.String(u.seed, dir)
		if _, ok := u.parents[sum]; ok {
			return n
		}
		u.parents[sum] = struct{}{}
		n++
	}
	return n
}

// counted ends the stream of a layer that goes on for longer than what it holds.
type counted struct {
	ctx  context.Context // it is the attempt's
	use  *use
	from io.Reader
	read int64
}

func (c *counted) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := c.from.Read(p)
	c.read += int64(n)
	if c.read > c.use.mostBytes+mostExtra+2048*c.use.files {
		return 0, c.use.tooLarge()
	}
	if c.use.looked += int64(n); c.use.looked >= spaceEach {
		c.use.looked = 0
		if err := c.use.attempt.store.room(c.ctx, 0); err != nil {
			return 0, err
		}
	}
	return n, err
}

// decompress reads a layer by what it begins with, as others do.
func decompress(r io.Reader) (io.Reader, func(), error) {
	buffered := bufio.NewReaderSize(r, readAt)
	magic, err := buffered.Peek(4)
	if err != nil && err != io.EOF {
		return nil, nil, err
	}
	switch {
	case len(magic) >= 2 && magic[0] == 0x1f && magic[1] == 0x8b:
		z, err := gzip.NewReader(buffered)
		if err != nil {
			return nil, nil, err
		}
		return z, func() { _ = z.Close() }, nil
	case string(magic) == "\x28\xb5\x2f\xfd":
		z, err := zstd.NewReader(buffered, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(mostWindow))
		if err != nil {
			return nil, nil, err
		}
		return z, z.Close, nil
	}
	return buffered, func() {}, nil
}
