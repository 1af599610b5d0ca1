package image_test

import (
	"testing"
	"time"

	"github.com/containerd/containerd/v2/core/images"

	"github.com/croft-edge/croft/internal/testing/imagetest"
	"github.com/croft-edge/croft/modules/container/image/catalog"
	"github.com/croft-edge/croft/pkg/node"
)

// shown are how many images a world's List and Status show.
func (w *world) shown() (listed int, counted uint64) {
	w.t.Helper()
	all, err := w.List(w.t.Context())
	must(w.t, err)
	st, err := w.Status(w.t.Context())
	must(w.t, err)
	return len(all), st.Images
}

// Another program removes an image. Until that is told, what is shown is the list from before; what is decided isn't.
func TestListsAreKeptUntilAChangeIsTold(t *testing.T) {
	w := open(t)
	for _, name := range []string{"1-1", "2-1"} {
		w.push(imagetest.New().File("/name", name, 0o644), "of"+name+":1")
		w.ready(spec(name, w.ref("of"+name+":1")))
	}
	if listed, counted := w.shown(); listed != 2 || counted != 2 {
		t.Fatalf("%d images are listed, %d counted; want 2", listed, counted)
	}
	in := w.daemon.Namespace(t.Context(), alice)
	all, err := w.client().ImageService().List(in)
	must(t, err)
	for _, i := range all {
		if i.Labels["croft.image.reference"] == w.ref("of1-1:1") {
			must(t, w.client().ImageService().Delete(in, i.Name, images.SynchronousDelete()))
		}
	}
	if listed, counted := w.shown(); listed != 2 || counted != 2 {
		t.Errorf("%d images are listed, %d counted; want 2: nobody has told of a change", listed, counted)
	}
	if err := w.Release(t.Context(), "1-1"); node.KindOf(err) != node.NotExist {
		t.Errorf("Release of an image that is gone returned %v", err)
	}
	w.cfg.Lists.Forget(bob)
	if listed, _ := w.shown(); listed != 2 {
		t.Errorf("%d images are listed, want 2: a change of another user's was told", listed)
	}
	w.cfg.Lists.Forget(alice)
	if listed, counted := w.shown(); listed != 1 || counted != 1 {
		t.Errorf("%d images are listed, %d counted; want 1: its change was told", listed, counted)
	}
}

// While changes may be missed, containerd is asked each time.
func TestListsAreReadAnewWithoutEvents(t *testing.T) {
	for name, lists := range map[string]*catalog.Lists{"not heard": {}, "none": nil} {
		t.Run(name, func(t *testing.T) {
			w := open(t)
			w.cfg.Lists = lists
			w.again()
			w.push(imagetest.New().File("/name", "one", 0o644), "one:1")
			w.ready(spec("1-1", w.ref("one:1")))
			if listed, _ := w.shown(); listed != 1 {
				t.Fatalf("%d images are listed, want 1", listed)
			}
			in := w.daemon.Namespace(t.Context(), alice)
			began := time.Now()
			must(t, w.client().ImageService().Delete(in, "croft.local/label/1-1", images.SynchronousDelete()))
			if listed, _ := w.shown(); listed != 0 {
				t.Errorf("%d images are listed %s after the only one was deleted", listed, time.Since(began))
			}
		})
	}
}
