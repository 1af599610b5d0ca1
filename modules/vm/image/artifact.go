package image

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/strictjson"
	"github.com/croft-edge/croft/pkg/vmimage"
)

// Type is the type of artifacts that are images of VMs.
const Type = "application/vnd.croft.vm-image.v1"

// unpacked is the annotation by which oras says that a layer is a packed folder.
const unpacked = "io.deis.oras.content.unpack"

// artifact has an artifact's files, by their names.
type artifact map[string]file

// file is one file of an artifact.
type file struct {
	name string
	blob ocispec.Descriptor
}

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
			files[name] = file{name, ocispec.Descriptor{MediaType: l.MediaType, Digest: l.Digest, Size: l.Size}}
		}
	}
	return files, nil
}

// description is the file of the image's own manifest.
func (a artifact) description() (file, error) {
	f, ok := a[vmimage.Manifest]
	switch {
	case !ok:
		return file{}, refused("it has no file %s: the title of a layer must be its file's name", vmimage.Manifest)
	case f.blob.Size > vmimage.MaxManifest:
		return file{}, refused("its %s has %d bytes, at most %d are allowed", vmimage.Manifest, f.blob.Size, vmimage.MaxManifest)
	}
	return f, nil
}

// files are those that the image's own manifest names, in order, and their bytes together. Others aren't fetched.
func (a artifact) files(d vmimage.Description) (files []file, total int64, err error) {
	for name, sum := range d.Sums {
		f, ok := a[name]
		if !ok {
			return nil, 0, refused("its %s names %s, which is none of its files", vmimage.Manifest, name)
		}
		if f.blob.Digest.Encoded() != sum {
			return nil, 0, refused("the SHA-256 of %s is %s, its %s says %s", name, f.blob.Digest.Encoded(), vmimage.Manifest, sum)
		}
		if f.blob.Size > Bytes.Each-total {
			Bytes.Reached()
			return nil, 0, refused("it has more than %d bytes", Bytes.Each)
		}
		total += f.blob.Size
		files = append(files, f)
	}
	slices.SortFunc(files, func(a, b file) int { return strings.Compare(a.name, b.name) })
	return files, total, nil
}
