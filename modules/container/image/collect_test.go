package image_test

import (
	"context"
	"testing"
	"time"

	"github.com/croft-edge/croft/internal/testing/imagetest"
	"github.com/croft-edge/croft/modules/container/image"
	"github.com/croft-edge/croft/pkg/clock"
	"github.com/croft-edge/croft/pkg/node"
)

// filling is a world with a fake clock, on a file system that is as full as a
// test says.
type filling struct {
	*world
	clock *clock.Fake
}

func fill(t *testing.T, space func() image.Space) filling {
	t.Helper()
	fake := clock.NewFake(time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC))
	w := open(t, func(c *image.Config) {
		c.Clock = fake
		c.Space = func(context.Context) (image.Space, error) { return space(), nil }
	})
	return filling{w, fake}
}

func (f filling) image(label, name string) {
	f.t.Helper()
	f.push(imagetest.New().File("/name", name, 0o644), name+":1")
	f.ready(spec(label, f.ref(name+":1")))
}

func (f filling) images() uint64 {
	f.t.Helper()
	st, err := f.Status(f.t.Context())
	must(f.t, err)
	return st.Images
}

func empty100() image.Space { return image.Space{Used: 10, Total: 100 << 30, Free: 99 << 30} }

func TestUnusedImagesGoAfterAWhile(t *testing.T) {
	f := fill(t, empty100)
	f.image("1-1", "used")
	f.image("1-2", "unused")
	f.clock.Advance(30 * 24 * time.Hour)
	must(t, f.Collect(t.Context()))
	if n := f.images(); n != 2 {
		t.Fatalf("there are %d images, want 2: both are in use, however old", n)
	}
	must(t, f.Release(t.Context(), "1-2"))
	f.clock.Advance(13 * 24 * time.Hour)
	must(t, f.Collect(t.Context()))
	if n := f.images(); n != 2 {
		t.Fatalf("there are %d images, want 2: one is unused for 13 days", n)
	}
	// Who needs it again before has it at once.
	f.registry.Set(imagetest.Faults{Status: 503})
	f.ready(spec("1-3", f.ref("unused:1")))
	must(t, f.Release(t.Context(), "1-3"))
	f.clock.Advance(13 * 24 * time.Hour)
	must(t, f.Collect(t.Context()))
	if n := f.images(); n != 2 {
		t.Fatalf("there are %d images, want 2: it was used 13 days ago", n)
	}
	f.clock.Advance(2 * 24 * time.Hour)
	must(t, f.Collect(t.Context()))
	st, err := f.Status(t.Context())
	must(t, err)
	if st.Images != 1 || st.Removed != 1 {
		t.Fatalf("status is %+v, want 1 image and 1 removed", st)
	}
	if got := f.file("1-1", "name"); got != "used" {
		t.Errorf("the one in use has %q", got)
	}
	must(t, f.Release(t.Context(), "1-1"))
	f.clock.Advance(15 * 24 * time.Hour)
	must(t, f.Collect(t.Context()))
	f.nothing(alice)
}

func TestTheLongestUnusedGoWhenItIsFull(t *testing.T) {
	var f filling
	perImage := uint64(10 << 30)
	f = fill(t, func() image.Space {
		if f.world == nil || f.Store == nil {
			return empty100()
		}
		return image.Space{Used: 51<<30 + perImage*f.count(), Total: 100 << 30, Free: 49<<30 - perImage*f.count()}
	})
	for _, name := range []string{"aa", "bb", "cc", "dd"} {
		f.image("1-"+name, name)
		f.clock.Advance(time.Minute)
	}
	// 91 % are in use, all by labels.
	must(t, f.Collect(t.Context()))
	if n := f.count(); n != 4 {
		t.Fatalf("there are %d images, want 4: all are in use", n)
	}
	// The first pulled is the last released.
	for _, name := range []string{"cc", "bb", "aa"} {
		must(t, f.Release(t.Context(), "1-"+name))
		f.clock.Advance(time.Minute)
	}
	must(t, f.Collect(t.Context()))
	if n := f.count(); n != 2 {
		t.Fatalf("there are %d images, want 2: 71 %% are enough", n)
	}
	f.registry.Set(imagetest.Faults{Status: 503})
	f.ready(spec("2-1", f.ref("aa:1")))
	if _, err := f.result(spec("2-2", f.ref("cc:1"))); node.KindOf(err) != node.Transient {
		t.Errorf("cc is still here, which was unused for longest: %v", err)
	}
	if got := f.file("1-dd", "name"); got != "dd" {
		t.Errorf("the one in use has %q", got)
	}
}

