package catalog

import (
	"context"
	"sync"

	"github.com/containerd/containerd/v2/core/content"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// blobs caches small blobs by digest: their content never changes, so only whether
// they still exist is asked again. It is safe for concurrent use.
type blobs struct {
	mu  sync.Mutex
	has map[digest.Digest][]byte
	sum int
}

// mostBlobs is how many bytes of blobs are cached.
const mostBlobs = 256 << 10

// read returns a blob of the namespace of ctx. NotFound when it has none.
func (b *blobs) read(ctx context.Context, from content.Store, desc ocispec.Descriptor) ([]byte, error) {
	b.mu.Lock()
	raw, known := b.has[desc.Digest]
	b.mu.Unlock()
	if known {
		// The cached one may be another user's.
		_, err := from.Info(ctx, desc.Digest)
		return raw, err
	}
	raw, err := content.ReadBlob(ctx, from, desc)
	if err == nil {
		b.keep(desc.Digest, raw)
	}
	return raw, err
}

// keep caches a blob. When the cache is full it is emptied first.
func (b *blobs) keep(d digest.Digest, raw []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, known := b.has[d]; known || len(raw) > mostBlobs {
		return
	}
	if b.has == nil || b.sum+len(raw) > mostBlobs {
		b.has, b.sum = map[digest.Digest][]byte{}, 0
	}
	b.has[d] = raw
	b.sum += len(raw)
}
