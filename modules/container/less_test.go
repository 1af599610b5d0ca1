package container

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/croft-edge/croft/pkg/node"
)

func TestRestrictions(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	volume := filepath.Join(w.dir, "volume")
	must(t, os.MkdirAll(volume, 0o755))
	w.image("1-1", ocispec.ImageConfig{User: "1000"}, nil)
	must(t, os.Chown(volume, 1000, 1000))
	s := w.spec("1-1", "serve", "hello")
	s.ReadOnly, s.NonRoot, s.NoCapabilities = true, true, true
	s.Mounts = []node.MountSpec{{Volume: "9-1", Source: volume, Target: "/data"}}
	w.runs(s)
	if code, out, _ := w.exec("1-1", "write", "/tmp/x", "y"); code == 0 || !strings.Contains(out, "read-only file system") {
		t.Errorf("it writes to its root: %d, %s", code, out)
	}
	if code, out, _ := w.exec("1-1", "write", "/data/x", "y"); code != 0 {
		t.Errorf("it can't write to its volume: %s", out)
	}
	if code, out, _ := w.exec("1-1", "write", "/dev/shm/x", "y"); code != 0 {
		t.Errorf("it can't write to its shared memory: %s", out)
	}
	if _, out, _ := w.exec("1-1", "read", "/proc/self/status"); !strings.Contains(out, "CapBnd:\t0000000000000000") {
		t.Errorf("it has capabilities: %s", out)
	}

	root := w.spec("1-2", "serve", "hello")
	root.NonRoot = true
	_, err := w.Create(root)
	kind(t, err, node.Invalid, "non_root", "root")
	root.NonRoot = false
	w.runs(root)
	if code, out, _ := w.exec("1-2", "write", "/tmp-x", "y"); code != 0 {
		t.Errorf("one that asks for nothing can't write: %s", out)
	}
}
