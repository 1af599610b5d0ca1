package document

import (
	"strings"

	"github.com/containerd/containerd/v2/core/images"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/croft-edge/croft/pkg/limit"
)

// The bounds of a document. Registries must take manifests of 4 MiB, by OCI's
// distribution specification. runc's overlay holds 128 layers on every kernel.
const (
	MostBytes = 4 << 20
	// mostName is for media types, digests and platforms, mostText for a text of
	// a config, which the kernel takes no longer, mostWords for how many it has.
	mostName  = 1 << 10
	mostText  = 128 << 10
	mostWords = 10_000
)

// The limits whose refusals are counted: bytes of a document, layers of a
// manifest, entries of an index.
var (
	Bytes   = limit.Limit{Name: "image-document-bytes", Per: "document", Each: 4 << 20, Unit: limit.Bytes}
	Layers  = limit.Limit{Name: "image-layers", Per: "image", Each: 128}
	Entries = limit.Limit{Name: "image-index-entries", Per: "index", Each: 1000}
)

// Document is a manifest or an index: Manifests isn't nil in an index only. Of
// descriptors it has media type, digest, size and platform; of URLs only whether
// there are any.
type Document struct {
	MediaType string
	Manifests []ocispec.Descriptor
	Config    *ocispec.Descriptor
	Layers    []ocispec.Descriptor
}

// Decode reads a document of a media type. It is an index when it has manifests.
// node.Invalid.
func Decode(raw []byte, media string) (Document, error) {
	var d Document
	s, err := open(raw, "manifest", '{')
	if err != nil {
		return d, err
	}
	manifest := false
	err = s.object("manifest", map[string]func() error{
		"mediaType": func() (err error) { d.MediaType, err = s.str("media type", mostName); return err },
		"manifests": func() error {
			if s.next() == '[' {
				d.Manifests = []ocispec.Descriptor{}
			}
			return s.descriptors("entries", Entries, &d.Manifests)
		},
		"layers": func() error {
			manifest = manifest || s.next() == '['
			return s.descriptors("layers", Layers, &d.Layers)
		},
		"config": func() error {
			if s.null() {
				return nil
			}
			manifest = true
			config, err := s.descriptor()
			d.Config = &config
			return err
		},
	})
	if err != nil {
		return Document{}, err
	}
	return d, d.check(media, manifest)
}

// check refuses a document that doesn't match its media types.
func (d Document) check(media string, manifest bool) error {
	for _, m := range []string{media, d.MediaType} {
		if !images.IsIndexType(m) && !images.IsManifestType(m) && m != "" && !strings.HasPrefix(m, "application/json") {
			return invalid("its manifest is a %.100q, must be an OCI or Docker (schema 2) image manifest or index", m)
		}
	}
	index := d.Manifests != nil
	switch {
	case index == manifest:
		return invalid("its manifest must have either manifests or a config and layers")
	case index && (images.IsManifestType(media) || images.IsManifestType(d.MediaType)), manifest && (images.IsIndexType(media) || images.IsIndexType(d.MediaType)):
		return invalid("its manifest isn't what its media type says")
	}
	return nil
}

func (s *scanner) descriptors(name string, most limit.Limit, into *[]ocispec.Descriptor) error {
	return s.list(name, most, func(int) error {
		one, err := s.descriptor()
		*into = append(*into, one)
		return err
	})
}

func (s *scanner) descriptor() (d ocispec.Descriptor, err error) {
	err = s.object("descriptor", map[string]func() error{
		"mediaType": func() (err error) { d.MediaType, err = s.str("media type", mostName); return err },
		"digest": func() error {
			text, err := s.str("digest", mostName)
			d.Digest = digest.Digest(text)
			return err
		},
		"size": func() (err error) { d.Size, err = s.number("size"); return err },
		"urls": func() error {
			if s.next() == '[' {
				if s.at++; s.next() != ']' {
					d.URLs = []string{""}
				}
				s.count(0)
				s.at++
				return nil
			}
			s.skip()
			return nil
		},
		"platform": func() error {
			if s.null() {
				return nil
			}
			var p ocispec.Platform
			err := s.object("platform", s.platform(&p))
			d.Platform = &p
			return err
		},
	})
	return d, err
}

// platform reads the members of a platform, wherever they are.
func (s *scanner) platform(p *ocispec.Platform) map[string]func() error {
	text := func(into *string) func() error {
		return func() (err error) { *into, err = s.str("platform", mostName); return err }
	}
	return map[string]func() error{
		"architecture": text(&p.Architecture), "os": text(&p.OS), "os.version": text(&p.OSVersion), "variant": text(&p.Variant),
	}
}
