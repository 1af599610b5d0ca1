package source

import (
	"bytes"
	"context"
	"io"
	"io/fs"
	"os"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/pkg/errors"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/modules/container/image/document"
	"github.com/croft-edge/croft/pkg/node"
)

// files is the source of an OCI layout: a folder or a tar.
type files interface {
	// Open opens a regular file; fs.ErrNotExist when there is none.
	Open(name string) (io.ReadCloser, error)
	Close() error
}

// layout is an OCI layout as a Source.
type layout struct {
	ref   Reference
	files files
}

// openLocal opens a path without leaving the allowed path by any link, and without
// waiting for a pipe or a device.
func openLocal(r Reference) (Source, error) {
	root, err := os.OpenRoot(r.root)
	if err != nil {
		return nil, localError(err, r)
	}
	defer root.Close()
	info, err := root.Stat(r.path)
	if err != nil {
		return nil, localError(err, r)
	}
	if info.IsDir() {
		dir, err := root.OpenRoot(r.path)
		if err != nil {
			return nil, localError(err, r)
		}
		return &layout{ref: r, files: folder{dir}}, nil
	}
	f, err := openRegular(root, r.path)
	if err != nil {
		return nil, localError(err, r)
	}
	return openTar(r, f)
}

// errNotRegular is the error for a pipe, a device or a folder in the place of a file.
var errNotRegular = errors.New("it isn't a regular file")

func openRegular(root *os.Root, name string) (*os.File, error) {
	// A pipe that nobody writes to would block.
	f, err := root.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errNotRegular
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func localError(err error, r Reference) error {
	if err == nil {
		return nil
	}
	var kinded *node.Error
	if errors.As(err, &kinded) {
		return node.Errorf(kinded.Kind, "cannot use image %s: %w", r.Text, kinded)
	}
	return node.Errorf(node.Invalid, "cannot use image %s: %w; it must be an OCI layout folder or a tar on this node", r.Text, err)
}

// folder is an OCI layout folder.
type folder struct{ root *os.Root }

func (f folder) Open(name string) (io.ReadCloser, error) { return openRegular(f.root, name) }
func (f folder) Close() error                            { return f.root.Close() }

// Resolve returns index.json itself as the index. It has no digest to be checked
// by, so it is decoded at once.
func (l *layout) Resolve(context.Context) (ocispec.Descriptor, error) {
	raw, err := readAll(l.files, "index.json", document.MostBytes)
	if err != nil {
		return ocispec.Descriptor{}, localError(err, l.ref)
	}
	if _, err := document.Decode(raw, ocispec.MediaTypeImageIndex); err != nil {
		return ocispec.Descriptor{}, localError(err, l.ref)
	}
	return ocispec.Descriptor{MediaType: ocispec.MediaTypeImageIndex, Digest: digest.FromBytes(raw), Size: int64(len(raw)), Data: raw}, nil
}

func (l *layout) Fetch(_ context.Context, desc ocispec.Descriptor) (io.ReadCloser, error) {
	r, err := l.files.Open("blobs/" + desc.Digest.Algorithm().String() + "/" + desc.Digest.Encoded())
	return r, localError(err, l.ref)
}

func (l *layout) Wrap(err error) error { return localError(err, l.ref) }
func (l *layout) Close() error         { return l.files.Close() }

// readAll reads a small file.
func readAll(from files, name string, most int64) ([]byte, error) {
	r, err := from.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, node.Errorf(node.Invalid, "cannot find %s in it", name)
	}
	if err != nil {
		return nil, err
	}
	defer r.Close()
	// The buffer grows by doubling; its unused rest isn't kept.
	var raw bytes.Buffer
	n, err := raw.ReadFrom(io.LimitReader(r, most+1))
	if err == nil && n > most {
		err = node.Errorf(node.Invalid, "cannot use its %s: it has more than %d bytes", name, most)
	}
	return bytes.Clone(raw.Bytes()), err
}
