package image_test

import (
	"context"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/core/snapshots"
	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/croft-edge/croft/internal/testing/imagetest"
	"github.com/croft-edge/croft/modules/container/image"
)

// unused is how long an image may be so.
const unused = 15 * 24 * time.Hour

// collects has containerd look for garbage of a user's, and waits for its end.
func (w *world) collects(user string) {
	w.t.Helper()
	ctx, s := w.daemon.Namespace(w.t.Context(), user), w.client().ImageService()
	all, err := s.List(ctx)
	must(w.t, err)
	_, err = s.Create(ctx, images.Image{Name: "test/none", Target: all[0].Target})
	must(w.t, err)
	must(w.t, s.Delete(ctx, "test/none", images.SynchronousDelete()))
}

// snapshots are the keys of a user's snapshots.
func (w *world) snapshots(user string) []string {
	w.t.Helper()
	var keys []string
	ctx := w.daemon.Namespace(w.t.Context(), user)
	must(w.t, w.client().SnapshotService("overlayfs").Walk(ctx, func(_ context.Context, i snapshots.Info) error {
		keys = append(keys, i.Name)
		return nil
	}))
	slices.Sort(keys)
	return keys
}

func (w *world) layers(label string) image.Layers {
	w.t.Helper()
	l, err := w.Layers(w.t.Context(), label)
	must(w.t, err)
	return l
}

// Containers on the same image share one view, which goes with the image, and
// stays for what containerd collects meanwhile.
func TestContainersShareAView(t *testing.T) {
	f := fill(t, empty100)
	f.image("1-1", "aa")
	f.ready(spec("1-2", f.ref("aa:1")))
	first := f.layers("1-1")
	made := f.snapshots(alice)
	f.again()
	f.collects(alice)
	if second := f.layers("1-2"); len(made) != 2 || !slices.Equal(second.Lower, first.Lower) {
		t.Errorf("there are %v, %v and %v; want a layer with one view", made, first.Lower, second.Lower)
	}
	must(t, f.Release(t.Context(), "1-1"))
	f.collects(alice)
	if now := f.snapshots(alice); !slices.Equal(now, made) || f.file("1-2", "name") != "aa" {
		t.Errorf("with one container left there are %v, want %v", now, made)
	}
	must(t, f.Release(t.Context(), "1-2"))
	f.clock.Advance(unused)
	must(t, f.Collect(t.Context()))
	f.nothing(alice)
}

// Each user has a view of their own: what one removes the other has still.
func TestUsersShareNoView(t *testing.T) {
	f := fill(t, empty100)
	f.image("1-1", "aa")
	other := spec("2-1", f.ref("aa:1"))
	other.User = bob
	f.ready(other)
	if mine, theirs := f.layers("1-1"), f.layers("2-1"); slices.Equal(mine.Lower, theirs.Lower) {
		t.Errorf("both have %v", mine.Lower)
	}
	must(t, f.Release(t.Context(), "1-1"))
	f.clock.Advance(unused)
	must(t, f.Collect(t.Context()))
	f.nothing(alice)
	if got := f.file("2-1", "name"); got != "aa" {
		t.Errorf("the other's has %q", got)
	}
}

// Two images of other configs with the same layers have one view: it stays for
// the other.
func TestImagesOfTheSameLayersShareAView(t *testing.T) {
	f := fill(t, empty100)
	for label, name := range map[string]string{"1-1": "aa", "1-2": "bb"} {
		f.push(imagetest.New().File("/name", "same", 0o644).Config(func(c *v1.Config) { c.WorkingDir = "/" + name }), name+":1")
		f.ready(spec(label, f.ref(name+":1")))
	}
	if one, two := f.layers("1-1"), f.layers("1-2"); !slices.Equal(one.Lower, two.Lower) || one.Digest == two.Digest {
		t.Fatalf("%+v and %+v, want other images of the same layers", one, two)
	}
	made := f.snapshots(alice)
	must(t, f.Release(t.Context(), "1-1"))
	f.clock.Advance(unused)
	must(t, f.Collect(t.Context()))
	if now := f.snapshots(alice); len(made) != 2 || !slices.Equal(now, made) || f.file("1-2", "name") != "same" {
		t.Errorf("there are %v, want %v, a layer with one view", now, made)
	}
}

// An older croft made a view for each label, and none that the config holds.
func TestViewsOfAnOlderCroftGo(t *testing.T) {
	f := fill(t, empty100)
	f.image("1-1", "aa")
	// It is ready a moment before its packed layer goes.
	eventually(t, "the pull has let go", func() bool { return f.have(alice).Leases == 0 })
	ctx, c := f.daemon.Namespace(t.Context(), alice), f.client()
	layer := f.snapshots(alice)[0]
	_, err := c.SnapshotService("overlayfs").View(ctx, "croft.view.1-1", layer, snapshots.WithLabels(map[string]string{
		"croft.reservation": "1-1", "containerd.io/gc.root": "2030-01-02T03:04:05Z",
	}))
	must(t, err)
	var blobs []content.Info
	must(t, c.ContentStore().Walk(ctx, func(i content.Info) error {
		blobs = append(blobs, i)
		return nil
	}))
	for _, b := range blobs {
		maps.DeleteFunc(b.Labels, func(key, _ string) bool { return key == "containerd.io/gc.ref.snapshot.overlayfs/croft.view" })
		_, err := c.ContentStore().Update(ctx, b, "labels")
		must(t, err)
	}
	before := f.layers("1-1")
	f.collects(alice)
	if now := f.snapshots(alice); len(now) != 3 || !slices.Equal(f.layers("1-1").Lower, before.Lower) {
		t.Errorf("there are %v, want a layer with two views", now)
	}
	must(t, f.Release(t.Context(), "1-1"))
	f.collects(alice)
	if now := f.snapshots(alice); len(now) != 2 {
		t.Errorf("there are %v, want the layer with the view of its image", now)
	}
	f.clock.Advance(unused)
	must(t, f.Collect(t.Context()))
	f.nothing(alice)
}
