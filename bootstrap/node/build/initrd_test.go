package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/croft-edge/croft/internal/guest/kmod"
)

// modulesFolder has the modules of the initrd, each with one that it needs, and another one.
func modulesFolder(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	var dep, alias strings.Builder
	for _, name := range append(bootModules(), "other") {
		dep.WriteString("kernel/a/" + name + ".ko: kernel/b/base.ko\n")
		alias.WriteString("alias pci:" + name + "* " + name + "\n")
		write(t, filepath.Join(dir, "kernel/a", name+".ko"), "module "+name)
	}
	write(t, filepath.Join(dir, "kernel/b/base.ko"), "module base")
	write(t, filepath.Join(dir, "modules.dep"), dep.String()+"kernel/b/base.ko:\n")
	write(t, filepath.Join(dir, "modules.alias"), "# comment\n"+alias.String())
	write(t, filepath.Join(dir, "modules.softdep"), "softdep loop pre: base\nsoftdep other pre: base\n")
	write(t, filepath.Join(dir, "modules.builtin"), "kernel/c/ext.ko\n")
	return dir
}

// What stage 1 opens of the initrd has each module in one folder, and nothing of others.
func TestInitrd(t *testing.T) {
	dir := modulesFolder(t)
	packed, err := packInitrd(dir, []byte("stage 1"), []byte("public key"))
	if err != nil {
		t.Fatal(err)
	}
	if again, err := packInitrd(dir, []byte("stage 1"), []byte("public key")); err != nil || !bytes.Equal(again, packed) {
		t.Errorf("the second initrd differs, %v", err)
	}
	files := unpack(t, packed)
	if files["init"] != "stage 1" || files["image.pub"] != "public key" || files["modules/base.ko"] != "module base" || files["modules/nvme.ko"] != "module nvme" {
		t.Errorf("it has %v", files)
	}
	if _, there := files["image/"]; !there {
		t.Error("it has no folder for what a network server has")
	}
	if _, there := files["modules/other.ko"]; there {
		t.Error("a module that isn't for the initrd is in it")
	}
	folder := t.TempDir()
	for name, content := range files {
		if strings.HasPrefix(name, "modules/") && !strings.HasSuffix(name, "/") {
			write(t, filepath.Join(folder, name), content)
		}
	}
	m, err := kmod.Open(filepath.Join(folder, "modules"))
	if err != nil {
		t.Fatal(err)
	}
	steps, err := m.Steps("pci:nvme0")
	if err != nil || len(steps) != 2 || steps[0].Path != "base.ko" || steps[1].Path != "nvme.ko" {
		t.Errorf("the steps are %v, %v", steps, err)
	}
	if len(m.Names("pci:other")) > 0 || m.Has("other") || !m.BuiltIn("ext") {
		t.Error("it knows of modules that it hasn't, or not of those built in")
	}
	if files["modules/modules.softdep"] != "softdep loop pre: base\n" {
		t.Errorf("its soft needs are %q", files["modules/modules.softdep"])
	}
}

func TestInitrdWithoutKeyOrModules(t *testing.T) {
	dir := modulesFolder(t)
	packed, err := packInitrd(dir, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, there := unpack(t, packed)["image.pub"]; there {
		t.Error("there is a key")
	}
	if err := os.Remove(filepath.Join(dir, "kernel/a/nvme.ko")); err != nil {
		t.Fatal(err)
	}
	if _, err := packInitrd(dir, nil, nil); err == nil {
		t.Error("a missing file is packed")
	}
	text, err := os.ReadFile(filepath.Join(dir, "modules.dep"))
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "modules.dep"), strings.ReplaceAll(string(text), "kernel/a/nvme.ko", "kernel/a/else.ko"))
	if _, err := packInitrd(dir, nil, nil); err == nil || !strings.Contains(err.Error(), "nvme") {
		t.Errorf("a kernel without a module: %v", err)
	}
}

// unpack are the regular files of an initrd, and its folders, whose names end with a slash.
func unpack(t *testing.T, packed []byte) map[string]string {
	t.Helper()
	r, err := zstd.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	b, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for at := 0; at+110 <= len(b); {
		number := func(i int) (n int) {
			for _, c := range b[at+6+8*i : at+14+8*i] {
				n = n<<4 | strings.IndexByte("0123456789ABCDEF", c)
			}
			return n
		}
		mode, size, length := number(1), number(6), number(11)
		name := string(b[at+110 : at+110+length-1])
		content := (at + 110 + length + 3) &^ 3
		switch mode & 0o170000 {
		case 0o100000:
			out[name] = string(b[content : content+size])
		case 0o040000:
			out[name+"/"] = ""
		}
		at = (content + size + 3) &^ 3
	}
	return out
}
