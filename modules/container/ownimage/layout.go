package ownimage

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"runtime"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/pkg/errors"

	"github.com/croft-edge/croft/pkg/node"
)

// parts are all files of a layout.
type parts struct {
	program  program
	layer    ocispec.Descriptor
	manifest ocispec.Descriptor
	// texts are the small ones, by their path in the folder.
	texts map[string][]byte
}

// describe reads the program, and computes all files of its layout.
func describe(name string, p program) (parts, error) {
	sum, size := digest.SHA256.Digester(), counter(0)
	if err := p.tar(io.MultiWriter(sum.Hash(), &size)); err != nil {
		return parts{}, err
	}
	out := parts{program: p, texts: map[string][]byte{}}
	out.layer = ocispec.Descriptor{MediaType: ocispec.MediaTypeImageLayer, Digest: sum.Digest(), Size: int64(size)}
	config, err := out.add(ocispec.MediaTypeImageConfig, ocispec.Image{
		Platform: ocispec.Platform{OS: runtime.GOOS, Architecture: runtime.GOARCH},
		Config:   ocispec.ImageConfig{Entrypoint: []string{"/" + name}},
		RootFS:   ocispec.RootFS{Type: "layers", DiffIDs: []digest.Digest{out.layer.Digest}},
	})
	if err != nil {
		return parts{}, err
	}
	two := specs.Versioned{SchemaVersion: 2}
	out.manifest, err = out.add(ocispec.MediaTypeImageManifest, ocispec.Manifest{
		Versioned: two, MediaType: ocispec.MediaTypeImageManifest, Config: config, Layers: []ocispec.Descriptor{out.layer},
	})
	if err != nil {
		return parts{}, err
	}
	out.texts[ocispec.ImageIndexFile], err = json.Marshal(ocispec.Index{
		Versioned: two, MediaType: ocispec.MediaTypeImageIndex, Manifests: []ocispec.Descriptor{out.manifest},
	})
	if err == nil {
		out.texts[ocispec.ImageLayoutFile], err = json.Marshal(ocispec.ImageLayout{Version: ocispec.ImageLayoutVersion})
	}
	return out, errors.Wrapf(err, "cannot describe image %s", name)
}

// counter counts bytes.
type counter int64

func (c *counter) Write(b []byte) (int, error) {
	*c += counter(len(b))
	return len(b), nil
}

// add adds a document to the blobs.
func (p *parts) add(media string, document any) (ocispec.Descriptor, error) {
	raw, err := json.Marshal(document)
	d := digest.FromBytes(raw)
	p.texts[blob(d)] = raw
	return ocispec.Descriptor{MediaType: media, Digest: d, Size: int64(len(raw))}, errors.Wrap(err, "cannot describe an image")
}

func blob(d digest.Digest) string {
	return filepath.Join(ocispec.ImageBlobsDir, d.Algorithm().String(), d.Encoded())
}

// existIn reports whether a folder has all parts, undamaged.
func (p *parts) existIn(path string) bool {
	for name, want := range p.texts {
		if got, err := os.ReadFile(filepath.Join(path, name)); err != nil || !bytes.Equal(got, want) {
			return false
		}
	}
	f, err := os.Open(filepath.Join(path, blob(p.layer.Digest)))
	if err != nil {
		return false
	}
	defer f.Close()
	got, err := digest.SHA256.FromReader(f)
	return err == nil && got == p.layer.Digest
}

// write makes a temporary folder with all parts, and renames it.
func (p *parts) write(dir, name, path string) error {
	temporary, err := os.MkdirTemp(dir, newPrefix+name+"-")
	if err != nil {
		return errors.Wrapf(err, "cannot make a folder for image %s", name)
	}
	defer os.RemoveAll(temporary)
	blobs := filepath.Join(temporary, ocispec.ImageBlobsDir, digest.SHA256.String())
	if err := os.MkdirAll(blobs, 0o700); err != nil {
		return errors.Wrapf(err, "cannot make a folder for image %s", name)
	}
	for file, text := range p.texts {
		err := writeFile(filepath.Join(temporary, file), func(w io.Writer) error {
			_, err := w.Write(text)
			return err
		})
		if err != nil {
			return err
		}
	}
	if err := writeFile(filepath.Join(temporary, blob(p.layer.Digest)), p.writeLayer); err != nil {
		return err
	}
	for _, folder := range []string{blobs, filepath.Dir(blobs), temporary} {
		if err := syncFolder(folder); err != nil {
			return err
		}
	}
	if err := os.RemoveAll(path); err != nil { // it is damaged
		return errors.Wrapf(err, "cannot remove the damaged layout of image %s", name)
	}
	if err := os.Rename(temporary, path); err != nil {
		return errors.Wrapf(err, "cannot name image %s", name)
	}
	return syncFolder(dir)
}

// writeLayer packs the program again. It fails when the program has changed since describe.
func (p *parts) writeLayer(w io.Writer) error {
	sum := digest.SHA256.Digester()
	if err := p.program.tar(io.MultiWriter(w, sum.Hash())); err != nil {
		return err
	}
	if got := sum.Digest(); got != p.layer.Digest {
		return node.Errorf(node.Transient, "cannot pack the program of image %s: it is being changed", p.program.name)
	}
	return nil
}

func writeFile(path string, fill func(io.Writer) error) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return errors.Wrapf(err, "cannot write %s", path)
	}
	defer f.Close()
	if err := fill(f); err != nil {
		return err
	}
	return errors.Wrapf(f.Sync(), "cannot sync %s", path)
}

func syncFolder(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return errors.Wrapf(err, "cannot sync folder %s", path)
	}
	defer f.Close()
	return errors.Wrapf(f.Sync(), "cannot sync folder %s", path)
}
