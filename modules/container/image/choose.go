package image

import (
	"context"

	"github.com/containerd/containerd/v2/core/content"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/croft-edge/croft/modules/container/image/catalog"
	"github.com/croft-edge/croft/modules/container/image/document"
	"github.com/croft-edge/croft/pkg/node"
)

// mostChoices is how many entries of an index are looked at that don't say
// which machine they are for.
const mostChoices = 16

// choose finds the image for this machine, beginning with the reference's root descriptor.
func (f *fetcher) choose(ctx context.Context, root ocispec.Descriptor) (chosen, error) {
	depth := 0
	if root.Data != nil {
		// A layout's own index isn't one that anybody made for the image.
		depth = -1
	}
	looked := 0
	return f.descend(ctx, root, depth, &looked)
}

func (f *fetcher) descend(ctx context.Context, desc ocispec.Descriptor, depth int, looked *int) (chosen, error) {
	if *looked++; *looked > mostChoices {
		return chosen{}, invalid("more than %d manifests had to be read to find the one for this machine", mostChoices)
	}
	raw, err := f.small(ctx, desc)
	if err != nil {
		return chosen{}, err
	}
	d, err := document.Decode(raw, desc.MediaType)
	if err != nil {
		return chosen{}, err
	}
	if d.Manifests == nil {
		return f.image(ctx, desc, d)
	}
	if depth >= mostIndexes {
		return chosen{}, invalid("its indexes are nested more than %d levels deep", mostIndexes)
	}
	fit, err := choose(d.Manifests)
	if err != nil {
		return chosen{}, err
	}
	for i, entry := range fit {
		c, err := f.descend(ctx, entry, depth+1, looked)
		// An entry that names no machine may be for another one.
		if node.KindOf(err) == node.Invalid && entry.Platform == nil && i+1 < len(fit) {
			continue
		}
		return c, err
	}
	return chosen{}, wrongMachine("")
}

// image reads the config of a manifest.
func (f *fetcher) image(ctx context.Context, desc ocispec.Descriptor, d document.Document) (chosen, error) {
	total, err := checkManifest(d)
	if err != nil {
		return chosen{}, err
	}
	raw, err := f.small(ctx, *d.Config)
	if err != nil {
		return chosen{}, err
	}
	config, err := readConfig(raw, len(d.Layers))
	return chosen{manifest: desc, document: d, config: config, total: total}, err
}

// small fetches a manifest, an index or a config, and returns it.
func (f *fetcher) small(ctx context.Context, desc ocispec.Descriptor) ([]byte, error) {
	if desc.Data != nil && desc.Digest.Algorithm().FromBytes(desc.Data) == desc.Digest {
		return desc.Data, nil
	}
	if err := checkDescriptor(desc); err != nil {
		return nil, err
	}
	if desc.Size > document.MostBytes {
		document.Bytes.Reached()
		return nil, invalid("its manifest has %d bytes, at most %d are allowed", desc.Size, document.MostBytes)
	}
	if err := f.blob(ctx, desc); err != nil {
		return nil, err
	}
	raw, err := content.ReadBlob(ctx, f.in.Content, desc)
	return raw, catalog.Kinded(err, "read a manifest")
}
