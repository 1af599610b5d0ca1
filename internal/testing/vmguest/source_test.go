package vmguest

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

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
	dirs = append(dirs, packerDir)
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
