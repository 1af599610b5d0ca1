package fslabel

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestRealFileSystems makes each kind with its own program.
func TestRealFileSystems(t *testing.T) {
	folder := t.TempDir()
	for _, c := range []struct {
		name    string
		size    int64
		command []string
		want    Found
	}{
		{"fat12", 1 << 20, []string{"mkfs.vfat", "-F", "12", "-n", "CROFT-BOOT"}, Found{FAT, "CROFT-BOOT"}},
		{"fat16", 32 << 20, []string{"mkfs.vfat", "-F", "16", "-n", "CROFTCONFIG"}, Found{FAT, "CROFTCONFIG"}},
		{"fat32", 64 << 20, []string{"mkfs.vfat", "-F", "32", "-n", "CROFT-BOOT"}, Found{FAT, "CROFT-BOOT"}},
		{"ext4", 16 << 20, []string{"mkfs.ext4", "-q", "-L", "croft-config"}, Found{Ext4, "croft-config"}},
		{"zeros", 1 << 20, nil, Found{}},
		{"short", 100, nil, Found{}},
	} {
		path := filepath.Join(folder, c.name)
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(path, c.size); err != nil {
			t.Fatal(err)
		}
		if c.command != nil {
			if out, err := exec.CommandContext(t.Context(), c.command[0], append(c.command[1:], path)...).CombinedOutput(); err != nil {
				t.Fatalf("%s: %v: %s", c.name, err, out)
			}
		}
		if got, err := Of(path); err != nil || got != c.want {
			t.Errorf("%s: %+v, %v; want %+v", c.name, got, err, c.want)
		}
	}
	if _, err := Of(filepath.Join(folder, "none")); err == nil {
		t.Error("a file that isn't there has a file system")
	}
}

func TestISO(t *testing.T) {
	iso := make([]byte, isoAt+2048)
	copy(iso[isoAt:], "\x01CD001")
	copy(iso[isoAt+isoLabel:], "CROFT-BOOT\x1b[2J                     ")
	got := Read(bytes.NewReader(iso))
	if got != (Found{ISO, "CROFT-BOOT[2J"}) || got.Is("croft-boot") {
		t.Errorf("%+v", got)
	}
	if !(Found{FAT, "CROFT-BOOT"}).Is("croft-boot") || (Found{}).Is("") {
		t.Error("case matters, or nothing has an empty label")
	}
}
