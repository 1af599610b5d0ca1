package main

import (
	"archive/tar"
	"errors"
	"io"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/croft-edge/croft/bootstrap/internal/imagebuild"
)

// The image is read back under its name; it has the program and the authorities and nothing else, runs as nobody's
// user, and is the same each time.
func TestContainerImage(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "coredns"), "program")
	write(t, filepath.Join(dir, "ca.crt"), "authorities")
	i := containerImage{name: "localhost/coredns:1.2.3", program: "/coredns", from: filepath.Join(dir, "coredns"), authorities: filepath.Join(dir, "ca.crt")}
	for _, to := range []string{"one.tar", "two.tar"} {
		if err := i.write(filepath.Join(dir, to)); err != nil {
			t.Fatal(err)
		}
	}
	if read(t, filepath.Join(dir, "one.tar")) != read(t, filepath.Join(dir, "two.tar")) {
		t.Error("the second archive differs")
	}
	tag, err := name.NewTag(i.name)
	if err != nil {
		t.Fatal(err)
	}
	image, err := tarball.ImageFromPath(filepath.Join(dir, "one.tar"), &tag)
	if err != nil {
		t.Fatal(err)
	}
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if config.OS != "linux" || config.Architecture != "amd64" || config.Config.User != "65532:65532" || !slices.Equal(config.Config.Entrypoint, []string{"/coredns"}) {
		t.Errorf("its configuration is %+v", config)
	}
	layers, err := image.Layers()
	if err != nil || len(layers) != 1 {
		t.Fatalf("%d layers, %v", len(layers), err)
	}
	id, err := layers[0].DiffID()
	if err != nil || len(config.RootFS.DiffIDs) != 1 || config.RootFS.DiffIDs[0] != id {
		t.Errorf("the layer is %v, %v, the configuration has %v", id, err, config.RootFS.DiffIDs)
	}
	content, err := layers[0].Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	defer content.Close()
	files, folders := map[string]string{}, []string{}
	for entries := tar.NewReader(content); ; {
		h, err := entries.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.Typeflag == tar.TypeReg {
			text, err := io.ReadAll(entries)
			if err != nil {
				t.Fatal(err)
			}
			files["/"+h.Name] = string(text)
		} else {
			folders = append(folders, h.Name)
		}
		if h.Uid != 0 || h.Gid != 0 || h.Name == "coredns" && h.Mode != 0o755 {
			t.Errorf("%+v", h)
		}
	}
	if want := []string{"etc/", "etc/ssl/", "etc/ssl/certs/"}; !slices.Equal(folders, want) {
		t.Errorf("its folders are %v, want %v", folders, want)
	}
	if len(files) != 2 || files["/coredns"] != "program" || files[imagebuild.Bundle] != "authorities" {
		t.Errorf("it has %v", files)
	}
}
