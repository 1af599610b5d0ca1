package image_test

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/containerd/v2/core/snapshots"
	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/internal/testing/containerdtest"
	"github.com/croft-edge/croft/internal/testing/imagetest"
	"github.com/croft-edge/croft/modules/container/containerd"
	"github.com/croft-edge/croft/modules/container/image"
	"github.com/croft-edge/croft/modules/container/image/catalog"
	"github.com/croft-edge/croft/modules/container/image/source"
	"github.com/croft-edge/croft/pkg/clock"
	"github.com/croft-edge/croft/pkg/dial"
	"github.com/croft-edge/croft/pkg/fetch"
	"github.com/croft-edge/croft/pkg/node"
)

const (
	alice = "6Y6usApYSWiMRSNvnBFHL6vbSJamoCsjjwJsn6q4mpry"
	bob   = "4vJ9JU1bJJE96FWSJKvHsmmFADCg4gpZQff4P3bkLKi5"
)

// patience is for a slow, busy machine.
const patience = 4 * time.Minute

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// world is a store with its containerd, a registry and a folder.
type world struct {
	*image.Store
	t        *testing.T
	cfg      image.Config
	daemon   *containerd.Daemon
	registry *imagetest.Registry
	dir      string
	logs     *lines

	mu    sync.Mutex
	inUse map[string]bool
}

// lines are the logged lines.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// open makes a world. change is for settings that aren't the usual ones.
func open(t *testing.T, change ...func(*image.Config)) *world {
	t.Helper()
	w := &world{t: t, daemon: containerdtest.Start(t), dir: containerdtest.Folder(t), logs: &lines{}}
	var err error
	w.registry, err = imagetest.StartRegistry()
	must(t, err)
	t.Cleanup(func() { w.registry.Close() })
	w.cfg = image.Config{
		Daemon: w.daemon,
		Sources: source.Config{
			Config: fetch.Config{Dialer: dialer(t, w.registry.Host), PlainHTTP: []string{w.registry.Host}, Silence: 20 * time.Second},
			Paths:  []string{w.dir},
		},
		Unpacking: image.Unpacking{Command: []string{"/proc/self/exe", "unpack"}},
		Pulling:   image.Pulling{Backoff: time.Millisecond, Answer: 2 * time.Minute}, Clock: clock.System{},
		Log: zerolog.New(zerolog.MultiLevelWriter(w.logs, zerolog.NewTestWriter(t))),
		InUse: func(context.Context) (map[string]bool, error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			return w.inUse, nil
		},
	}
	// Lists are kept, and nobody tells of changes: a store knows of its own.
	w.cfg.Lists = &catalog.Lists{}
	w.cfg.Lists.Live()
	for _, f := range change {
		f(&w.cfg)
	}
	w.Store, err = image.Open(w.cfg)
	must(t, err)
	t.Cleanup(func() { w.Close() })
	return w
}

// again ends the store as an end of the process does, and opens it anew.
func (w *world) again() {
	w.t.Helper()
	must(w.t, w.Close())
	s, err := image.Open(w.cfg)
	must(w.t, err)
	w.Store = s
	w.t.Cleanup(func() { s.Close() })
}

func dialer(t *testing.T, allow ...string) *dial.Dialer {
	t.Helper()
	c := dial.Config{Own: func() []netip.Prefix { return nil }, Log: zerolog.Nop()}
	for _, text := range allow {
		e, err := dial.ParseException(text)
		must(t, err)
		c.Allow = append(c.Allow, e)
	}
	d, err := dial.New(c)
	must(t, err)
	return d
}

// ref is docker://REGISTRY/NAME.
func (w *world) ref(name string) string { return "docker://" + w.registry.Host + "/" + name }

// push puts an image into the registry, and returns the digest of its manifest.
func (w *world) push(b *imagetest.Builder, name string) string {
	w.t.Helper()
	d, err := b.Push(w.t.Context(), w.registry.Host+"/"+name, w.registry.Behind())
	must(w.t, err)
	return d.String()
}

