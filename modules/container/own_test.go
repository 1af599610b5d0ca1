package container

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/croft-edge/croft/modules/container/ownimage"
	"github.com/croft-edge/croft/pkg/node"
)

// A program of the node runs in an image made of it, as zdb does: without
// capabilities, with a volume and without a network.
func TestOwnImage(t *testing.T) {
	t.Parallel()
	w := newWorldWith(t, true)
	path, err := ownimage.Make(filepath.Join(w.dir, "own"), "tool", tool)
	must(t, err)
	w.close()
	w.cfg.Image.Sources.Own = map[string]string{"tool": path}
	w.open()

	const id = "zdb-ssd0-user"
	asked := node.ImageSpec{Label: id, Reference: node.OwnImage + "tool", User: node.OwnUser}
	_, err = w.module.Images().Pull(node.ImageSpec{Label: "1-1", Reference: asked.Reference, User: "ada"})
	kind(t, err, node.Invalid, "data.flist")
	var image node.Image
	for end := time.Now().Add(patience); !image.Ready; {
		image, err = w.module.Images().Pull(asked)
		must(t, err)
		if time.Now().After(end) {
			t.Fatalf("it isn't pulled after %s: %+v", patience, image)
		}
		<-time.After(20 * time.Millisecond)
	}
	info := w.runs(node.ContainerSpec{
		ID: id, User: node.OwnUser, Layer: w.folder(t), Hostname: id, CPU: 1, Memory: 64 << 20, NoCapabilities: true,
		Mounts: []node.MountSpec{{Volume: id, Source: w.folder(t), Target: "/data"}},
	})
	if info.Image != image.Digest || info.User != node.OwnUser || info.Restarts != 0 {
		t.Errorf("it runs as %+v", info)
	}
	w.says(id, "serving")
	must(t, w.Delete(id))
	must(t, w.module.Images().Release(id))
	if all, err := w.module.Images().List(); err != nil || len(all) != 0 {
		t.Errorf("images %+v are left (%v)", all, err)
	}
}
