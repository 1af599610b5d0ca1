//go:build boot && long

package e2e_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/croft-edge/croft/internal/nodeimage"
	"github.com/croft-edge/croft/internal/nodeimage/verity"
)

// withoutContainerd makes a signed image whose root file system lacks containerd: it boots, and all but containers works.
func (sh *shelf) withoutContainerd(age int64) string {
	sh.Helper()
	folder := sh.image("without-containerd", age, sh.stage1)
	file, unpacked := filepath.Join(folder, nodeimage.RootFile), sh.Path("unpacked")
	run := func(name string, args ...string) {
		sh.Helper()
		if out, err := exec.CommandContext(sh.Context(), name, args...).CombinedOutput(); err != nil {
			sh.Fatalf("%s %q: %v: %s", name, args, err, out)
		}
	}
	run("unsquashfs", "-q", "-n", "-d", unpacked, file)
	sh.must(os.Remove(filepath.Join(unpacked, "usr", "bin", "containerd")))
	sh.must(os.Remove(file))
	run("mksquashfs", unpacked, file, "-quiet", "-no-progress", "-comp", "gzip")
	tree, err := verity.Append(file, []byte("a salt for tests"))
	sh.must(err)
	raw, err := os.ReadFile(filepath.Join(folder, nodeimage.ManifestFile))
	sh.must(err)
	manifest, err := nodeimage.Decode(raw)
	sh.must(err)
	manifest.Root = tree
	sh.sign(folder, manifest)
	return folder
}

// TestNeverReady offers a node an image that boots, but can't run containers: after five minutes the old one boots by itself, and its workloads run.
func TestNeverReady(t *testing.T) {
	sh, n, p := upgradable(t)
	sh.offer(sh.withoutContainerd(1))
	if b := n.upgradeWithin(3 * patience); !b.is("croft.slot=a") || b.is("croft.trial") {
		t.Errorf("after an image that is never ready the node runs with %s, want the old image in slot a", b.line)
	}
	n.m.Until(patience, "this image isn't ready after 5m0s: the old one boots again")
	n.m.Until(patience, "the last new image didn't become ready")
	p.answers()
	p.noted("before the upgrade")
	n.refuses(sh)
}
