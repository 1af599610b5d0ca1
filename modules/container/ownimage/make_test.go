package ownimage_test

import (
	"archive/tar"
	"bytes"
	"debug/elf"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	godigest "github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/modules/container/ownimage"
	"github.com/croft-edge/croft/pkg/node"
)

// programs are static ones for this machine, made once.
var programs = sync.OnceValues(func() (map[string][]byte, error) {
	dir, err := os.MkdirTemp("", "croft-ownimage-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	out := map[string][]byte{}
	for name, flags := range map[string][]string{"one": nil, "two": {"-ldflags", "-X main.version=2"}, "pie": {"-buildmode=pie"}} {
		c := exec.Command("go", slices.Concat([]string{"build", "-o", filepath.Join(dir, name)}, flags, []string{"./testdata/program"})...)
		c.Env = append(os.Environ(), "CGO_ENABLED=0")
		if text, err := c.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("%w: %s", err, text)
		}
		if out[name], err = os.ReadFile(filepath.Join(dir, name)); err != nil {
			return nil, err
		}
	}
	return out, nil
})

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// install puts a program in its place, as an upgrade does.
func install(t *testing.T, path, name string, change func(program []byte)) {
	t.Helper()
	all, err := programs()
	must(t, err)
	program := slices.Clone(all[name])
	if change != nil {
		change(program)
	}
	must(t, os.WriteFile(path+".new", program, 0o755))
	must(t, os.Rename(path+".new", path))
}

// names are those in a folder.
func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	must(t, err)
	out := []string{}
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

// digest checks that each blob of a layout has its descriptor's digest and size and that the
// program lies in it, and returns the digest of its manifest.
func digest(t *testing.T, path string) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(path, "index.json"))
	must(t, err)
	var index ocispec.Index
	var manifest ocispec.Manifest
	var config ocispec.Image
	must(t, json.Unmarshal(raw, &index))
	if len(index.Manifests) != 1 {
		t.Fatalf("it holds %+v", index.Manifests)
	}
	must(t, json.Unmarshal(blob(t, path, index.Manifests[0]), &manifest))
	must(t, json.Unmarshal(blob(t, path, manifest.Config), &config))
	if want := []string{"/zdb"}; !slices.Equal(config.Config.Entrypoint, want) || config.OS != "linux" || config.Architecture != runtime.GOARCH || config.Config.User != "" {
		t.Errorf("its config is %+v", config)
	}
	if len(manifest.Layers) != 1 || !slices.Equal(config.RootFS.DiffIDs, []godigest.Digest{manifest.Layers[0].Digest}) {
		t.Fatalf("its layers are %+v, unpacked %v", manifest.Layers, config.RootFS.DiffIDs)
	}
	files := tar.NewReader(bytes.NewReader(blob(t, path, manifest.Layers[0])))
	header, err := files.Next()
	must(t, err)
	program, err := io.ReadAll(files)
	must(t, err)
	if header.Name != "zdb" || header.Mode != 0o755 || header.Uid != 0 || header.Gid != 0 || !bytes.HasPrefix(program, []byte("\x7fELF")) {
		t.Errorf("its program is %+v", header)
	}
	if more, err := files.Next(); err != io.EOF {
		t.Errorf("it holds %+v too (%v)", more, err)
	}
	return index.Manifests[0].Digest.String()
}

// blob reads what a descriptor says.
func blob(t *testing.T, path string, d ocispec.Descriptor) []byte {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(path, "blobs/sha256", d.Digest.Encoded()))
	must(t, err)
	if godigest.FromBytes(raw) != d.Digest || int64(len(raw)) != d.Size {
		t.Fatalf("%s has %d bytes of digest %s, want %d", d.Digest, len(raw), godigest.FromBytes(raw), d.Size)
	}
	return raw
}

