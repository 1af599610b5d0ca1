package vmguest

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestModulesComeAfterTheirNeeds(t *testing.T) {
	of := func(needs map[string][]string) map[string]module {
		out := map[string]module{}
		for name, list := range needs {
			out[name] = module{name: name, needs: list}
		}
		return out
	}
	ordered, err := order(of(map[string][]string{"a": {"c", "b"}, "b": {"c"}, "c": nil, "d": nil}))
	var names []string
	for _, m := range ordered {
		names = append(names, m.name)
	}
	if err != nil || !slices.Equal(names, []string{"c", "b", "a", "d"}) {
		t.Errorf("the order is %v, %v", names, err)
	}
	if _, err := order(of(map[string][]string{"a": {"gone"}})); err == nil || !strings.Contains(err.Error(), "gone") {
		t.Errorf("a missing module: %v", err)
	}
	if _, err := order(of(map[string][]string{"a": {"b"}, "b": {"a"}})); err == nil {
		t.Error("modules that need each other are ordered")
	}
}

// TestSourceKeyHasAllPackages holds that a change of any package in the guest's program makes another initrd.
func TestSourceKeyHasAllPackages(t *testing.T) {
	root, err := moduleRoot()
	if err != nil {
		t.Fatal(err)
	}
	copied := t.TempDir()
	cmd := exec.Command("go", "list", "-deps", "-f", "{{if .Module}}{{if .Module.Main}}{{.ImportPath}}{{end}}{{end}}", "./"+programDir)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	dirs := strings.Fields(strings.ReplaceAll(string(out), modulePath+"/", ""))
	if len(dirs) < 3 || !slices.Contains(dirs, programDir) {
		t.Fatalf("the program's packages are %v", dirs)
	}
	for _, dir := range dirs {
		if err := os.CopyFS(filepath.Join(copied, dir), os.DirFS(filepath.Join(root, dir))); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(copied, "go.mod"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	last := ""
	for _, dir := range append([]string{""}, dirs...) {
		if dir != "" {
			if err := os.WriteFile(filepath.Join(copied, dir, "new.go"), []byte("package new\n"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		key, err := sourceKey(copied)
		if err != nil || key == last {
			t.Errorf("a change of %s makes the same key, or %v", dir, err)
		}
		last = key
	}
}

// TestInitrd holds the archive's shape: headers of 110 digits, names and contents aligned to 4 bytes.
func TestInitrd(t *testing.T) {
	archive := initrd([]byte("program"), []module{{name: "virtio", content: []byte("12345")}})
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
