package image

import (
	"fmt"
	"runtime"
	"strings"

	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/platforms"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/croft-edge/croft/modules/container/image/document"
	"github.com/croft-edge/croft/pkg/node"
)

// mostIndexes is how deep indexes may lie in each other.
const mostIndexes = 2

func invalid(format string, args ...any) error {
	return node.Errorf(node.Invalid, "cannot use the image: "+format, args...)
}

// checkManifest refuses a manifest that can't be used, and sums up its sizes.
func checkManifest(d document.Document) (total int64, err error) {
	if d.Config == nil || !images.IsConfigType(d.Config.MediaType) {
		return 0, invalid("its config isn't that of a container image")
	}
	if d.Config.Size > document.MostBytes {
		return 0, invalid("its config has %d bytes, at most %d are allowed", d.Config.Size, document.MostBytes)
	}
	if len(d.Layers) == 0 {
		return 0, invalid("it has no layers")
	}
	for _, l := range append([]ocispec.Descriptor{*d.Config}, d.Layers...) {
		if err := checkDescriptor(l); err != nil {
			return 0, err
		}
		if total += l.Size; total < 0 {
			return 0, invalid("the sizes of its layers overflow")
		}
	}
	for _, l := range d.Layers {
		if err := checkLayer(l); err != nil {
			return 0, err
		}
	}
	return total, nil
}

func checkDescriptor(d ocispec.Descriptor) error {
	if err := d.Digest.Validate(); err != nil || d.Digest.Algorithm() != digest.SHA256 {
		return invalid("%.100q isn't a sha256 digest", d.Digest)
	}
	if d.Size < 0 {
		return invalid("%s has a negative size", d.Digest)
	}
	return nil
}

func checkLayer(l ocispec.Descriptor) error {
	media, _, _ := strings.Cut(l.MediaType, ";")
	switch {
	case images.IsNonDistributable(media) || len(l.URLs) > 0:
		return invalid("its layer %s lies elsewhere (%.100q), foreign layers aren't fetched", l.Digest, l.MediaType)
	case media == ocispec.MediaTypeImageLayer, media == ocispec.MediaTypeImageLayerGzip, media == ocispec.MediaTypeImageLayerZstd,
		media == images.MediaTypeDockerSchema2Layer, media == images.MediaTypeDockerSchema2LayerGzip, media == images.MediaTypeDockerSchema2LayerZstd:
		return nil
	}
	return invalid("its layer %s is a %.100q, must be a tar, plain or packed with gzip or zstd", l.Digest, l.MediaType)
}

// forThisMachine reports whether an image for that platform runs here. Other
// architectures that this CPU can also run don't count.
func forThisMachine(p ocispec.Platform) bool {
	return p.Architecture == runtime.GOARCH && p.OS == runtime.GOOS && platforms.Only(platforms.DefaultSpec()).Match(platforms.Normalize(p))
}

// choose picks the entries of an index that may be for this machine: those
// that say so, or all that say nothing.
func choose(entries []ocispec.Descriptor) ([]ocispec.Descriptor, error) {
	var fit []ocispec.Descriptor
	var others []string
	for _, e := range entries {
		if !images.IsIndexType(e.MediaType) && !images.IsManifestType(e.MediaType) {
			continue
		}
		if e.Platform == nil || forThisMachine(*e.Platform) {
			fit = append(fit, e)
			continue
		}
		if len(others) < 20 {
			others = append(others, fmt.Sprintf("%.20s/%.20s", e.Platform.OS, e.Platform.Architecture))
		}
	}
	if len(fit) == 0 {
		return nil, wrongMachine(strings.Join(others, ", "))
	}
	return fit, nil
}

func wrongMachine(theirs string) error {
	if theirs == "" {
		theirs = "no machine"
	}
	return invalid("it is for %s, this node is %s/%s", theirs, runtime.GOOS, runtime.GOARCH)
}

// readConfig reads an image's config, and checks it against its manifest.
func readConfig(raw []byte, layers int) (ocispec.Image, error) {
	c, err := document.DecodeConfig(raw)
	if err != nil {
		return c, err
	}
	if !forThisMachine(c.Platform) {
		return c, wrongMachine(fmt.Sprintf("%.20s/%.20s", c.OS, c.Architecture))
	}
	if len(c.RootFS.DiffIDs) != layers {
		return c, invalid("its config has %d layers, its manifest %d", len(c.RootFS.DiffIDs), layers)
	}
	for _, d := range c.RootFS.DiffIDs {
		if d.Validate() != nil || d.Algorithm() != digest.SHA256 {
			return c, invalid("its config has %.100q, which isn't a sha256 digest", d)
		}
	}
	return c, nil
}
