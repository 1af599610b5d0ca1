package image

import (
	"context"
	"errors"
	"io"
	"strings"

	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/errdefs"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/croft-edge/croft/pkg/node"
)

// readAt is how much of a blob is read at once, spaceEach after how much the
// space is looked at again.
const (
	readAt    = 256 << 10
	spaceEach = 16 << 20
)

// errWrong is a blob that isn't what its digest says.
var errWrong = errors.New("the digest is wrong")

func blobRef(label string, d digest.Digest) string { return "croft/" + label + "/" + d.Encoded() }
func ofLabel(ref, label string) bool               { return strings.HasPrefix(ref, "croft/"+label+"/") }

// blob gets a blob into containerd, from where an attempt before has come to.
func (a *attempt) blob(ctx context.Context, desc ocispec.Descriptor) error {
	info, err := a.parts.content.Info(ctx, desc.Digest)
	if err == nil && info.Size != desc.Size {
		return invalid("%s has %d bytes, its manifest says %d", desc.Digest, info.Size, desc.Size)
	}
	if err == nil {
		return a.also(ctx, "content", desc.Digest.String())
	}
	if !errdefs.IsNotFound(err) {
		return backend(err, "look for a blob")
	}
	from, err := a.blobOnce(ctx, desc)
	if errors.Is(err, errWrong) && from > 0 {
		// What was fetched before may be what is wrong.
		_, err = a.blobOnce(ctx, desc)
	}
	if errors.Is(err, errWrong) {
		return node.Errorf(node.Refused, "cannot pull %s: the bytes of %s aren't those of its digest", a.job.target.text, desc.Digest)
	}
	return err
}

// blobOnce gets the rest of a blob, and says how much was here before.
func (a *attempt) blobOnce(ctx context.Context, desc ocispec.Descriptor) (from int64, err error) {
	// The writer isn't told the digest: containerd would take the blob from
	// another user's namespace.
	ref := blobRef(a.job.spec.Label, desc.Digest)
	w, err := a.parts.content.Writer(ctx, content.WithRef(ref))
	if err != nil {
		return 0, backend(err, "store a blob")
	}
	defer w.Close()
	st, err := w.Status()
	if err != nil {
		return 0, backend(err, "store a blob")
	}
	if st.Offset > desc.Size {
		if err := w.Truncate(0); err != nil {
			return 0, backend(err, "store a blob")
		}
		st.Offset = 0
	}
	a.job.progress(func(i *node.Image) {
		if i.Total > 0 {
			i.Done += uint64(st.Offset)
		}
	})
	if err := a.copy(ctx, w, desc, st.Offset); err != nil {
		return st.Offset, err
	}
	err = w.Commit(ctx, desc.Size, desc.Digest)
	if err == nil || errdefs.IsAlreadyExists(err) {
		return st.Offset, nil
	}
	if !errdefs.IsFailedPrecondition(err) {
		return st.Offset, backend(err, "store a blob")
	}
	_ = w.Close()
	a.job.progress(func(i *node.Image) { i.Done -= min(i.Done, uint64(desc.Size)) })
	if err := a.parts.abort(ctx, ref); err != nil {
		return st.Offset, err
	}
	return st.Offset, errWrong
}

// copy writes the bytes of a blob from an offset on, and not one more than it has.
func (a *attempt) copy(ctx context.Context, w io.Writer, desc ocispec.Descriptor, from int64) error {
	if from == desc.Size {
		return nil
	}
	r, err := a.source.Fetch(ctx, desc)
	if err != nil {
		return err
	}
	defer r.Close()
	if from > 0 {
		if err := skip(r, from); err != nil {
			return a.source.Wrap(err)
		}
	}
	buf := make([]byte, readAt)
	for left, looked := desc.Size-from, int64(0); ; {
		n, err := r.Read(buf)
		if int64(n) > left {
			return node.Errorf(node.Refused, "cannot pull %s: %s has more than the %d bytes that its manifest says", a.job.target.text, desc.Digest, desc.Size)
		}
		if _, err := w.Write(buf[:n]); err != nil {
			return backend(err, "store a blob")
		}
		left -= int64(n)
		a.job.progress(func(i *node.Image) {
			if i.Total > 0 {
				i.Done += uint64(n)
			}
		})
		if looked += int64(n); looked >= spaceEach {
			looked = 0
			if err := a.store.room(ctx, 0); err != nil {
				return err
			}
		}
		switch {
		case err == io.EOF && left > 0:
			return node.Errorf(node.Refused, "cannot pull %s: %s has %d bytes fewer than its manifest says", a.job.target.text, desc.Digest, left)
		case err == io.EOF:
			return nil
		case err != nil:
			return a.source.Wrap(err)
		}
	}
}

func skip(r io.Reader, n int64) error {
	if s, ok := r.(io.Seeker); ok {
		_, err := s.Seek(n, io.SeekStart)
		return err
	}
	_, err := io.CopyN(io.Discard, r, n)
	return err
}
