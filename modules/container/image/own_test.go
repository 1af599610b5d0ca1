package image_test

import (
	"os"
	"path/filepath"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/croft-edge/croft/internal/testing/imagetest"
	"github.com/croft-edge/croft/modules/container/image"
	"github.com/croft-edge/croft/pkg/node"
)

// own is a spec of the node itself.
func own(label, reference string) node.ImageSpec {
	return node.ImageSpec{Label: label, Reference: reference, User: node.OwnUser}
}

// openOwn makes a world whose node has images of its own, by name as folder and
// as tar, which are below no allowed path.
func openOwn(t *testing.T, change ...func(*image.Config)) (w *world, dir string) {
	t.Helper()
	dir = t.TempDir()
	_, err := sample().Layout(filepath.Join(dir, "layout"))
	must(t, err)
	_, err = sample().Tar(filepath.Join(dir, "a.tar"))
	must(t, err)
	return open(t, append(change, func(c *image.Config) {
		c.Sources.Own = map[string]string{"zdb": filepath.Join(dir, "layout"), "tar": filepath.Join(dir, "a.tar"), "gone": filepath.Join(dir, "gone")}
	})...), dir
}

func TestTheNodesOwnImages(t *testing.T) {
	w, _ := openOwn(t)
	i := w.ready(own("zdb-ssd0-user", "croft://zdb"))
	if i.Label != "zdb-ssd0-user" || i.Reference != "croft://zdb" || i.User != node.OwnUser || i.Digest == "" || i.Size == 0 {
		t.Errorf("pulled %+v", i)
	}
	if again := w.ready(own("zdb-ssd0-user", "croft://zdb")); again.Digest != i.Digest {
		t.Errorf("again it is %+v", again)
	}
	if other := w.ready(own("zdb-ssd0-seq", "croft://tar")); other.Digest != i.Digest {
		t.Errorf("the same image in a tar is %s, in a folder %s", other.Digest, i.Digest)
	}
	l, err := w.Layers(t.Context(), "zdb-ssd0-user")
	must(t, err)
	if l.Digest != i.Digest || len(l.Lower) == 0 {
		t.Errorf("its layers are %+v", l)
	}
	w.fails(node.ImageSpec{Label: "1-1", Reference: "croft://zdb", User: bob}, node.Invalid, "data.flist", "neither a docker:// reference")
	must(t, w.Release(t.Context(), "zdb-ssd0-user"))
	must(t, w.Release(t.Context(), "zdb-ssd0-seq"))
	w.nothing(node.OwnUser)
}

func TestMissingOwnImages(t *testing.T) {
	w, _ := openOwn(t)
	for _, reference := range []string{"croft://nothing", "croft://", "croft://zdb/x", "croft://../a", "croft://ZDB"} {
		_, err := w.result(own("1-1", reference))
		wantError(t, err, node.Refused, reference, "not installed on this node", "gone, tar, zdb")
	}
	w.fails(own("1-1", "croft://gone"), node.Invalid, "croft://gone")
	w.cfg.Sources.Own = nil
	w.again()
	_, err := w.result(own("1-1", "croft://zdb"))
	wantError(t, err, node.Refused, "croft://zdb", "which has none")
	// The node may still pull as users do.
	w.fails(own("1-1", "/etc"), node.Invalid, "data.flist", w.dir)
}

// TestOwnImagesStay wants a label's image to stay when its program has changed,
// and a new label to get the new program.
func TestOwnImagesStay(t *testing.T) {
	w, dir := openOwn(t)
	before := w.ready(own("zdb-ssd0-user", "croft://zdb"))
	must(t, os.RemoveAll(filepath.Join(dir, "layout")))
	newer := sample().File("version", "2", 0o644)
	digest, err := newer.Layout(filepath.Join(dir, "layout"))
	must(t, err)
	if digest.String() == before.Digest {
		t.Fatal("the other image is the same: this test shows nothing")
	}
	w.again()
	if after := w.ready(own("zdb-ssd0-user", "croft://zdb")); after.Digest != before.Digest {
		t.Errorf("what it has became %s, it was %s", after.Digest, before.Digest)
	}
	if other := w.ready(own("zdb-ssd0-seq", "croft://zdb")); other.Digest != digest.String() {
		t.Errorf("another label has %s, want %s", other.Digest, digest)
	}
	must(t, w.Release(t.Context(), "zdb-ssd0-user"))
	if after := w.ready(own("zdb-ssd0-user", "croft://zdb")); after.Digest != digest.String() {
		t.Errorf("after its release it has %s, want %s", after.Digest, digest)
	}
}

// TestOwnImagesHaveNoBudget wants the node's own image to be there whatever users may have.
func TestOwnImagesHaveNoBudget(t *testing.T) {
	w, dir := openOwn(t, func(c *image.Config) { c.Limits.UserBudget = 100 << 10 })
	header, content := random("big", 200<<10)
	_, err := imagetest.New().Entry(header, content).Config(func(c *v1.Config) { c.Entrypoint = []string{"/big"} }).Layout(filepath.Join(dir, "gone"))
	must(t, err)
	w.ready(own("zdb-ssd0-user", "croft://gone"))
	_, err = imagetest.New().Entry(header, content).Config(func(c *v1.Config) { c.Entrypoint = []string{"/big"} }).Layout(filepath.Join(w.dir, "big"))
	must(t, err)
	w.fails(spec("1-1", filepath.Join(w.dir, "big")), node.Refused, "the user's images")
}
