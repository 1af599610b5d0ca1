package imagetest

import (
	"context"
	"encoding/json"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/pkg/errors"
)

// Artifact is what `oras push --artifact-type TYPE` makes of files: an OCI image manifest whose layers have their files'
// names.
type Artifact struct {
	Type  string
	Files []ArtifactFile
	// Change changes the manifest before it is pushed: one that lies. May be nil.
	Change func(m *ocispec.Manifest)
}

// ArtifactFile is a file of an artifact.
type ArtifactFile struct{ Name, Content string }

// fileType is the media type that oras gives files.
const fileType = ocispec.MediaTypeImageLayer

// Push pushes the artifact to HOST:PORT/NAME:TAG, and returns the digest of its manifest. It accesses a registry on
// loopback over plain HTTP.
func (a Artifact) Push(ctx context.Context, ref string, options ...remote.Option) (v1.Hash, error) {
	parsed, err := name.ParseReference(ref)
	if err != nil {
		return v1.Hash{}, errors.Wrap(err, "cannot push an artifact")
	}
	m := ocispec.Manifest{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest, ArtifactType: a.Type, Config: ocispec.DescriptorEmptyJSON, Layers: []ocispec.Descriptor{},
	}
	push := func(content []byte, media string) error {
		return remote.WriteLayer(parsed.Context(), static.NewLayer(content, types.MediaType(media)), append(options, remote.WithContext(ctx))...)
	}
	if err := push(ocispec.DescriptorEmptyJSON.Data, ocispec.MediaTypeEmptyJSON); err != nil {
		return v1.Hash{}, errors.Wrap(err, "cannot push an artifact")
	}
	for _, f := range a.Files {
		content := []byte(f.Content)
		if err := push(content, fileType); err != nil {
			return v1.Hash{}, errors.Wrapf(err, "cannot push %s", f.Name)
		}
		m.Layers = append(m.Layers, ocispec.Descriptor{
			MediaType: fileType, Digest: digest.FromBytes(content), Size: int64(len(content)), Annotations: map[string]string{ocispec.AnnotationTitle: f.Name},
		})
	}
	if a.Change != nil {
		a.Change(&m)
	}
	raw, err := json.Marshal(m)
	if err != nil {
		return v1.Hash{}, errors.Wrap(err, "cannot push an artifact")
	}
	return PushManifest(ctx, ref, ocispec.MediaTypeImageManifest, raw, options...)
}
