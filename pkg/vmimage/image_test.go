package vmimage_test

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/vmimage"
)

// image makes a folder with an image.
func image(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"vmlinuz", "initrd", "root.squashfs"} {
		write(t, filepath.Join(dir, name), "content of "+name)
	}
	i := vmimage.Image{Name: "kubernetes", Version: "1.36.3+1", Kernel: "vmlinuz", Initrd: "initrd", Root: "root.squashfs", Arguments: "quiet"}
	if err := vmimage.Write(dir, i); err != nil {
		t.Fatal(err)
	}
	return dir
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestRead(t *testing.T) {
	dir := image(t)
	got, err := vmimage.Open(dir).Read(t.Context())
	want := vmimage.Image{
		Name: "kubernetes", Version: "1.36.3+1", Arguments: "quiet",
		Kernel: filepath.Join(dir, "vmlinuz"), Initrd: filepath.Join(dir, "initrd"), Root: filepath.Join(dir, "root.squashfs"),
	}
	if err != nil || got != want {
		t.Errorf("it is %+v, %v; want %+v", got, err, want)
	}
	for path, kind := range map[string]node.Kind{"": node.NotExist, filepath.Join(dir, "none"): node.Transient} {
		if _, err := vmimage.Open(path).Read(t.Context()); node.KindOf(err) != kind {
			t.Errorf("folder %q: %v, want %s", path, err, kind)
		}
	}
}

func TestDescribe(t *testing.T) {
	dir := image(t)
	d, err := vmimage.Open(dir).Describe()
	if err != nil || d.Name != "kubernetes" || d.Version != "1.36.3+1" || len(d.Sums) != 3 {
		t.Fatalf("it is %+v, %v", d, err)
	}
	for _, name := range []string{"vmlinuz", "initrd", "root.squashfs"} {
		if sum := fmt.Sprintf("%x", sha256.Sum256([]byte("content of "+name))); d.Sums[name] != sum {
			t.Errorf("the sum of %s is %s, want %s", name, d.Sums[name], sum)
		}
	}
	raw, err := os.ReadFile(filepath.Join(dir, vmimage.Manifest))
	if err != nil {
		t.Fatal(err)
	}
	if same, err := vmimage.Describe(raw); err != nil || !reflect.DeepEqual(same, d) {
		t.Errorf("the manifest alone says %+v, %v", same, err)
	}
	if _, err := vmimage.Describe(raw[1:]); node.KindOf(err) != node.Invalid || !strings.HasPrefix(err.Error(), "cannot use image.json: ") {
		t.Errorf("half a manifest: %v", err)
	}
	remove(t, filepath.Join(dir, "initrd")) // no file is looked at
	if _, err := vmimage.Open(dir).Describe(); err != nil {
		t.Error(err)
	}
	for path, kind := range map[string]node.Kind{"": node.NotExist, filepath.Join(dir, "none"): node.Transient} {
		if _, err := vmimage.Open(path).Describe(); node.KindOf(err) != kind {
			t.Errorf("folder %q: %v, want %s", path, err, kind)
		}
	}
}

