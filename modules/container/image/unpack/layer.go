package unpack

import (
	"archive/tar"
	"context"
	"hash/maphash"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/containerd/containerd/v2/pkg/archive"
	"github.com/opencontainers/go-digest"
	"github.com/pkg/errors"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/pkg/node"
)

const (
	// xattrPrefix begins what a tar says of extended attributes.
	xattrPrefix = "SCHILY.xattr."
	// fileCaps is the one of the kernel's own attributes that an image may have.
	fileCaps = "security.capability"
	// mostExtra is how much a layer's stream may hold beside files and 2 KiB a
	// file, and how much of it may be extended attributes of folders and names,
	// which are kept in memory while it is unpacked.
	mostExtra = 16 << 20
	// whiteout begins the name of what a layer takes away, opaqueName is in a folder
	// that hides those below it.
	whiteout   = ".wh."
	opaqueName = ".wh..wh..opq"
)

// layer counts what a layer unpacks to, and ends what goes beyond the bounds.
type layer struct {
	Bounds
	// below are the folders of the layers below, topmost first.
	below []int
	// wrote are the bytes of this layer alone.
	wrote int64
	sum   digest.Digest
	// seed and parents count folders that no entry names.
	seed    maphash.Seed
	parents map[uint64]struct{}
	extra   int64
	opaque  []string
	named   int
	// unasked are how many files and folders are made before all are counted, and then
	// only counted; 0 is all.
	unasked int64
	// made are those of this layer so far. unnamed are the folders of them that no entry is for,
	// expected how many of these were counted by the names of entries.
	made, unnamed, expected int64
}

// mostUnasked is how many files and folders are made of a layer that nobody knows to be within
// the bounds. A million that are made for nothing would slow down whoever makes one on that disk, also
// long after they are removed: ext4 looks at each inode that was freed in the last minutes before it
// takes another. Few layers have more than this, and counting takes a third as long as unpacking.
const mostUnasked = 20_000

// unpackAsked unpacks a layer that can be read twice, of that many bytes each time.
func unpackAsked(b Bounds, below []int, twice io.Reader, bytes int64) (*layer, error) {
	l := &layer{Bounds: b, below: below, unasked: mostUnasked}
	first := io.LimitReader(twice, bytes)
	err := l.unpack(first)
	if err != nil || l.made <= l.unasked {
		return l, err
	}
	if _, err = io.Copy(io.Discard, first); err == nil {
		err = empty("/")
	}
	if err != nil {
		return l, kinded(err)
	}
	l = &layer{Bounds: b, below: below}
	return l, l.unpack(twice)
}

// empty removes what is in a folder.
func empty(dir string) error {
	all, err := os.ReadDir(dir)
	for _, one := range all {
		if err == nil {
			err = os.RemoveAll(filepath.Join(dir, one.Name()))
		}
	}
	return err
}

// unpack makes the files of a packed layer below the root.
func (l *layer) unpack(packed io.Reader) error {
	plain, err := decompress(packed)
	if err != nil {
		return invalid("its layer can't be read: %w", err)
	}
	sum := digest.SHA256.Digester()
	stream := io.TeeReader(&counted{layer: l, from: plain}, sum.Hash())
	_, err = archive.Apply(context.Background(), "/", stream, archive.WithConvertWhiteout(l.whiteout), archive.WithFilter(l.admit))
	if err == nil {
		// What lies behind the tar counts for the digest.
		_, err = io.Copy(io.Discard, stream)
	}
	l.sum = sum.Digest()
	return kinded(err)
}

func (l *layer) result() Result { return Result{Diff: l.sum, Bytes: l.Bytes, Files: l.Files} }

func kinded(err error) error {
	var known *node.Error
	switch {
	case err == nil || errors.As(err, &known):
		return err
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		return node.Errorf(node.NoSpace, "cannot unpack a layer: %w", err)
	case errors.Is(err, unix.EIO), errors.Is(err, unix.EROFS), errors.Is(err, unix.ENOMEM), errors.Is(err, unix.EMFILE), errors.Is(err, unix.ENFILE):
		return node.Errorf(node.Internal, "cannot unpack a layer: %w", err)
	}
	return invalid("its layer can't be unpacked: %w", err)
}

