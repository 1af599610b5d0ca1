package image

import (
	"context"
	"encoding/json"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/registry"
	"github.com/croft-edge/croft/pkg/strictjson"
	"github.com/croft-edge/croft/pkg/vmimage"
)

// Type is the type of artifacts that are images of VMs.
const Type = "application/vnd.croft.vm-image.v1"

// unpacked is the annotation by which oras says that a layer is a packed folder.
const unpacked = "io.deis.oras.content.unpack"

// documentTime is how long a document of some kilobytes may take.
const documentTime = 2 * time.Minute

// artifacts is the origin of a reference to an artifact.
type artifacts struct {
	client *registry.Client
	ref    registry.Reference
}

// look implements origin.
func (a artifacts) look(ctx context.Context) (offer, error) {
	from, err := a.client.Open(a.ref, "")
	if err != nil {
		return nil, unresolved{err}
	}
	desc, err := from.Resolve(ctx)
	if err != nil {
		from.Close()
		return nil, unresolved{err}
	}
	return artifactOffer{from, desc}, nil
}

// artifactOffer is the artifact that a reference leads to.
type artifactOffer struct {
	from repository
	desc ocispec.Descriptor
}

// repository is where an artifact is fetched from.
type repository interface {
	Fetch(ctx context.Context, desc ocispec.Descriptor) (io.ReadCloser, error)
	Wrap(err error) error
	Close() error
}

func (a artifactOffer) digest() digest.Digest { return a.desc.Digest }

func (a artifactOffer) close() { _ = a.from.Close() }

// contents implements offer.
func (a artifactOffer) contents(ctx context.Context) ([]byte, []file, error) {
	raw, err := a.small(ctx, a.desc, Documents.Each)
	if err != nil {
		return nil, nil, err
	}
	all, err := readManifest(raw)
	if err != nil {
		return nil, nil, err
	}
	own, err := all.description()
	if err != nil {
		return nil, nil, err
	}
	if raw, err = a.small(ctx, own, vmimage.MaxManifest); err != nil {
		return nil, nil, err
	}
	d, err := described(raw)
	if err != nil {
		return nil, nil, err
	}
	files, err := all.files(d, a.from)
	return raw, files, err
}

// small fetches a document.
func (a artifactOffer) small(ctx context.Context, desc ocispec.Descriptor, most int64) ([]byte, error) {
	if desc.Size > most {
		Documents.Reached()
		return nil, refused("a document of it has %d bytes, at most %d are allowed", desc.Size, most)
	}
	ctx, cancel := context.WithTimeout(ctx, documentTime)
	defer cancel()
	body, err := a.from.Fetch(ctx, desc)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	raw, err := io.ReadAll(io.LimitReader(body, desc.Size+1))
	switch {
	case ctx.Err() != nil:
		return nil, node.Errorf(node.Transient, "the registry takes more than %s for a document of %d bytes", documentTime, desc.Size)
	case err != nil:
		return nil, a.from.Wrap(err)
	case int64(len(raw)) != desc.Size, desc.Digest.Algorithm().FromBytes(raw) != desc.Digest:
		return nil, refused("the bytes of %s aren't those of its digest", desc.Digest)
	}
	return raw, nil
}

// blob is a file in a registry.
type blob struct {
	from repository
	desc ocispec.Descriptor
}

// usable implements content: whether the bytes are right is seen by the file's digest only.
func (b blob) usable(_ context.Context, _ io.Reader, bytes int64) (int64, error) { return bytes, nil }

// open implements content.
func (b blob) open(ctx context.Context, at int64) (io.ReadCloser, error) {
	body, err := b.from.Fetch(ctx, b.desc)
	if err != nil || at == 0 {
		return body, err
	}
	if err := registry.Skip(body, at); err != nil {
		body.Close()
		return nil, b.wrap(err)
	}
	return body, nil
}

// wrap implements content.
func (b blob) wrap(err error) error { return b.from.Wrap(err) }

// paced implements content.
func (b blob) paced() bool { return true }

// proven implements content.
func (b blob) proven() bool { return false }

// artifact has an artifact's files, by their names.
type artifact map[string]ocispec.Descriptor

func refused(format string, args ...any) error {
	return node.Errorf(node.Refused, "cannot use the artifact: "+format, args...)
}

// readManifest reads an artifact's manifest. node.Refused.
func readManifest(raw []byte) (artifact, error) {
	if err := (strictjson.Rules{Bytes: int(Documents.Each), Folded: true}).Check(raw); err != nil {
		return nil, refused("its manifest can't be read: %w", err)
	}
	var m ocispec.Manifest
	if err := json.Unmarshal(raw, &m); err != nil {
		return nil, refused("its manifest can't be read: %w", err)
	}
	if m.MediaType != "" && m.MediaType != ocispec.MediaTypeImageManifest || m.SchemaVersion != 2 || m.Layers == nil {
		return nil, refused("it is a %.100q, must be one OCI image manifest, and no index", m.MediaType)
	}
	kind := m.ArtifactType
	if kind == "" { // tools of OCI 1.0
		kind = m.Config.MediaType
	}
	if kind != Type {
		return nil, refused("its type is %.100q, must be %s", kind, Type)
	}
	if int64(len(m.Layers)) > Files.Each {
		Files.Reached()
		return nil, refused("it has %d files, at most %d are allowed", len(m.Layers), Files.Each)
	}
	files := artifact{}
	for _, l := range m.Layers {
		name := l.Annotations[ocispec.AnnotationTitle]
		if _, twice := files[name]; twice && name != "" {
			return nil, refused("it has %.100q twice", name)
		}
		if l.Digest.Validate() != nil || l.Digest.Algorithm() != digest.SHA256 || l.Size < 0 {
			return nil, refused("the digest or the size of %.100q can't be used: %.100q, %d", name, l.Digest, l.Size)
		}
		if name != "" && l.Annotations[unpacked] != "true" && len(l.URLs) == 0 {
			files[name] = ocispec.Descriptor{MediaType: l.MediaType, Digest: l.Digest, Size: l.Size}
		}
	}
	return files, nil
}

// description is the file of the image's own manifest.
func (a artifact) description() (ocispec.Descriptor, error) {
	f, ok := a[vmimage.Manifest]
	switch {
	case !ok:
		return f, refused("it has no file %s: the title of a layer must be its file's name", vmimage.Manifest)
	case f.Size > vmimage.MaxManifest:
		return f, refused("its %s has %d bytes, at most %d are allowed", vmimage.Manifest, f.Size, vmimage.MaxManifest)
	}
	return f, nil
}

// files are those that the image's own manifest names, in order. Others aren't fetched.
func (a artifact) files(d vmimage.Description, from repository) ([]file, error) {
	var out []file
	for _, name := range slices.Sorted(maps.Keys(d.Sums)) {
		f, ok := a[name]
		if !ok {
			return nil, refused("its %s names %s, which is none of its files", vmimage.Manifest, name)
		}
		if f.Digest.Encoded() != d.Sums[name] {
			return nil, refused("the SHA-256 of %s is %s, its %s says %s", name, f.Digest.Encoded(), vmimage.Manifest, d.Sums[name])
		}
		out = append(out, file{name: name, size: f.Size, sum: f.Digest, from: blob{from, f}})
	}
	return out, nil
}
