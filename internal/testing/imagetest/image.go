package imagetest

import (
	"bytes"
	"context"
	"os"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/pkg/errors"
)

// Image makes the image.
func (b *Builder) Image() (v1.Image, error) {
	base := empty.Image
	if b.docker {
		base = mutate.ConfigMediaType(mutate.MediaType(base, types.DockerManifestSchema2), types.DockerConfigJSON)
	} else {
		base = mutate.ConfigMediaType(mutate.MediaType(base, types.OCIManifestSchema1), types.OCIConfigJSON)
	}
	image, err := mutate.ConfigFile(base, b.config.DeepCopy())
	if err != nil {
		return nil, errors.Wrap(err, "cannot make an image")
	}
	for _, l := range b.layers {
		made, err := l.build(b.docker)
		if err != nil {
			return nil, err
		}
		if image, err = mutate.AppendLayers(image, made); err != nil {
			return nil, errors.Wrap(err, "cannot add a layer")
		}
	}
	return image, nil
}

// Layout writes the image as an OCI layout folder and returns the digest of its
// manifest.
func (b *Builder) Layout(dir string) (v1.Hash, error) {
	image, err := b.Image()
	if err != nil {
		return v1.Hash{}, err
	}
	return WriteLayout(dir, image)
}

// WriteLayout writes images as one OCI layout folder and returns the digest of
// the last one's manifest.
func WriteLayout(dir string, images ...v1.Image) (v1.Hash, error) {
	p, err := layout.Write(dir, empty.Index)
	if err != nil {
		return v1.Hash{}, errors.Wrap(err, "cannot write an OCI layout")
	}
	var digest v1.Hash
	for _, image := range images {
		if err := p.AppendImage(image); err != nil {
			return v1.Hash{}, errors.Wrap(err, "cannot write an OCI layout")
		}
		if digest, err = image.Digest(); err != nil {
			return v1.Hash{}, errors.Wrap(err, "cannot write an OCI layout")
		}
	}
	return digest, nil
}

// Tar writes the image as a tar of an OCI layout.
func (b *Builder) Tar(path string) (v1.Hash, error) {
	dir, err := os.MkdirTemp("", "croft-image-")
	if err != nil {
		return v1.Hash{}, errors.Wrap(err, "cannot make a folder")
	}
	defer os.RemoveAll(dir)
	digest, err := b.Layout(dir)
	if err != nil {
		return v1.Hash{}, err
	}
	return digest, TarFolder(path, dir)
}

// DockerTar writes the image as `docker save` does, under a tag such as "app:1".
func (b *Builder) DockerTar(path, tag string) error {
	image, err := b.Image()
	if err != nil {
		return err
	}
	t, err := name.NewTag(tag)
	if err != nil {
		return errors.Wrap(err, "cannot write an image's tar")
	}
	return errors.Wrap(tarball.WriteToFile(path, t, image), "cannot write an image's tar")
}

// Push pushes the image to HOST:PORT/NAME:TAG and returns the digest of its manifest. It accesses a
// registry on loopback over plain HTTP.
func (b *Builder) Push(ctx context.Context, ref string, options ...remote.Option) (v1.Hash, error) {
	image, err := b.Image()
	if err != nil {
		return v1.Hash{}, err
	}
	return PushImage(ctx, ref, image, options...)
}

// PushImage pushes an existing image.
func PushImage(ctx context.Context, ref string, image v1.Image, options ...remote.Option) (v1.Hash, error) {
	parsed, err := name.ParseReference(ref)
	if err != nil {
		return v1.Hash{}, errors.Wrap(err, "cannot push an image")
	}
	if err := remote.Write(parsed, image, append(options, remote.WithContext(ctx))...); err != nil {
		return v1.Hash{}, errors.Wrap(err, "cannot push an image")
	}
	digest, err := image.Digest()
	return digest, errors.Wrap(err, "cannot push an image")
}

// PushIndex pushes an index with its images.
func PushIndex(ctx context.Context, ref string, index v1.ImageIndex, options ...remote.Option) (v1.Hash, error) {
	parsed, err := name.ParseReference(ref)
	if err != nil {
		return v1.Hash{}, errors.Wrap(err, "cannot push an index")
	}
	if err := remote.WriteIndex(parsed, index, append(options, remote.WithContext(ctx))...); err != nil {
		return v1.Hash{}, errors.Wrap(err, "cannot push an index")
	}
	digest, err := index.Digest()
	return digest, errors.Wrap(err, "cannot push an index")
}

// PushManifest pushes a manifest as it is, even an invalid one, and returns its digest.
func PushManifest(ctx context.Context, ref, mediaType string, raw []byte, options ...remote.Option) (v1.Hash, error) {
	parsed, err := name.ParseReference(ref)
	if err != nil {
		return v1.Hash{}, errors.Wrap(err, "cannot push a manifest")
	}
	m := rawManifest{raw, types.MediaType(mediaType)}
	if err := remote.Put(parsed, m, append(options, remote.WithContext(ctx))...); err != nil {
		return v1.Hash{}, errors.Wrap(err, "cannot push a manifest")
	}
	digest, _, err := v1.SHA256(bytes.NewReader(raw))
	return digest, errors.Wrap(err, "cannot push a manifest")
}

type rawManifest struct {
	raw   []byte
	media types.MediaType
}

func (m rawManifest) RawManifest() ([]byte, error)        { return m.raw, nil }
func (m rawManifest) MediaType() (types.MediaType, error) { return m.media, nil }
