package source

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"path"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/croft-edge/croft/modules/container/image/document"
	"github.com/croft-edge/croft/pkg/node"
)

// saved is an archive of docker save as a source: it has no manifest, so one is
// made of its parts.
type saved struct {
	ref      Reference
	tarball  *tarball
	manifest []byte
	names    map[digest.Digest]string
}

// openSaved makes the manifest of the tar's only image.
func openSaved(r Reference, a *tarball) (Source, error) {
	raw, err := readAll(a, "manifest.json", document.MostBytes)
	if err != nil {
		return nil, err
	}
	is, err := document.DecodeSaved(raw)
	if err != nil {
		return nil, err
	}
	s := &saved{ref: r, tarball: a, names: map[digest.Digest]string{}}
	m := ocispec.Manifest{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest}
	if m.Config, err = s.add(is.Config, ocispec.MediaTypeImageConfig); err != nil {
		return nil, err
	}
	for _, name := range is.Layers {
		layer, err := s.add(name, ocispec.MediaTypeImageLayer)
		if err != nil {
			return nil, err
		}
		m.Layers = append(m.Layers, layer)
	}
	s.manifest, err = json.Marshal(m)
	return s, err
}

// add describes a file of the tar.
func (s *saved) add(name, media string) (ocispec.Descriptor, error) {
	name = path.Clean(name)
	m := s.tarball.members[name]
	if m == nil {
		return ocispec.Descriptor{}, node.Errorf(node.Invalid, "cannot find %.200q in it, which its manifest.json names", name)
	}
	d, err := digest.FromReader(io.NewSectionReader(m, 0, m.Size()))
	if err != nil {
		return ocispec.Descriptor{}, err
	}
	s.names[d] = name
	return ocispec.Descriptor{MediaType: media, Digest: d, Size: m.Size()}, nil
}

func (s *saved) Resolve(context.Context) (ocispec.Descriptor, error) {
	return ocispec.Descriptor{MediaType: ocispec.MediaTypeImageManifest, Digest: digest.FromBytes(s.manifest), Size: int64(len(s.manifest))}, nil
}

func (s *saved) Fetch(_ context.Context, desc ocispec.Descriptor) (io.ReadCloser, error) {
	if desc.Digest == digest.FromBytes(s.manifest) {
		return io.NopCloser(bytes.NewReader(s.manifest)), nil
	}
	r, err := s.tarball.Open(s.names[desc.Digest])
	return r, localError(err, s.ref)
}

func (s *saved) Wrap(err error) error { return localError(err, s.ref) }
func (s *saved) Close() error         { return s.tarball.Close() }
