package memdisk

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/modules/container/rootfs"
)

// TestLayersOfContainersCanBeThere: a disk in memory can hold the layers of containers; it and what is on it stay when they are asked for again.
func TestLayersOfContainersCanBeThere(t *testing.T) {
	dir := t.TempDir()
	folder, maker := filepath.Join(dir, "containerd"), Maker{Sys: "/sys", Dev: "/dev", Notes: dir}
	device, err := maker.Disk("images", 192<<20)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := os.WriteFile("/sys/class/zram-control/hot_remove", []byte(strings.TrimPrefix(device, "/dev/zram")), 0o600); err != nil {
			t.Errorf("%s stays: %v", device, err)
		}
	}()
	if err := Mount(t.Context(), device, folder); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := unix.Unmount(folder, 0); err != nil {
			t.Error(err)
		}
	}()
	if err := rootfs.Supported(folder); err != nil {
		t.Error(err)
	}
	note := filepath.Join(folder, "note")
	if err := os.WriteFile(note, []byte("kept"), 0o600); err != nil {
		t.Fatal(err)
	}
	if again, err := maker.Disk("images", 192<<20); err != nil || again != device {
		t.Errorf("asked for again, the disk is %q, %v, want %q", again, err, device)
	}
	if err := Mount(t.Context(), device, folder); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(note); err != nil || string(got) != "kept" {
		t.Errorf("the note is %q, %v", got, err)
	}
}

// TestADiskThatCannotBeMade: the size is written, and a kernel that refuses it, or has no zram, is an error; nothing is remembered then.
func TestADiskThatCannotBeMade(t *testing.T) {
	dir := t.TempDir()
	maker := Maker{Sys: dir, Dev: "/dev", Notes: dir}
	if device, err := maker.Disk("pool", 1<<20); err == nil {
		t.Errorf("without zram there is %s", device)
	}
	write := func(name, content string) {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("class/zram-control/hot_add", "7\n")
	if device, err := maker.Disk("pool", 1<<20); err == nil {
		t.Errorf("a kernel that takes no size has made %s", device)
	}
	write("block/zram7/disksize", "")
	if device, err := maker.Disk("pool", 1<<20); err != nil || device != "/dev/zram7" {
		t.Errorf("the disk is %q, %v", device, err)
	}
	if size, err := os.ReadFile(filepath.Join(dir, "block/zram7/disksize")); err != nil || string(size) != "1048576" {
		t.Errorf("its size is %q, %v", size, err)
	}
}
