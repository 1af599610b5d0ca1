package main

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/croft-edge/croft/bootstrap/internal/imagebuild"
	"github.com/croft-edge/croft/internal/nodeimage"
)

// A build that fails leaves the image that was there, and nothing of its own.
func TestFailedBuild(t *testing.T) {
	c := config{source: ".", cache: t.TempDir(), out: t.TempDir(), version: "dev"}
	c.run = func(context.Context, string, string, ...string) ([]byte, error) {
		return nil, errors.New("cannot reach the archive")
	}
	write(t, filepath.Join(c.out, nodeimage.ManifestFile), "old")
	write(t, filepath.Join(c.out, imagebuild.Temporary+"1", "x"), "")
	if err := build(t.Context(), c, imagebuild.NewProgress(io.Discard, "test")); err == nil || !strings.Contains(err.Error(), "cannot reach the archive") {
		t.Errorf("%v", err)
	}
	entries, err := os.ReadDir(c.out)
	if err != nil || len(entries) != 1 || entries[0].Name() != nodeimage.ManifestFile {
		t.Errorf("the folder has %v, %v", entries, err)
	}
}

func sampleMaterial() *material {
	return &material{
		kernel: imagebuild.Kernel{Version: "6.1.0-1-amd64"}, kernelPackage: imagebuild.Package{Name: "linux-image-6.1.0-1-amd64", Version: "6.1.5-1"},
		packages: []imagebuild.Package{{Name: "runc", Version: "1.1"}, {Name: "qemu-system-x86", Version: "1:7.2+dfsg-7"}, {Name: "libc6", Version: "2"}},
		programs: []imagebuild.Program{{Path: initProgram, Modules: []imagebuild.Module{{Path: "stdlib", Version: "1.26"}}}},
	}
}

// The manifest that a machine reads describes the files and the SBOM, and is signed by the key.
func TestDescribe(t *testing.T) {
	folder := t.TempDir()
	for _, name := range []string{nodeimage.KernelFile, nodeimage.InitrdFile, nodeimage.RootFile, nodeimage.SBOMFile} {
		write(t, filepath.Join(folder, name), strings.Repeat(name, 1000))
	}
	tree, err := addTree(filepath.Join(folder, nodeimage.RootFile))
	if err != nil {
		t.Fatal(err)
	}
	key := ed25519.NewKeyFromSeed(make([]byte, 32))
	if err := sampleMaterial().describe(config{version: "v1", key: key}, folder, tree, 1000); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(filepath.Join(folder, nodeimage.ManifestFile))
	if err != nil {
		t.Fatal(err)
	}
	signature, err := os.ReadFile(filepath.Join(folder, nodeimage.SignatureFile))
	if err != nil {
		t.Fatal(err)
	}
	if err := nodeimage.Verify(key.Public().(ed25519.PublicKey), raw, signature); err != nil {
		t.Error(err)
	}
	got, err := nodeimage.Decode(raw)
	if err != nil || got.Kernel != "6.1.0-1-amd64" || got.Built != 1000 || got.Root != tree {
		t.Errorf("it is %+v, %v", got, err)
	}
	bill := strings.Repeat(nodeimage.SBOMFile, 1000)
	sum := sha256.Sum256([]byte(bill))
	if want := (nodeimage.File{Name: nodeimage.SBOMFile, Size: int64(len(bill)), SHA256: hex.EncodeToString(sum[:])}); got.SBOM == nil || *got.SBOM != want {
		t.Errorf("its SBOM is %+v, want %+v", got.SBOM, want)
	}
	var names []string
	for _, c := range got.Components {
		names = append(names, c.Name+" "+c.Version)
	}
	if want := "go 1.26, linux 6.1.5-1, qemu 1:7.2+dfsg-7, runc 1.1"; strings.Join(names, ", ") != want {
		t.Errorf("its components are %v, want %s", names, want)
	}
}

// An image isn't described without its SBOM: nobody could check one later.
func TestNoSBOM(t *testing.T) {
	folder := t.TempDir()
	for _, name := range []string{nodeimage.KernelFile, nodeimage.InitrdFile, nodeimage.RootFile} {
		write(t, filepath.Join(folder, name), strings.Repeat(name, 1000))
	}
	tree, err := addTree(filepath.Join(folder, nodeimage.RootFile))
	if err != nil {
		t.Fatal(err)
	}
	if err := sampleMaterial().describe(config{version: "v1"}, folder, tree, 1000); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v", err)
	}
	if _, err := os.Stat(filepath.Join(folder, nodeimage.ManifestFile)); err == nil {
		t.Error("it has a manifest")
	}
}

func TestLargeImageIsRefused(t *testing.T) {
	folder := t.TempDir()
	write(t, filepath.Join(folder, nodeimage.SBOMFile), "{}")
	for name, size := range map[string]int64{nodeimage.KernelFile: mostBytes - 1<<20, nodeimage.InitrdFile: 1 << 20, nodeimage.RootFile: 1 << 20} {
		write(t, filepath.Join(folder, name), "")
		if err := os.Truncate(filepath.Join(folder, name), size); err != nil {
			t.Fatal(err)
		}
	}
	tree, err := addTree(filepath.Join(folder, nodeimage.RootFile))
	if err != nil {
		t.Fatal(err)
	}
	err = sampleMaterial().describe(config{version: "v1", level: squashfsLevel}, folder, tree, 1000)
	if err == nil || !strings.HasPrefix(err.Error(), "cannot make the image: its files have ") {
		t.Errorf("%v", err)
	}
	if _, err := os.Stat(filepath.Join(folder, nodeimage.ManifestFile)); err == nil {
		t.Error("it has a manifest")
	}
	if err := sampleMaterial().describe(config{version: "v1", level: 9}, folder, tree, 1000); err != nil {
		t.Errorf("a fast build: %v", err)
	}
}

// The date is that of the newest file or commit, and folders have none.
func TestNewest(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "a/b"), "")
	when := int64(1_600_000_000)
	info, err := os.Stat(filepath.Join(dir, "a/b"))
	if err != nil {
		t.Fatal(err)
	}
	packages := []imagebuild.Package{{Dir: dir}}
	for commit, want := range map[string]int64{"9000000000\n": 9_000_000_000, "1600000000\n": info.ModTime().Unix(), "": info.ModTime().Unix()} {
		c := config{run: func(context.Context, string, string, ...string) ([]byte, error) {
			if commit == "" {
				return nil, errors.New("no history")
			}
			return []byte(commit), nil
		}}
		if got, err := newest(t.Context(), c, packages); err != nil || got != want || got < when {
			t.Errorf("with the commit %q it is %d, %v, want %d", commit, got, err, want)
		}
	}
	c := config{run: func(context.Context, string, string, ...string) ([]byte, error) { return nil, errors.New("no history") }}
	if _, err := newest(t.Context(), c, nil); err == nil {
		t.Error("nothing has a date")
	}
}
