package memdisk

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/modules/container/rootfs"
	"github.com/croft-edge/croft/pkg/loop"
)

// TestLayersOfContainersCanBeThere: a folder in memory can hold the layers of containers; what is there stays when it is asked for again, and nothing is
// left of it once it is unmounted.
func TestLayersOfContainersCanBeThere(t *testing.T) {
	dir := t.TempDir()
	memory := filepath.Join(dir, "memory")
	if err := os.Mkdir(memory, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("tmpfs", memory, "tmpfs", 0, "size=256M"); err != nil {
		t.Fatal(err)
	}
	file, folder := filepath.Join(memory, "images"), filepath.Join(memory, "containerd")
	unmount := func(at string) {
		t.Helper()
		if err := unix.Unmount(at, 0); err != nil {
			t.Errorf("%s: %v", at, err)
		}
	}
	defer unmount(memory)
	if err := Mount(t.Context(), file, folder, 192<<20); err != nil {
		t.Fatal(err)
	}
	defer unmount(folder)
	if err := rootfs.Supported(folder); err != nil {
		t.Error(err)
	}
	note := filepath.Join(folder, "note")
	if err := os.WriteFile(note, []byte("kept"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Mount(t.Context(), file, folder, 192<<20); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(note); err != nil || string(got) != "kept" {
		t.Errorf("the note is %q, %v", got, err)
	}
	if _, err := loop.Find(file); err != nil {
		t.Error(err)
	}
}
