package image

import (
	"context"
	"io"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// source is where an image comes from. Its errors have kinds.
type source interface {
	// Resolve finds what the reference leads to: a manifest or an index.
	Resolve(ctx context.Context) (ocispec.Descriptor, error)
	// Fetch opens a blob. What it returns may be an io.Seeker.
	Fetch(ctx context.Context, desc ocispec.Descriptor) (io.ReadCloser, error)
	// Wrap gives what a reader of a blob has failed with its kind.
	Wrap(err error) error
	Close() error
}

// open is the source of a target.
func (s *Store) open(t target, auth string) (source, error) {
	if t.local() {
		return openLocal(t)
	}
	return s.openRegistry(t, auth)
}
