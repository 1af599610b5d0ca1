package main

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/croft-edge/croft/bootstrap/internal/imagebuild"
)

// Folders are taken whole, and one that no package has is told.
func TestPackageFiles(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"abi/3.0", "abstractions/base", "tunables/global", "tunables/home.d/site.local"} {
		write(t, filepath.Join(dir, "etc/apparmor.d", name), "text")
	}
	write(t, filepath.Join(dir, "etc/apparmor.d/other"), "text")
	files, err := packageFiles([]imagebuild.Package{{Name: "other", Dir: t.TempDir()}, {Name: "apparmor", Dir: dir}})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{"/etc/apparmor.d/tunables/home.d/site.local": true, "/etc/apparmor.d/abi/3.0": true, "/etc/apparmor.d/other": false, "/usr/bin/containerd": true} {
		if got := slices.Contains(files, name); got != want {
			t.Errorf("%s is taken: %v, want %v", name, got, want)
		}
	}
	if _, err := packageFiles([]imagebuild.Package{{Name: "other", Dir: t.TempDir()}}); err == nil {
		t.Error("without apparmor it has files")
	}
	names := packageNames()
	for _, name := range shownPackages() {
		if !slices.Contains(names, name) {
			t.Errorf("the package %s is shown, and not taken", name)
		}
	}
}
