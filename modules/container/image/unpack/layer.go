package unpack

import (
	"archive/tar"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/containerd/containerd/v2/pkg/archive"
	"github.com/opencontainers/go-digest"
	"github.com/pkg/errors"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/pkg/node"
)

const (
	// xattrPrefix begins a tar header's records of extended attributes.
	xattrPrefix = "SCHILY.xattr."
	// fileCaps is the one of the kernel's own attributes that an image may have.
	fileCaps = "security.capability"
	// whiteout begins the name of an entry that deletes a lower layer's file; opaqueName is
	// in a folder that hides those below it.
	whiteout   = ".wh."
	opaqueName = ".wh..wh..opq"
)

// layer unpacks one layer below the root, within the bounds.
type layer struct {
	counter
	// below are the folders of the layers below, topmost first.
	below []int
	// most is how many files and folders are made before the rest is only counted; 0 is
	// all of them.
	most int64
	// made are the files and folders of this layer so far, made or only counted.
	made int64
	// sum is the diff ID.
	sum    digest.Digest
	opaque opaqueFolders
}

// opaqueFolders are the folders that hide those of the layers below.
type opaqueFolders struct {
	paths []string
	bytes int
}

// mostUncounted is how many files and folders are made of a layer before it is known to be within
// the bounds. A million made for nothing would slow down the making of files on that disk, also
// long after they are removed: ext4 looks at each inode that was freed in the last minutes before it
// takes another. Few layers have more than this, and counting takes a third as long as unpacking.
const mostUncounted = 20_000

// unpackTwice unpacks a layer of that many packed bytes. twice has them two times: when the layer has
// more files than mostUncounted, it is counted first and then unpacked anew.
func unpackTwice(b Bounds, below []int, twice io.Reader, bytes int64) (*layer, error) {
	l := &layer{counter: counter{Bounds: b}, below: below, most: mostUncounted}
	first := io.LimitReader(twice, bytes)
	err := l.unpack(first)
	if err != nil || l.made <= l.most {
		return l, err
	}
	if _, err = io.Copy(io.Discard, first); err == nil {
		err = empty("/")
	}
	if err != nil {
		return l, kinded(err)
	}
	l = &layer{counter: counter{Bounds: b}, below: below}
	return l, l.unpack(twice)
}

// empty removes a folder's content.
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
	stream := io.TeeReader(&bounded{counter: &l.counter, from: plain}, sum.Hash())
	_, err = archive.Apply(context.Background(), "/", stream, archive.WithConvertWhiteout(l.whiteout), archive.WithFilter(l.admit))
	if err == nil {
		// The bytes behind the tar are part of the digest.
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

// admit is called for each entry of a layer. Device nodes are left out: nothing
// may open them in a container, and one of number 0 would be a whiteout. Extended
// attributes of overlayfs and of the kernel's security modules are left out too.
func (l *layer) admit(h *tar.Header) (bool, error) {
	before := l.Files
	ok, err := l.count(h)
	if l.made += l.Files - before; l.most > 0 && l.made > l.most {
		return false, err
	}
	if err == nil && ok {
		err = l.above(h.Name)
	}
	return ok && err == nil, err
}

// whiteout turns a whiteout entry of the tar into one of overlayfs. Only root of the
// node may mark a folder as opaque, so those are answered.
func (l *layer) whiteout(h *tar.Header, at string) (bool, error) {
	dir, base := filepath.Split(at)
	if base == opaqueName {
		dir = filepath.Clean(dir)
		if l.opaque.bytes += len(dir); int64(len(l.opaque.paths)) >= Opaque.Each || l.opaque.bytes > mostOpaque {
			return false, refused("it has %w: at most %d are allowed", errOpaque, Opaque.Each)
		}
		l.opaque.paths = append(l.opaque.paths, dir)
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