// A file that changes is checked again, also when its size and its time stay.
func TestChangedFile(t *testing.T) {
	dir := image(t)
	f := vmimage.Open(dir)
	for range 2 {
		if _, err := f.Read(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(dir, "initrd")
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	write(t, path, "CONTENT OF initrd")
	if err := os.Chtimes(path, time.Time{}, info.ModTime()); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Read(t.Context()); node.KindOf(err) != node.Invalid || !strings.Contains(err.Error(), "the SHA-256 of initrd") {
		t.Errorf("a changed file: %v", err)
	}
	write(t, path, "content of initrd")
	if _, err := f.Read(t.Context()); err != nil {
		t.Errorf("the right file again: %v", err)
	}
}

// A large file isn't read on for an attempt that is over.
func TestReadEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	f := vmimage.Open(image(t))
	if _, err := f.Read(ctx); node.KindOf(err) != node.Transient || !errors.Is(err, context.Canceled) {
		t.Errorf("%v (%s)", err, node.KindOf(err))
	}
	if _, err := f.Read(t.Context()); err != nil {
		t.Errorf("the next attempt: %v", err)
	}
}

func TestBadImages(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(t *testing.T, dir string, d map[string]any)
		says   string
	}{
		"another format":     {func(_ *testing.T, _ string, d map[string]any) { d["format"] = 2 }, "format"},
		"no name":            {func(_ *testing.T, _ string, d map[string]any) { d["name"] = "" }, "name"},
		"a bad version":      {func(_ *testing.T, _ string, d map[string]any) { d["version"] = "a b" }, "version"},
		"a path":             {func(_ *testing.T, _ string, d map[string]any) { d["kernel"] = "../vmlinuz" }, "kernel"},
		"its own manifest":   {func(_ *testing.T, _ string, d map[string]any) { d["initrd"] = "image.json" }, "initrd"},
		"no initrd":          {func(_ *testing.T, _ string, d map[string]any) { d["initrd"] = "" }, "initrd"},
		"no sum":             {func(_ *testing.T, _ string, d map[string]any) { delete(d["sha256"].(map[string]any), "vmlinuz") }, "sha256.vmlinuz"},
		"two lines":          {func(_ *testing.T, _ string, d map[string]any) { d["arguments"] = "a\nb" }, "arguments"},
		"too many arguments": {func(_ *testing.T, _ string, d map[string]any) { d["arguments"] = strings.Repeat("a", 1025) }, "arguments"},
		"an unknown member":  {func(_ *testing.T, _ string, d map[string]any) { d["other"] = 1 }, "other"},
		"a missing file":     {func(t *testing.T, dir string, _ map[string]any) { remove(t, filepath.Join(dir, "root.squashfs")) }, "root.squashfs is missing"},
		"a folder": {func(t *testing.T, dir string, _ map[string]any) {
			remove(t, filepath.Join(dir, "initrd"))
			if err := os.Mkdir(filepath.Join(dir, "initrd"), 0o700); err != nil {
				t.Fatal(err)
			}
		}, "no regular file"},
		"a long manifest": {func(_ *testing.T, _ string, d map[string]any) { d["arguments"] = strings.Repeat("a", 70<<10) }, "more than 65536 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := image(t)
			path := filepath.Join(dir, vmimage.Manifest)
			raw, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			var d map[string]any
			if err := json.Unmarshal(raw, &d); err != nil {
				t.Fatal(err)
			}
			tt.change(t, dir, d)
			if raw, err = json.Marshal(d); err != nil {
				t.Fatal(err)
			}
			write(t, path, string(raw))
			if _, err := vmimage.Open(dir).Read(t.Context()); node.KindOf(err) != node.Invalid || !strings.Contains(err.Error(), tt.says) || !strings.HasPrefix(err.Error(), "cannot use ") {
				t.Errorf("%v, want %q", err, tt.says)
			}
		})
	}
}

// A manifest is one JSON object that every reader takes alike.
func TestAmbiguousManifests(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(text string) string
		says   string
	}{
		"nothing":                   {func(string) string { return "" }, "unexpected end"},
		"half of it":                {func(text string) string { return text[:len(text)/2] }, "unexpected end"},
		"an object behind it":       {func(text string) string { return text + "{}" }, "after top-level value"},
		"a name twice":              {func(text string) string { return `{"format": 1,` + text[1:] }, "format"},
		"names that differ in case": {func(text string) string { return `{"Format": 1,` + text[1:] }, "format"},
		"too large":                 {func(text string) string { return text + strings.Repeat(" ", 64<<10) }, "more than 65536 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := image(t)
			path := filepath.Join(dir, vmimage.Manifest)
			raw, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			write(t, path, tt.change(string(raw)))
			if _, err := vmimage.Open(dir).Read(t.Context()); node.KindOf(err) != node.Invalid || !strings.HasPrefix(err.Error(), "cannot use "+path) || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("%v, want %q", err, tt.says)
			}
		})
	}
}

func remove(t *testing.T, path string) {
	t.Helper()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
}
