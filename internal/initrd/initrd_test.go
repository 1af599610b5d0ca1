package initrd

import (
	"bytes"
	"compress/gzip"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
)

func TestModulesComeAfterTheirNeeds(t *testing.T) {
	of := func(needs map[string][]string) map[string]Module {
		out := map[string]Module{}
		for name, list := range needs {
			out[name] = Module{Name: name, Needs: list}
		}
		return out
	}
	ordered, err := Order(of(map[string][]string{"a": {"c", "b"}, "b": {"c"}, "c": nil, "d": nil}))
	var names []string
	for _, m := range ordered {
		names = append(names, m.Name)
	}
	if err != nil || !slices.Equal(names, []string{"c", "b", "a", "d"}) {
		t.Errorf("the order is %v, %v", names, err)
	}
	if _, err := Order(of(map[string][]string{"a": {"gone"}})); err == nil || !strings.Contains(err.Error(), "gone") {
		t.Errorf("a missing module: %v", err)
	}
	if _, err := Order(of(map[string][]string{"a": {"b"}, "b": {"a"}})); err == nil {
		t.Error("modules that need each other are ordered")
	}
}

// TestInitrd holds the archive's shape: headers of 110 digits, names and contents aligned to 4 bytes.
func TestInitrd(t *testing.T) {
	archive := archived([]byte("program"), []Module{{Name: "virtio", Content: []byte("12345")}})
	if len(archive)%4 != 0 || bytes.Count(archive, []byte("070701")) != 6 {
		t.Errorf("the archive has %d bytes and %d entries", len(archive), bytes.Count(archive, []byte("070701")))
	}
	for _, name := range []string{"init", "modules/00-virtio.ko", "dev/console", "TRAILER!!!"} {
		at := bytes.Index(archive, []byte(name+"\x00"))
		if at < 110 || (at-110)%4 != 0 || string(archive[at-110:at-104]) != "070701" {
			t.Errorf("%s is at %d", name, at)
		}
	}
}

// TestPackedInitrd holds that the same content makes the same bytes, which are the archive's when they are unpacked.
func TestPackedInitrd(t *testing.T) {
	modules := []Module{{Name: "virtio", Content: []byte("12345")}}
	first, err := Pack([]byte("program"), modules)
	if err != nil {
		t.Fatal(err)
	}
	second, err := Pack([]byte("program"), modules)
	if err != nil || !bytes.Equal(first, second) {
		t.Errorf("the second archive differs, %v", err)
	}
	r, err := gzip.NewReader(bytes.NewReader(first))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(r); err != nil || !bytes.Equal(got, archived([]byte("program"), modules)) {
		t.Errorf("unpacked it has %d bytes, %v", len(got), err)
	}
	if _, err := Pack(nil, make([]Module, 101)); err == nil {
		t.Error("101 modules are packed: their order has two digits")
	}
}

// TestPackedFiles holds the files of an archive, with each of their folders once, before what is in it.
func TestPackedFiles(t *testing.T) {
	files := []File{
		{Path: "modules/a/b.ko", Content: []byte("12345")}, {Path: "modules/modules.dep", Content: []byte("x")},
		{Path: "image", Folder: true}, {Path: "image.pub", Content: []byte("key")},
	}
	packed, err := PackFiles([]byte("program"), files)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := PackFiles([]byte("program"), files); err != nil || !bytes.Equal(again, packed) {
		t.Errorf("the second archive differs, %v", err)
	}
	r, err := zstd.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	archive, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	last := -1
	for _, name := range []string{"dev", "dev/console", "init", "modules", "modules/a", "modules/a/b.ko", "modules/modules.dep", "image", "image.pub", "TRAILER!!!"} {
		at := bytes.Index(archive, []byte("\x00\x00"+name+"\x00"))
		if at < 0 {
			at = bytes.Index(archive, []byte(name+"\x00"))
		}
		if at <= last {
			t.Errorf("%s is at %d, after %d", name, at, last)
		}
		last = at
	}
	for _, path := range []string{"/init", "../x", "a//b", "a/../b"} {
		if _, err := PackFiles(nil, []File{{Path: path}}); err == nil {
			t.Errorf("%s is packed", path)
		}
	}
}
