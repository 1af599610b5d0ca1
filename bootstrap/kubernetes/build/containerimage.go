package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/croft-edge/croft/bootstrap/internal/imagebuild"
)

// containerUser is the user and group of the containers of the image's own images: nobody of any image.
const containerUser = "65532:65532"

// containerImage is an image of one static program.
type containerImage struct {
	// name has a tag.
	name string
	// program is the program's place in the image, from its path on this machine.
	program, from string
	// authorities is the path of a bundle of certificate authorities on this machine; empty for none.
	authorities string
}

// write writes the image as docker save does. Its layer is compressed, although the root file system is too: a guest
// without hardware virtualization imports CoreDNS with half of the processor time that an uncompressed layer takes.
func (i containerImage) write(to string) error {
	raw, err := i.layer()
	if err != nil {
		return err
	}
	open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(raw)), nil }
	layer, err := tarball.LayerFromOpener(open, tarball.WithCompressionLevel(gzip.DefaultCompression), tarball.WithCompressedCaching)
	if err != nil {
		return err
	}
	image, err := mutate.ConfigFile(empty.Image, &v1.ConfigFile{
		OS: "linux", Architecture: "amd64", RootFS: v1.RootFS{Type: "layers"},
		Config: v1.Config{User: containerUser, Entrypoint: []string{i.program}, WorkingDir: "/"},
	})
	if err != nil {
		return err
	}
	if image, err = mutate.AppendLayers(image, layer); err != nil {
		return err
	}
	tag, err := name.NewTag(i.name)
	if err != nil {
		return err
	}
	return tarball.WriteToFile(to, tag, image)
}

// layer is the tar of the image's files.
func (i containerImage) layer() ([]byte, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	if err := addToLayer(w, i.program, i.from, 0o755); err != nil {
		return nil, err
	}
	if i.authorities != "" {
		for _, dir := range foldersAbove(imagebuild.Bundle) {
			if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: dir[1:] + "/", Mode: 0o755}); err != nil {
				return nil, err
			}
		}
		if err := addToLayer(w, imagebuild.Bundle, i.authorities, 0o644); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return out.Bytes(), err
}

// addToLayer adds the file from of this machine as the path at.
func addToLayer(w *tar.Writer, at, from string, mode fs.FileMode) error {
	content, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: at[1:], Mode: int64(mode), Size: int64(len(content))}); err != nil {
		return err
	}
	_, err = w.Write(content)
	return err
}

// foldersAbove are the folders above an absolute path, the highest first, but for the root folder.
func foldersAbove(at string) []string {
	var out []string
	dir := path.Dir(at)
	for i := range dir {
		if i > 0 && dir[i] == '/' {
			out = append(out, dir[:i])
		}
	}
	if strings.Trim(dir, "/") == "" {
		return nil
	}
	return append(out, dir)
}