func TestMake(t *testing.T) {
	dir, program := filepath.Join(t.TempDir(), "a/b"), filepath.Join(t.TempDir(), "program")
	install(t, program, "one", nil)
	path, err := ownimage.Make(dir, "zdb", program)
	must(t, err)
	first := digest(t, path)
	if filepath.Dir(path) != dir || !slices.Equal(names(t, dir), []string{filepath.Base(path)}) {
		t.Errorf("it is at %s, beside %q", path, names(t, dir))
	}
	info, err := os.Stat(path)
	must(t, err)
	again, err := ownimage.Make(dir, "zdb", program)
	must(t, err)
	if after, err := os.Stat(again); err != nil || again != path || !os.SameFile(info, after) {
		t.Errorf("made twice, %s became %s (%v)", path, again, err)
	}
	// On another node, from a file of another time and mode.
	elsewhere := filepath.Join(t.TempDir(), "p")
	install(t, elsewhere, "one", nil)
	must(t, os.Chmod(elsewhere, 0o500))
	other, err := ownimage.Make(t.TempDir(), "zdb", elsewhere)
	must(t, err)
	if d := digest(t, other); d != first || filepath.Base(other) != filepath.Base(path) {
		t.Errorf("the same program makes %s here, %s there", first, d)
	}

	install(t, program, "two", nil)
	newer, err := ownimage.Make(dir, "zdb", program)
	must(t, err)
	if d := digest(t, newer); d == first || newer == path {
		t.Errorf("another program makes the same image %s at %s", d, newer)
	}
	if got := names(t, dir); !slices.Equal(got, []string{filepath.Base(newer)}) {
		t.Errorf("there are %q", got)
	}
}

func TestOthersAreLeftAlone(t *testing.T) {
	dir, program := t.TempDir(), filepath.Join(t.TempDir(), "program")
	install(t, program, "one", nil)
	kept := []string{".new-zdbs-1", "file", "zdb", "zdbs-1"}
	for _, name := range kept {
		must(t, os.Mkdir(filepath.Join(dir, name), 0o755))
	}
	for _, name := range []string{"zdb-0123456789abcdef", ".new-zdb-123"} {
		must(t, os.MkdirAll(filepath.Join(dir, name, "blobs"), 0o755))
	}
	path, err := ownimage.Make(dir, "zdb", program)
	must(t, err)
	if want := slices.Insert(slices.Clone(kept), 3, filepath.Base(path)); !slices.Equal(names(t, dir), want) {
		t.Errorf("there are %q, want %q", names(t, dir), want)
	}
}

// A folder of the right name isn't believed for its name.
func TestDamagedOnesAreMadeAnew(t *testing.T) {
	dir, program := t.TempDir(), filepath.Join(t.TempDir(), "program")
	install(t, program, "one", nil)
	path, err := ownimage.Make(dir, "zdb", program)
	must(t, err)
	want := digest(t, path)
	raw, err := os.ReadFile(filepath.Join(path, "index.json"))
	must(t, err)
	var index ocispec.Index
	must(t, json.Unmarshal(raw, &index))
	blobs, err := filepath.Glob(filepath.Join(path, "blobs/sha256/*"))
	must(t, err)
	if len(blobs) != 3 {
		t.Fatalf("its blobs are %q", blobs)
	}
	files := append(blobs, filepath.Join(path, "index.json"), filepath.Join(path, "oci-layout"))
	for _, file := range files {
		for how, damage := range map[string]func() error{
			"gone":    func() error { return os.Remove(file) },
			"empty":   func() error { return os.Truncate(file, 0) },
			"changed": func() error { return flip(file) },
		} {
			must(t, damage())
			again, err := ownimage.Make(dir, "zdb", program)
			must(t, err)
			if got := digest(t, again); got != want || again != path {
				t.Errorf("with %s %s it is made as %s at %s", filepath.Base(file), how, got, again)
			}
		}
	}
	must(t, os.RemoveAll(path))
	must(t, os.WriteFile(path, nil, 0o600))
	again, err := ownimage.Make(dir, "zdb", program)
	must(t, err)
	if digest(t, again) != want {
		t.Error("a file in its place isn't replaced")
	}
}

// flip changes the last byte of a file.
func flip(path string) error {
	raw, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	raw[len(raw)-1] ^= 1
	return os.WriteFile(path, raw, 0o600)
}

func TestAtTheSameTime(t *testing.T) {
	dir, program := t.TempDir(), filepath.Join(t.TempDir(), "program")
	install(t, program, "one", nil)
	var group sync.WaitGroup
	paths, errs := make([]string, 8), make([]error, 8)
	for i := range paths {
		group.Go(func() { paths[i], errs[i] = ownimage.Make(dir, "zdb", program) })
	}
	group.Wait()
	must(t, errors.Join(errs...))
	if slices.Sort(paths); paths[0] != paths[7] || !slices.Equal(names(t, dir), []string{filepath.Base(paths[0])}) {
		t.Errorf("they are %q in %q", paths, names(t, dir))
	}
	digest(t, paths[0])
}

