package module

import (
	"os"
	"path/filepath"
	"testing"
)

// TestLacksFilesystem: a kernel lacks what it neither has nor can load; what isn't known doesn't count against it.
func TestLacksFilesystem(t *testing.T) {
	const release = "6.1.0-18-amd64"
	has, hasNot := "nodev\tsysfs\n\text4\n\tbtrfs\n", "nodev\tsysfs\n\text4\nnodev\tbtrfs_test\n"
	dep, other := "kernel/fs/btrfs/btrfs.ko.xz: kernel/lib/raid6/raid6_pq.ko.xz\n", "kernel/fs/not-btrfs.ko:\nkernel/fs/overlayfs/overlay.ko:\n"
	for name, c := range map[string]struct {
		files map[string]string
		lacks bool
	}{
		"it has it":                    {map[string]string{"proc/filesystems": has}, false},
		"it loads no modules":          {map[string]string{"proc/filesystems": hasNot}, true},
		"it may load it":               {map[string]string{"proc/filesystems": hasNot, "proc/sys/kernel/modprobe": "/sbin/modprobe\n", "lib/modules/" + release + "/modules.dep": dep}, false},
		"there is no such module":      {map[string]string{"proc/filesystems": hasNot, "proc/sys/kernel/modprobe": "/sbin/modprobe\n", "lib/modules/" + release + "/modules.dep": other}, true},
		"its modules aren't known":     {map[string]string{"proc/filesystems": hasNot, "proc/sys/kernel/modprobe": "/sbin/modprobe\n", "lib/modules/6.2/modules.dep": other}, false},
		"its filesystems aren't known": {map[string]string{"proc/version": release}, false},
	} {
		root := t.TempDir()
		for path, text := range c.files {
			path = filepath.Join(root, path)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if got := lacksFilesystem(root, release, Btrfs); got != c.lacks {
			t.Errorf("%s: lacks it: %t", name, got)
		}
	}
}

// TestThisMachinesFacts: it has what the tests of the modules use.
func TestThisMachinesFacts(t *testing.T) {
	f, err := ReadFacts()
	if err != nil || f.Kernel == "" || f.Memory < 64<<20 || len(f.Needs(Btrfs))+len(f.Needs(Overlay))+len(f.Needs(Nftables)) != 0 {
		t.Errorf("%+v, %v", f, err)
	}
	if !lacksFilesystem("/", f.Kernel, "nonsense") {
		t.Error("it has the filesystem nonsense")
	}
}
