package image

import (
	"context"
	"io"

	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/errdefs"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/pkg/errors"

	"github.com/croft-edge/croft/modules/container/image/catalog"
	"github.com/croft-edge/croft/modules/container/image/source"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/registry"
)

// readAt is how much of a blob is read at once, spaceEach after how much the
// space is looked at again.
const (
	readAt    = 256 << 10
	spaceEach = 16 << 20
)

// errWrong is the error of a blob whose bytes have another digest.
var errWrong = errors.New("the digest is wrong")

// fetcher gets the blobs of one image into containerd.
type fetcher struct {
	in    catalog.Namespace
	from  source.Source
	ref   source.Reference
	label string
	// progress changes the visible state of the pull.
	progress func(change func(i *node.Image))
	// room fails with NoSpace when there aren't that many bytes on the disk.
	room func(ctx context.Context, bytes int64) error
}

// blob fetches a blob into containerd; it resumes the download of an earlier attempt.
func (f *fetcher) blob(ctx context.Context, desc ocispec.Descriptor) error {
	info, err := f.in.Content.Info(ctx, desc.Digest)
	if err == nil && info.Size != desc.Size {
		return invalid("%s has %d bytes, its manifest says %d", desc.Digest, info.Size, desc.Size)
	}
	if err == nil {
		return f.in.HoldBlob(ctx, f.label, desc.Digest)
	}
	if !errdefs.IsNotFound(err) {
		return catalog.Kinded(err, "look for a blob")
	}
	from, err := f.once(ctx, desc)
	if errors.Is(err, errWrong) && from > 0 {
		// The wrong bytes may be those that were fetched before.
		_, err = f.once(ctx, desc)
	}
	if errors.Is(err, errWrong) {
		return node.Errorf(node.Refused, "cannot pull %s: the bytes of %s aren't those of its digest", f.ref.Text, desc.Digest)
	}
	return err
}

// once gets the rest of a blob, and returns how much was here before.
func (f *fetcher) once(ctx context.Context, desc ocispec.Descriptor) (from int64, err error) {
	// The writer gets no digest: with one containerd would take the blob from
	// another user's namespace.
	ref := catalog.BlobRef(f.label, desc.Digest)
	w, err := f.in.Content.Writer(ctx, content.WithRef(ref))
	if err != nil {
		return 0, catalog.Kinded(err, "store a blob")
	}
	defer w.Close()
	st, err := w.Status()
	if err != nil {
		return 0, catalog.Kinded(err, "store a blob")
	}
	if st.Offset > desc.Size {
		if err := w.Truncate(0); err != nil {
			return 0, catalog.Kinded(err, "store a blob")
		}
		st.Offset = 0
	}
	f.progress(func(i *node.Image) {
		if i.Total > 0 {
			i.Done += uint64(st.Offset)
		}
	})
	if err := f.copy(ctx, w, desc, st.Offset); err != nil {
		return st.Offset, err
	}
	err = w.Commit(ctx, desc.Size, desc.Digest)
	if err == nil || errdefs.IsAlreadyExists(err) {
		return st.Offset, nil
	}
	if !errdefs.IsFailedPrecondition(err) {
		return st.Offset, catalog.Kinded(err, "store a blob")
	}
	_ = w.Close()
	f.progress(func(i *node.Image) { i.Done -= min(i.Done, uint64(desc.Size)) })
	if err := f.in.Abort(ctx, ref); err != nil {
		return st.Offset, err
	}
	return st.Offset, errWrong
}

// copy writes the bytes of a blob from an offset on, and not one more than it has.
func (f *fetcher) copy(ctx context.Context, w io.Writer, desc ocispec.Descriptor, from int64) error {
	if from == desc.Size {
		return nil
	}
	r, err := f.from.Fetch(ctx, desc)
	if err != nil {
		return err
	}
	defer r.Close()
	if from > 0 {
		if err := registry.Skip(r, from); err != nil {
			return f.from.Wrap(err)
		}
	}
	buf := make([]byte, readAt)
	for left, looked := desc.Size-from, int64(0); ; {
		n, err := r.Read(buf)
		if int64(n) > left {
			return node.Errorf(node.Refused, "cannot pull %s: %s has more than the %d bytes that its manifest says", f.ref.Text, desc.Digest, desc.Size)
		}
		if _, err := w.Write(buf[:n]); err != nil {
			return catalog.Kinded(err, "store a blob")
		}
		left -= int64(n)
		f.progress(func(i *node.Image) {
			if i.Total > 0 {
				i.Done += uint64(n)
			}
		})
		if looked += int64(n); looked >= spaceEach {
			looked = 0
			if err := f.room(ctx, 0); err != nil {
				return err
			}
		}
		switch {
		case err == io.EOF && left > 0:
			return node.Errorf(node.Refused, "cannot pull %s: %s has %d bytes fewer than its manifest says", f.ref.Text, desc.Digest, left)
		case err == io.EOF:
			return nil
		case err != nil:
			return f.from.Wrap(err)
		}
	}
}
