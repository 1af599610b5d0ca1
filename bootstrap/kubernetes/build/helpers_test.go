package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/croft-edge/croft/bootstrap/internal/imagebuild"
	"github.com/croft-edge/croft/pkg/vmimage"
)

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// stagedImage makes an image in a folder inside of out, as a build does.
func stagedImage(t *testing.T, out, version string) string {
	t.Helper()
	dir, err := os.MkdirTemp(out, imagebuild.Temporary)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"vmlinuz", "initrd", "root.squashfs"} {
		write(t, filepath.Join(dir, name), name)
	}
	if err := vmimage.Write(dir, vmimage.Image{Name: imageName, Version: version, Kernel: "vmlinuz", Initrd: "initrd", Root: "root.squashfs"}); err != nil {
		t.Fatal(err)
	}
	return dir
}

func newRoot(t *testing.T) imagebuild.RootFolder {
	t.Helper()
	r, err := imagebuild.MakeRootFolder(filepath.Join(t.TempDir(), "root"))
	if err != nil {
		t.Fatal(err)
	}
	return r
}
