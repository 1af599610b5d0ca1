package disks

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/pkg/loop"
)

func TestConfigPartition(t *testing.T) {
	sparse := func(t *testing.T, path string) {
		check(t, os.WriteFile(path, nil, 0o600))
		check(t, os.Truncate(path, 16<<20))
	}
	for name, c := range map[string]struct {
		make     func(t *testing.T, path string)
		partname string
		kind     string
		wrong    string
	}{
		"fat":                  {make: func(t *testing.T, path string) { sparse(t, path); run(t, "mkfs.vfat", "-n", "CROFTCONFIG", path) }, kind: "vfat"},
		"fat in small letters": {make: func(t *testing.T, path string) { sparse(t, path); run(t, "mkfs.vfat", "-n", "croftconfig", path) }, kind: "vfat"},
		"ext4": {make: func(t *testing.T, path string) {
			sparse(t, path)
			run(t, "mkfs.ext4", "-q", "-b", "4096", "-L", "croft-config", path)
		}, kind: "ext4"},
		"iso9660": {make: func(t *testing.T, path string) {
			dir := t.TempDir()
			check(t, os.WriteFile(filepath.Join(dir, "croft.yaml"), nil, 0o600))
			run(t, "xorriso", "-as", "mkisofs", "-quiet", "-V", "Croft-Config", "-o", path, dir)
		}, kind: "iso9660"},
		"partition":       {make: func(t *testing.T, path string) { sparse(t, path); run(t, "mkfs.vfat", path) }, partname: "CROFT-config", kind: "vfat"},
		"no file system":  {make: sparse, partname: "croft-config", wrong: "none of vfat"},
		"somebody else's": {make: func(t *testing.T, path string) { sparse(t, path); run(t, "mkfs.vfat", "-n", "EFI", path) }, partname: "efi"},
	} {
		t.Run(name, func(t *testing.T) {
			dev := t.TempDir()
			sys := tree(t, map[string]string{"class/block/vda/size": "1", "class/block/sr0/size": "1", "class/block/vda1/uevent": "MAJOR=1\nPARTNAME=" + c.partname + "\nPARTN=1\n"})
			device := filepath.Join(dev, "vda1")
			c.make(t, device)
			p, found, err := FindConfig(sys, dev)
			if c.wrong != "" {
				if err == nil || !strings.Contains(err.Error(), c.wrong) {
					t.Errorf("%+v, %v", p, err)
				}
				return
			}
			if err != nil || found != (c.kind != "") || found && (p.Kind != c.kind || p.Device != device) {
				t.Fatalf("%+v, %t, %v", p, found, err)
			}
			if !found {
				return
			}
			if c.kind == "ext4" { // the one that the kernels of all builders have
				wantMounts(t, p)
			}
			check(t, os.Link(device, filepath.Join(dev, "vda")))
			if _, _, err := FindConfig(sys, dev); c.partname == "" && (err == nil || !strings.Contains(err.Error(), "unplug one")) {
				t.Errorf("two of them: %v", err)
			}
		})
	}
}

func wantMounts(t *testing.T, p ConfigPartition) {
	t.Helper()
	d, err := loop.Attach(t.Context(), p.Device)
	check(t, err)
	defer d.Close()
	at := filepath.Join(t.TempDir(), "config")
	check(t, ConfigPartition{d.Path(), p.Kind}.Mount(at))
	defer func() { check(t, unix.Unmount(at, 0)) }()
	if err := os.WriteFile(filepath.Join(at, "new"), nil, 0o600); err == nil {
		t.Error("it can be written to")
	}
}
