package spec_test

import (
	"os"
	"os/exec"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// mountBtrfs puts a btrfs file system at /data of the container, as its volumes are.
func (c *container) mountBtrfs() {
	c.t.Helper()
	image, at := filepath.Join(c.dir, "btrfs"), filepath.Join(c.Root, "data")
	file, err := os.Create(image)
	c.must(err)
	c.must(file.Truncate(256 << 20))
	c.must(file.Close())
	for _, args := range [][]string{{"mkfs.btrfs", "-q", image}, {"mount", "-o", "loop", image, at}} {
		if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
			c.t.Fatalf("%v: %v: %s", args, err, out)
		}
	}
	c.t.Cleanup(func() {
		if err := unix.Unmount(at, unix.MNT_DETACH); err != nil {
			c.t.Errorf("unmount %s: %v", at, err)
		}
	})
	c.must(os.Chown(at, int(c.Base), int(c.Base)))
}

func read(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return string(text)
}