// A static program may be one that runs at any address.
func TestPositionIndependentOnes(t *testing.T) {
	program := filepath.Join(t.TempDir(), "program")
	install(t, program, "one", func(p []byte) { p[16], p[17] = byte(elf.ET_DYN), 0 })
	_, err := ownimage.Make(t.TempDir(), "zdb", program)
	must(t, err)
	install(t, program, "pie", nil) // Go's own linker names a dynamic linker in these
	if _, err = ownimage.Make(t.TempDir(), "zdb", program); !errors.Is(err, node.Invalid) || !strings.Contains(err.Error(), "dynamic linker") {
		t.Errorf("one that names a dynamic linker: %v", err)
	}
}

func TestUnusablePrograms(t *testing.T) {
	dir := t.TempDir()
	place := func(name string) string { return filepath.Join(dir, name) }
	install(t, place("foreign"), "one", func(p []byte) { p[18] ^= 0xff })
	install(t, place("other class"), "one", func(p []byte) { p[4] = 1 })
	install(t, place("object"), "one", func(p []byte) { p[16], p[17] = 1, 0 })
	must(t, os.WriteFile(place("script"), []byte("#!/bin/sh\n"), 0o755))
	must(t, os.WriteFile(place("empty"), nil, 0o755))
	must(t, os.Mkdir(place("folder"), 0o755))
	must(t, unix.Mkfifo(place("pipe"), 0o755))
	shell, err := exec.LookPath("ls")
	must(t, err)
	for name, want := range map[string]struct {
		path string
		kind node.Kind
		says string
	}{
		"foreign":     {place("foreign"), node.Invalid, "this machine is"},
		"other class": {place("other class"), node.Invalid, ""},
		"object":      {place("object"), node.Invalid, "it is no program"},
		"script":      {place("script"), node.Invalid, "it isn't a program"},
		"empty":       {place("empty"), node.Invalid, "it isn't a program"},
		"folder":      {place("folder"), node.Invalid, "it isn't a regular file"},
		"pipe":        {place("pipe"), node.Invalid, "it isn't a regular file"},
		"missing":     {place("missing"), node.NotExist, "there is no program"},
		"dynamic":     {shell, node.Invalid, "it isn't static"},
	} {
		made := t.TempDir()
		_, err := ownimage.Make(made, "zdb", want.path)
		if !errors.Is(err, want.kind) || !strings.Contains(err.Error(), want.says) || !strings.HasPrefix(err.Error(), "cannot make image zdb") || !strings.Contains(err.Error(), want.path) {
			t.Errorf("%s: %v, want kind %s and %q", name, err, want.kind, want.says)
		}
		if left := names(t, made); len(left) != 0 {
			t.Errorf("%s: %q is left", name, left)
		}
	}
	install(t, place("good"), "one", nil)
	for _, name := range []string{"", "a-b", "A", "../a", "é", strings.Repeat("a", 33)} {
		if _, err := ownimage.Make(dir, name, place("good")); !errors.Is(err, node.Invalid) {
			t.Errorf("name %q: %v", name, err)
		}
	}
	if _, err := ownimage.Make("relative", "zdb", place("good")); !errors.Is(err, node.Invalid) {
		t.Errorf("a relative folder: %v", err)
	}
}

// A folder that can't be written leaves nothing half.
func TestNoRoom(t *testing.T) {
	dir, program := t.TempDir(), filepath.Join(t.TempDir(), "program")
	install(t, program, "one", nil)
	must(t, unix.Mount("none", dir, "tmpfs", 0, "size=256k"))
	t.Cleanup(func() { must(t, unix.Unmount(dir, unix.MNT_DETACH)) })
	if _, err := ownimage.Make(dir, "zdb", program); !errors.Is(err, unix.ENOSPC) {
		t.Errorf("without room it is %v", err)
	}
	if left := names(t, dir); len(left) != 0 {
		t.Errorf("left is %q", left)
	}
	must(t, unix.Mount("none", dir, "tmpfs", unix.MS_REMOUNT, "size=64m"))
	path, err := ownimage.Make(dir, "zdb", program)
	must(t, err)
	digest(t, path)
}

func BenchmarkWhatIsThereAlready(b *testing.B) {
	all, err := programs()
	if err != nil {
		b.Fatal(err)
	}
	dir, program := b.TempDir(), filepath.Join(b.TempDir(), "program")
	if err := os.WriteFile(program, all["one"], 0o755); err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(all["one"])))
	for b.Loop() {
		if _, err := ownimage.Make(dir, "zdb", program); err != nil {
			b.Fatal(err)
		}
	}
}