func spec(label, reference string) node.ImageSpec {
	return node.ImageSpec{Label: label, Reference: reference, User: alice}
}

// result pulls until it is ready or has failed.
func (w *world) result(s node.ImageSpec) (node.Image, error) {
	w.t.Helper()
	for began := time.Now(); ; rest(began) {
		i, err := w.Pull(w.t.Context(), s)
		if err != nil || i.Ready {
			return i, err
		}
		if time.Since(began) > patience {
			w.t.Fatalf("%s isn't pulled after %s: %+v", s.Reference, patience, i)
		}
	}
}

// ready pulls what must succeed, whatever fails on the way and is worth another try.
func (w *world) ready(s node.ImageSpec) node.Image {
	w.t.Helper()
	for end := time.Now().Add(patience); ; {
		i, err := w.result(s)
		if err == nil {
			return i
		}
		if node.KindOf(err) != node.Transient || time.Now().After(end) {
			w.t.Fatal(err)
		}
	}
}

// fails pulls what must fail with a kind and a text, and leave nothing.
func (w *world) fails(s node.ImageSpec, kind node.Kind, texts ...string) {
	w.t.Helper()
	_, err := w.result(s)
	wantError(w.t, err, kind, texts...)
	w.nothing(s.User)
}

func wantError(t *testing.T, err error, kind node.Kind, texts ...string) {
	t.Helper()
	if !errors.Is(err, kind) {
		t.Fatalf("error is %v (kind %s), want kind %s", err, node.KindOf(err), kind)
	}
	for _, text := range append(texts, "cannot") {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("error is %q, want it to say %q", err, text)
		}
	}
}

// rest is the pause between two looks of a wait: the longer it has taken, the longer.
func rest(began time.Time) {
	time.Sleep(min(max(5*time.Millisecond, time.Since(began)/20), 250*time.Millisecond))
}

// eventually waits until what comes true.
func eventually(t *testing.T, what string, f func() bool) {
	t.Helper()
	for began := time.Now(); !f(); rest(began) {
		if time.Since(began) > patience {
			t.Fatalf("%s: not after %s", what, patience)
		}
	}
}

// have is how much there is in a user's namespace of containerd.
type have struct{ Images, Blobs, Unfinished, Snapshots, Leases int }

func (w *world) have(user string) have {
	w.t.Helper()
	ctx := w.daemon.Namespace(w.t.Context(), user)
	c := w.client()
	var h have
	images, err := c.ImageService().List(ctx)
	must(w.t, err)
	h.Images = len(images)
	must(w.t, c.ContentStore().Walk(ctx, func(content.Info) error {
		h.Blobs++
		return nil
	}))
	unfinished, err := c.ContentStore().ListStatuses(ctx, "")
	must(w.t, err)
	h.Unfinished = len(unfinished)
	must(w.t, c.SnapshotService("overlayfs").Walk(ctx, func(context.Context, snapshots.Info) error {
		h.Snapshots++
		return nil
	}))
	leases, err := c.LeasesService().List(ctx)
	must(w.t, err)
	h.Leases = len(leases)
	return h
}

// nothing fails unless a user has nothing left, in containerd and on the disk.
func (w *world) nothing(user string) {
	w.t.Helper()
	var last have
	began := time.Now()
	for last = w.have(user); last != (have{}) && time.Since(began) < patience; last = w.have(user) {
		rest(began)
	}
	if last != (have{}) {
		w.t.Fatalf("left behind: %+v", last)
	}
}

func (w *world) client() *client.Client {
	w.t.Helper()
	c, err := w.daemon.Client(w.t.Context())
	must(w.t, err)
	return c
}

// file reads a file of an image as a container would see it, or says how it
// isn't there.
func (w *world) file(label, path string) string {
	w.t.Helper()
	l, err := w.Layers(w.t.Context(), label)
	must(w.t, err)
	for _, lower := range l.Lower {
		b, err := os.ReadFile(filepath.Join(lower, path))
		if err == nil {
			return string(b)
		}
		if !errors.Is(err, os.ErrNotExist) {
			return err.Error()
		}
	}
	return "nothing"
}
