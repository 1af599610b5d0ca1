package imagebuild

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/vmimage"
)

// stagedImage makes an image in a folder inside of out, as a build does.
func stagedImage(t *testing.T, out, version string, files map[string]string) string {
	t.Helper()
	dir, err := os.MkdirTemp(out, Temporary)
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range files {
		from := filepath.Join(t.TempDir(), "from")
		write(t, from, content)
		if err := Stage(dir, name, from); err != nil {
			t.Fatal(err)
		}
	}
	if err := vmimage.Write(dir, vmimage.Image{Name: "kubernetes", Version: version, Kernel: "vmlinuz", Initrd: "initrd", Root: "root.squashfs"}); err != nil {
		t.Fatal(err)
	}
	return dir
}

// A node reads what was published, and the files that didn't change are the same files: running machines share them.
func TestPublish(t *testing.T) {
	out := t.TempDir()
	if err := Publish(stagedImage(t, out, "1", map[string]string{"vmlinuz": "k1", "initrd": "i1", "root.squashfs": "r1", "sbom.json": "s1"}), out, vmimage.Manifest); err != nil {
		t.Fatal(err)
	}
	reader := vmimage.Open(out)
	if i, err := reader.Read(t.Context()); err != nil || i.Version != "1" || read(t, i.Root) != "r1" {
		t.Fatalf("%+v, %v", i, err)
	}
	before := inodes(t, out)
	if err := Publish(stagedImage(t, out, "1", map[string]string{"vmlinuz": "k1", "initrd": "i1", "root.squashfs": "r1", "sbom.json": "s1"}), out, vmimage.Manifest); err != nil {
		t.Fatal(err)
	}
	for name, info := range inodes(t, out) {
		if !os.SameFile(info, before[name]) {
			t.Errorf("%s was replaced by the same content", name)
		}
	}
	if err := Publish(stagedImage(t, out, "2", map[string]string{"vmlinuz": "k1", "initrd": "i2", "root.squashfs": "r2", "sbom.json": "s2"}), out, vmimage.Manifest); err != nil {
		t.Fatal(err)
	}
	if i, err := reader.Read(t.Context()); err != nil || i.Version != "2" || read(t, i.Initrd) != "i2" || read(t, filepath.Join(out, "sbom.json")) != "s2" {
		t.Errorf("%+v, %v", i, err)
	}
	for name, info := range inodes(t, out) {
		if same := os.SameFile(info, before[name]); same != (name == "vmlinuz") {
			t.Errorf("%s is the same file: %v", name, same)
		}
		if info.Mode() != 0o644 {
			t.Errorf("%s has mode %v: everybody must be able to read it", name, info.Mode())
		}
	}
}

// inodes are the files of a folder.
func inodes(t *testing.T, dir string) map[string]os.FileInfo {
	t.Helper()
	out := map[string]os.FileInfo{}
	for _, name := range []string{"vmlinuz", "initrd", "root.squashfs", "sbom.json", vmimage.Manifest} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		out[name] = info
	}
	return out
}

// An image whose files can't all be moved is one that comes, not a mixture; the next attempt ends it.
func TestPublishFailsHalfWay(t *testing.T) {
	out := t.TempDir()
	if err := Publish(stagedImage(t, out, "1", map[string]string{"vmlinuz": "k1", "initrd": "i1", "root.squashfs": "r1"}), out, vmimage.Manifest); err != nil {
		t.Fatal(err)
	}
	obstacle := filepath.Join(out, "sbom.json")
	write(t, filepath.Join(obstacle, "x"), "")
	files := map[string]string{"vmlinuz": "k2", "initrd": "i2", "root.squashfs": "r2", "sbom.json": "s2"}
	if err := Publish(stagedImage(t, out, "2", files), out, vmimage.Manifest); err == nil {
		t.Fatal("a folder was replaced by a file")
	}
	if read(t, filepath.Join(out, "initrd")) != "i2" || read(t, filepath.Join(out, "vmlinuz")) != "k1" {
		t.Error("it isn't half-way")
	}
	if i, err := vmimage.Open(out).Read(t.Context()); node.KindOf(err) != node.Transient {
		t.Errorf("%+v, %v (%s)", i, err, node.KindOf(err))
	}
	if err := os.RemoveAll(obstacle); err != nil {
		t.Fatal(err)
	}
	if err := Publish(stagedImage(t, out, "2", files), out, vmimage.Manifest); err != nil {
		t.Fatal(err)
	}
	if i, err := vmimage.Open(out).Read(t.Context()); err != nil || i.Version != "2" {
		t.Errorf("%+v, %v", i, err)
	}
	if err := RemoveTemporary(out); err != nil {
		t.Fatal(err)
	}
	if names, err := filepath.Glob(filepath.Join(out, ".*")); err != nil || len(names) != 0 {
		t.Errorf("there is %v, %v", names, err)
	}
}
