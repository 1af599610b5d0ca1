package source

import (
	"context"
	"io"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/croft-edge/croft/pkg/registry"
)

// Source is where one image comes from. Its errors have kinds.
type Source interface {
	// Resolve returns the manifest or the index that the reference leads to.
	Resolve(ctx context.Context) (ocispec.Descriptor, error)
	// Fetch opens a blob. The reader may be an io.Seeker.
	Fetch(ctx context.Context, desc ocispec.Descriptor) (io.ReadCloser, error)
	// Wrap gives the error of a blob's reader its kind.
	Wrap(err error) error
	Close() error
}

// Sources parses references and opens them. New makes one; it is safe for
// concurrent use.
type Sources struct {
	cfg        Config
	registries *registry.Client
}

// New returns the sources that a valid c allows.
func New(c Config) *Sources { return &Sources{c, registry.New(c.Config)} }

// Open opens the source of a reference. auth is USER:PASSWORD for its registry,
// or empty.
func (s *Sources) Open(r Reference, auth string) (Source, error) {
	if r.Local() {
		return openLocal(r)
	}
	remote, err := s.registries.Open(r.remote, auth)
	if err != nil {
		return nil, err
	}
	return remote, nil
}