// count asks containerd itself, because the space is asked while the store is.
func (f filling) count() uint64 {
	ctx := f.daemon.Namespace(context.Background(), alice)
	c, err := f.daemon.Client(ctx)
	if err != nil {
		return 0
	}
	all, err := c.ImageService().List(ctx)
	if err != nil {
		return 0
	}
	seen := map[string]bool{}
	for _, i := range all {
		seen[i.Target.Digest.String()] = true
	}
	return uint64(len(seen))
}

func TestAnImageMakesRoomForAnother(t *testing.T) {
	var f filling
	f = fill(t, func() image.Space {
		if f.world == nil || f.Store == nil || f.count() < 2 {
			return empty100()
		}
		return image.Space{Used: 99 << 30, Total: 100 << 30, Free: 1}
	})
	f.image("1-1", "aa")
	f.image("1-2", "bb")
	f.push(imagetest.New().File("/name", "cc", 0o644), "cc:1")
	_, err := f.result(spec("1-3", f.ref("cc:1")))
	wantError(t, err, node.NoSpace)
	must(t, f.Release(t.Context(), "1-1"))
	f.clock.Advance(time.Hour)
	f.ready(spec("1-3", f.ref("cc:1")))
}

func TestImageInUseOutlivesItsRelease(t *testing.T) {
	f := fill(t, empty100)
	f.image("1-1", "aa")
	l, err := f.Layers(t.Context(), "1-1")
	must(t, err)
	f.mu.Lock()
	f.inUse = map[string]bool{"1-1": true}
	f.mu.Unlock()
	must(t, f.Release(t.Context(), "1-1"))
	if _, err := f.Inspect(t.Context(), "1-1"); node.KindOf(err) != node.NotExist {
		t.Errorf("a released label is there: %v", err)
	}
	f.clock.Advance(100 * 24 * time.Hour)
	must(t, f.Collect(t.Context()))
	if n := f.images(); n != 1 || len(l.Lower) != 1 {
		t.Fatalf("there are %d images, want the one that a container stands on", n)
	}
	if h := f.have(alice); h.Snapshots != 2 {
		t.Errorf("containerd has %+v, want the layer and its view", h)
	}
	f.mu.Lock()
	f.inUse = nil
	f.mu.Unlock()
	must(t, f.Collect(t.Context()))
	must(t, f.Collect(t.Context()))
	f.nothing(alice)
}

func TestRunCollectsGarbage(t *testing.T) {
	f := fill(t, empty100)
	f.image("1-1", "aa")
	must(t, f.Release(t.Context(), "1-1"))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- f.Run(ctx) }()
	eventually(t, "it waits", func() bool { return f.clock.Waiting() > 0 })
	f.clock.Advance(20 * 24 * time.Hour)
	f.nothing(alice)
	cancel()
	must(t, <-done)
}

// What a pull has fetched goes when nobody goes on with it.
func TestAbandonedPullsGo(t *testing.T) {
	w := open(t)
	w.push(sample(), "app:1")
	w.registry.Set(imagetest.Faults{HangAfter: 10})
	_, err := w.Pull(t.Context(), spec("1-1", w.ref("app:1")))
	must(t, err)
	eventually(t, "a blob has begun", func() bool { return w.registry.Seen().Blobs > 0 && w.have(alice).Unfinished > 0 })
	fake := clock.NewFake(time.Now())
	w.cfg.Clock = fake
	w.again()
	must(t, w.Collect(t.Context()))
	if h := w.have(alice); h.Unfinished == 0 || h.Leases != 1 {
		t.Errorf("containerd has %+v, want what was fetched today", h)
	}
	fake.Advance(8 * 24 * time.Hour)
	must(t, w.Collect(t.Context()))
	w.nothing(alice)
}
