package catalog

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/errdefs"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// oneBlob is a content store with one blob, or without it when it is gone.
type oneBlob struct {
	content.Store
	raw  []byte
	gone bool
	read int
}

func (o *oneBlob) Info(context.Context, digest.Digest) (content.Info, error) {
	if o.gone {
		return content.Info{}, errdefs.ErrNotFound
	}
	return content.Info{Size: int64(len(o.raw))}, nil
}

func (o *oneBlob) ReaderAt(context.Context, ocispec.Descriptor) (content.ReaderAt, error) {
	if o.gone {
		return nil, errdefs.ErrNotFound
	}
	o.read++
	return atReader{bytes.NewReader(o.raw)}, nil
}

type atReader struct{ *bytes.Reader }

func (atReader) Close() error { return nil }

// A blob is read once, and isn't there for who doesn't have it: another user, or
// one whose image is gone.
func TestBlobCacheRespectsNamespaces(t *testing.T) {
	have := &oneBlob{raw: []byte("config")}
	desc := ocispec.Descriptor{Digest: digest.FromBytes(have.raw), Size: int64(len(have.raw))}
	var b blobs
	for range 3 {
		if raw, err := b.read(t.Context(), have, desc); err != nil || string(raw) != "config" {
			t.Fatalf("%q, %v", raw, err)
		}
	}
	if have.read != 1 {
		t.Errorf("it was read %d times, want once", have.read)
	}
	if _, err := b.read(t.Context(), &oneBlob{gone: true}, desc); !errors.Is(err, errdefs.ErrNotFound) {
		t.Errorf("who doesn't have it gets %v", err)
	}
}

func TestBlobCacheIsBounded(t *testing.T) {
	var b blobs
	for i := range 100 {
		b.keep(digest.FromString(strings.Repeat("a", i)), make([]byte, mostBlobs/10))
		b.keep(digest.FromString(strings.Repeat("b", i)), make([]byte, mostBlobs+1))
	}
	sum := 0
	for _, raw := range b.has {
		sum += len(raw)
	}
	if sum == 0 || sum > mostBlobs || sum != b.sum {
		t.Errorf("%d bytes are remembered, counted as %d, want at most %d", sum, b.sum, mostBlobs)
	}
}