// admit is asked for each entry of a layer. Device nodes are left out: nothing
// may open them in a container, and who makes one of number 0 makes a whiteout.
// What extended attributes would say to overlayfs and to the kernel's security
// modules is left out too.
func (l *layer) admit(h *tar.Header) (bool, error) {
	before := l.Files
	ok, err := l.count(h)
	if l.made += l.Files - before; l.unasked > 0 && l.made > l.unasked {
		return false, err
	}
	if err == nil && ok {
		err = l.above(h.Name)
	}
	return ok && err == nil, err
}

func (l *layer) count(h *tar.Header) (bool, error) {
	if h.Typeflag == tar.TypeChar || h.Typeflag == tar.TypeBlock {
		return false, nil
	}
	parents := l.newParents(h.Name)
	l.expected += parents
	l.Files += 1 + parents
	var bytes int64
	if h.Size > 0 {
		// A sparse file is written out, so its size is what counts.
		bytes = h.Size
	}
	kept := int64(len(h.Name))
	for key, value := range h.PAXRecords {
		name, ok := strings.CutPrefix(key, xattrPrefix)
		if !ok || strings.HasPrefix(name, "trusted.") || strings.HasPrefix(name, "security.") && name != fileCaps {
			delete(h.PAXRecords, key)
			continue
		}
		// Each is written, also one that says nothing.
		bytes += int64(len(name) + len(value))
		if h.Typeflag == tar.TypeDir {
			kept += int64(len(value))
		}
	}
	l.Bytes, l.wrote, l.extra = l.Bytes+bytes, l.wrote+bytes, l.extra+kept
	switch {
	case l.Files > l.MostFiles:
		return false, l.tooMany()
	case l.Bytes > l.MostBytes || l.Bytes < 0:
		return false, l.tooLarge()
	case l.extra > mostExtra+128*l.Files:
		return false, refused("the names and attributes of its files are too long")
	case l.wrote > l.Room:
		return false, node.Errorf(node.NoSpace, "cannot unpack the image: a layer of it needs %d bytes or more, %d are free for it", l.wrote, max(l.Room, 0))
	}
	h.Uid, h.Gid = known(h.Uid), known(h.Gid)
	return true, nil
}

// known is an ID that a container has: others are nobody's there.
func known(id int) int {
	if id < 0 || id >= IDs {
		return nobody
	}
	return id
}

func (l *layer) tooMany() error {
	return refused("it has more than %d files and folders", l.MostFiles)
}

func (l *layer) tooLarge() error {
	return refused("it unpacks to more than the %d bytes that are allowed", l.MostBytes)
}

// newParents counts the folders above a name that weren't seen before.
func (l *layer) newParents(name string) (n int64) {
	if l.parents == nil {
		l.seed, l.parents = maphash.MakeSeed(), map[uint64]struct{}{}
	}
	for dir := path.Dir(name); dir != "." && dir != "/"; dir = path.Dir(dir) {
		sum := maphash.String(l.seed, dir)
		if _, ok := l.parents[sum]; ok {
			return n
		}
		l.parents[sum] = struct{}{}
		n++
	}
	return n
}

// whiteout makes of an entry that takes something away what overlayfs takes for
// it. Only root of the node may write what makes a folder hide those below, so it
// is told.
func (l *layer) whiteout(h *tar.Header, at string) (bool, error) {
	dir, base := filepath.Split(at)
	if base == opaqueName {
		dir = filepath.Clean(dir)
		if l.named += len(dir); int64(len(l.opaque)) >= Opaque.Each || l.named > mostOpaque {
			return false, refused("it has %w: at most %d are allowed", errOpaque, Opaque.Each)
		}
		l.opaque = append(l.opaque, dir)
		return false, nil
	}
	name, ok := strings.CutPrefix(base, whiteout)
	if !ok {
		return true, nil
	}
	at = filepath.Join(dir, name)
	if err := unix.Mknod(at, unix.S_IFCHR, 0); err != nil {
		return false, err
	}
	return false, os.Lchown(at, h.Uid, h.Gid)
}

// counted ends the stream of a layer that goes on for longer than what it holds.
type counted struct {
	layer *layer
	from  io.Reader
	read  int64
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.from.Read(p)
	c.read += int64(n)
	if c.read > c.layer.MostBytes+mostExtra+2048*c.layer.Files {
		return 0, c.layer.tooLarge()
	}
	return n, err
}
