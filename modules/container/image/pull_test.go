package image_test

import (
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/croft-edge/croft/internal/testing/imagetest"
	"github.com/croft-edge/croft/modules/container/image"
	"github.com/croft-edge/croft/pkg/node"
)

// sample has three layers, of which the second takes something of the first away.
func sample() *imagetest.Builder {
	return imagetest.New().File("/etc/one", "1", 0o644).File("/etc/two", "2", 0o644).
		Layer().Whiteout("/etc/one").File("/etc/three", "3", 0o644).
		Layer().Zstd().File("/etc/two", "two", 0o644).
		Config(func(c *v1.Config) { c.Entrypoint = []string{"/bin/x"}; c.User = "12:34" })
}

func TestPullFromARegistry(t *testing.T) {
	w := open(t)
	digest := w.push(sample(), "app:1")
	first, err := w.Pull(t.Context(), spec("1-1", w.ref("app:1")))
	must(t, err)
	if first.Ready || first.Label != "1-1" {
		t.Errorf("the first answer is %+v, want one that isn't ready", first)
	}
	i := w.ready(spec("1-1", w.ref("app:1")))
	if i.Digest != digest || i.Size == 0 || i.User != alice || i.Reference != w.ref("app:1") || i.Used == 0 {
		t.Errorf("image is %+v, want digest %s", i, digest)
	}
	l, err := w.Layers(t.Context(), "1-1")
	must(t, err)
	if len(l.Lower) != 3 || l.Digest != digest || l.Config.User != "12:34" || l.Config.Entrypoint[0] != "/bin/x" {
		t.Errorf("layers are %+v", l)
	}
	if got := w.file("1-1", "etc/two"); got != "two" {
		t.Errorf("/etc/two has %q: the layers aren't topmost first", got)
	}
	// Twice.
	if again := w.ready(spec("1-1", w.ref("app:1"))); again.Digest != digest {
		t.Errorf("the second pull has %s", again.Digest)
	}
	// The packed layers are gone, a manifest and a config aren't.
	if h := w.have(alice); h.Blobs != 2 || h.Leases != 0 || h.Snapshots != 4 || h.Unfinished != 0 {
		t.Errorf("containerd has %+v, want 2 blobs, 3 layers and a view", h)
	}
}

func TestPullEachForm(t *testing.T) {
	t.Parallel()
	w := open(t)
	want, err := sample().Layout(filepath.Join(w.dir, "layout"))
	must(t, err)
	_, err = sample().Tar(filepath.Join(w.dir, "oci.tar"))
	must(t, err)
	plain := imagetest.New().File("/etc/two", "two", 0o644)
	must(t, plain.Docker().DockerTar(filepath.Join(w.dir, "docker.tar"), "app:1"))
	for label, form := range map[string]struct{ reference, digest string }{
		"1-1": {filepath.Join(w.dir, "layout"), want.String()},
		"1-2": {filepath.Join(w.dir, "oci.tar"), want.String()},
		"1-3": {filepath.Join(w.dir, "docker.tar"), ""},
		"1-4": {w.ref("app@" + w.push(sample(), "app:1")), want.String()},
		"1-5": {w.ref("app:docker"), w.push(imagetest.New().Docker().File("/etc/two", "two", 0o644), "app:docker")},
		"1-6": {w.ref("app"), w.push(imagetest.New().Plain().File("/etc/two", "two", 0o644), "app:latest")},
	} {
		i := w.ready(spec(label, form.reference))
		if form.digest != "" && i.Digest != form.digest {
			t.Errorf("%s has digest %s, want %s", form.reference, i.Digest, form.digest)
		}
		if got := w.file(label, "etc/two"); got != "two" {
			t.Errorf("%s: /etc/two has %q", form.reference, got)
		}
	}
}

func TestMovedTagKeepsPinnedImage(t *testing.T) {
	t.Parallel()
	w := open(t)
	first := w.push(imagetest.New().File("/v", "1", 0o644), "app:1")
	w.ready(spec("1-1", w.ref("app:1")))
	second := w.push(imagetest.New().File("/v", "2", 0o644), "app:1")
	w.again()
	if i := w.ready(spec("1-1", w.ref("app:1"))); i.Digest != first {
		t.Errorf("digest is %s, want the first one, %s", i.Digest, first)
	}
	if i := w.ready(spec("1-2", w.ref("app:1"))); i.Digest != second {
		t.Errorf("a new one has digest %s, want %s", i.Digest, second)
	}
	if got := w.file("1-1", "v") + w.file("1-2", "v"); got != "12" {
		t.Errorf("files have %q, want 12", got)
	}
}

func TestPresentImageNeedsNoNetwork(t *testing.T) {
	t.Parallel()
	w := open(t, func(c *image.Config) { c.Pulling.Answer = time.Second })
	digest := w.push(sample(), "app:1")
	w.ready(spec("1-1", w.ref("app:1")))
	w.registry.Forget()
	w.registry.Set(imagetest.Faults{Silent: true})
	// The same label, and a digest: not one question.
	w.ready(spec("1-1", w.ref("app:1")))
	if i := w.ready(spec("1-2", w.ref("app@"+digest))); i.Digest != digest {
		t.Errorf("digest is %s, want %s", i.Digest, digest)
	}
	if n := w.registry.Seen().Requests; n != 0 {
		t.Errorf("the registry was asked %d times, want 0", n)
	}
	// A tag of a registry that is silent, and of one that is gone.
	if i := w.ready(spec("1-3", w.ref("app:1"))); i.Digest != digest {
		t.Errorf("digest is %s, want %s", i.Digest, digest)
	}
	must(t, w.registry.Close())
	if i := w.ready(spec("1-4", w.ref("app:1"))); i.Digest != digest {
		t.Errorf("digest is %s, want %s", i.Digest, digest)
	}
	// Somebody else's isn't here for this user.
	other := spec("1-5", w.ref("app@"+digest))
	other.User = bob
	if i, err := w.result(other); err == nil {
		t.Errorf("another user gets %+v without the registry", i)
	}
}

// Another user's registry may name the digest of a layer that it doesn't have.
// What a user has is used without reading it again; a lie about it shows.
func TestLyingLayout(t *testing.T) {
	w := open(t)
	layout := filepath.Join(w.dir, "layout")
	want, err := sample().Layout(layout)
	must(t, err)
	w.ready(spec("1-1", layout))
	if i := w.ready(spec("1-2", layout)); i.Digest != want.String() {
		t.Errorf("digest is %s, want %s", i.Digest, want)
	}
	index := filepath.Join(layout, "index.json")
	raw, err := os.ReadFile(index)
	must(t, err)
	lie := regexp.MustCompile(`"size":\s*`).ReplaceAll(raw, []byte(`"size": 1`))
	must(t, os.WriteFile(index, lie, 0o600))
	_, err = w.result(spec("1-3", layout))
	wantError(t, err, node.Invalid, "its manifest says")
}

func TestADigestIsNoKeyToAnotherUsersLayers(t *testing.T) {
	w := open(t)
	w.push(imagetest.New().File("/secret", "alice's", 0o600), "private:1")
	w.ready(spec("1-1", w.ref("private:1")))
	// Bob's registry serves the same manifest, and no layer.
	w.registry.Set(imagetest.Faults{Change: func(path string, body []byte) []byte {
		if filepath.Base(filepath.Dir(path)) == "blobs" && len(body) > 0 && body[0] != '{' {
			return []byte("nothing")
		}
		return body
	}})
	theirs := spec("1-2", w.ref("private:1"))
	theirs.User = bob
	w.fails(theirs, node.Refused)
}

func TestPullGoesOnWhereItWas(t *testing.T) {
	t.Parallel()
	w := open(t, func(c *image.Config) { c.Sources.Silence = time.Minute }) // it hangs until the process ends
	big := imagetest.New().Plain().Entry(random("big", 8<<20))
	digest := w.push(big, "app:1")
	w.registry.Set(imagetest.Faults{HangAfter: 5 << 20})
	s := spec("1-1", w.ref("app:1"))
	_, err := w.Pull(t.Context(), s)
	must(t, err)
	eventually(t, "half of it is here", func() bool {
		i, err := w.Inspect(t.Context(), "1-1")
		must(t, err)
		return i.Done >= 5<<20 && i.Total > 8<<20
	})
	// The process ends and comes again.
	w.again()
	if h := w.have(alice); h.Unfinished != 1 || h.Leases != 1 {
		t.Errorf("containerd has %+v, want an unfinished blob and its lease", h)
	}
	w.registry.Forget()
	w.registry.Set(imagetest.Faults{})
	if i := w.ready(s); i.Digest != digest {
		t.Errorf("digest is %s, want %s", i.Digest, digest)
	}
	// 8 MiB and a tar's header and end, less 5 MiB, and the config, which is read again at most.
	if n := w.registry.Seen().BlobBytes; n > 4<<20 {
		t.Errorf("%d bytes were sent after the restart, want 3 MiB and little more", n)
	}
	if r := w.registry.Seen().Ranges; len(r) != 1 || r[0] != "bytes=5242880-" {
		t.Errorf("ranges %q were asked for, want bytes=5242880-", r)
	}
	// It is ready a moment before that is cleared away.
	eventually(t, "nothing is unfinished", func() bool {
		h := w.have(alice)
		return h.Unfinished == 0 && h.Leases == 0
	})
}

func TestPullGoesOnWhenTheConnectionBreaks(t *testing.T) {
	t.Parallel()
	w := open(t)
	digest := w.push(imagetest.New().Plain().Entry(random("big", 4<<20)), "app:1")
	w.registry.Set(imagetest.Faults{CutAfter: 1 << 20, Times: 3})
	if i := w.ready(spec("1-1", w.ref("app:1"))); i.Digest != digest {
		t.Errorf("digest is %s, want %s", i.Digest, digest)
	}
	if n := w.registry.Seen().BlobBytes; n > 4<<20+64<<10 {
		t.Errorf("%d bytes were sent, want 4 MiB and little more", n)
	}
}

func TestSilentRegistry(t *testing.T) {
	t.Parallel()
	for what, f := range map[string]imagetest.Faults{
		"at all":      {Silent: true},
		"in a blob":   {HangAfter: 10},
		"unavailable": {Status: http.StatusServiceUnavailable},
		"too many":    {Status: http.StatusTooManyRequests},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			w := open(t, func(c *image.Config) { c.Sources.Silence = time.Second })
			w.push(sample(), "app:1")
			w.registry.Set(f)
			_, err := w.result(spec("1-1", w.ref("app:1")))
			wantError(t, err, node.Transient, w.ref("app:1"))
			// The next calls try again.
			w.registry.Set(imagetest.Faults{})
			w.ready(spec("1-1", w.ref("app:1")))
		})
	}
}

// A slow link isn't a silent one.
func TestASlowRegistryIsWaitedFor(t *testing.T) {
	t.Parallel()
	w := open(t, func(c *image.Config) { c.Sources.Silence = 2 * time.Second })
	w.push(imagetest.New().Plain().Entry(random("some", 30<<10)), "app:1")
	w.registry.Set(imagetest.Faults{Pause: 120 * time.Millisecond})
	start := time.Now()
	w.ready(spec("1-1", w.ref("app:1")))
	if took := time.Since(start); took < 3*time.Second {
		t.Errorf("it took %s, so nothing was slow", took)
	}
}

func TestReleaseEndsAPull(t *testing.T) {
	w := open(t)
	w.push(sample(), "app:1")
	w.registry.Set(imagetest.Faults{HangAfter: 10})
	_, err := w.Pull(t.Context(), spec("1-1", w.ref("app:1")))
	must(t, err)
	eventually(t, "a blob has begun", func() bool { return w.registry.Seen().Blobs > 0 && w.have(alice).Unfinished > 0 })
	must(t, w.Release(t.Context(), "1-1"))
	w.nothing(alice)
	w.registry.Forget()
	wantError(t, w.Release(t.Context(), "1-1"), node.NotExist)
	// After a restart nobody remembers the pull but containerd.
	_, err = w.Pull(t.Context(), spec("1-2", w.ref("app:1")))
	must(t, err)
	eventually(t, "a blob has begun", func() bool { return w.registry.Seen().Blobs > 0 && w.have(alice).Unfinished > 0 })
	w.again()
	must(t, w.Release(t.Context(), "1-2"))
	w.nothing(alice)
}

func TestPullsAreBounded(t *testing.T) {
	w := open(t)
	for _, name := range []string{"aa", "bb", "cc", "dd", "ee", "ff"} {
		w.push(imagetest.New().File("/"+name, name, 0o644), name+":1")
	}
	w.registry.Set(imagetest.Faults{HangAfter: 10})
	for n, name := range []string{"aa", "bb", "cc", "dd", "ee", "ff"} {
		s := spec("1-"+name, w.ref(name+":1"))
		if n >= 3 {
			s.User = bob
		}
		_, err := w.Pull(t.Context(), s)
		must(t, err)
	}
	eventually(t, "two of each user run", func() bool { return w.registry.Seen().Blobs == 4 })
	list, err := w.List(t.Context())
	must(t, err)
	if len(list) != 6 {
		t.Errorf("%d are listed, want 6", len(list))
	}
	if n := w.have(alice).Unfinished + w.have(bob).Unfinished; n != 4 {
		t.Errorf("%d blobs have begun, want 4", n)
	}
}

func TestConcurrentPullsFetchOnce(t *testing.T) {
	w := open(t)
	w.push(imagetest.New().Plain().Entry(random("big", 1<<20)), "app:1")
	labels := []string{"1-1", "1-2", "1-3", "1-4", "1-5", "1-6", "1-7", "1-8"}
	for _, l := range labels {
		_, err := w.Pull(t.Context(), spec(l, w.ref("app:1")))
		must(t, err)
	}
	for _, l := range labels {
		w.ready(spec(l, w.ref("app:1")))
	}
	if n := w.registry.Seen().BlobBytes; n > 1<<20+64<<10 {
		t.Errorf("%d bytes were sent, want those of one pull", n)
	}
}

func TestContainerdAway(t *testing.T) {
	w := open(t)
	w.push(sample(), "app:1")
	w.ready(spec("1-1", w.ref("app:1")))
	must(t, w.daemon.Close())
	_, err := w.Pull(t.Context(), spec("1-1", w.ref("app:1")))
	wantError(t, err, node.Transient)
	_, err = w.Status(t.Context())
	wantError(t, err, node.Transient)
}

func TestPathsLeadNowhereElse(t *testing.T) {
	w := open(t)
	outside := t.TempDir()
	_, err := sample().Layout(filepath.Join(outside, "layout"))
	must(t, err)
	_, err = sample().Tar(filepath.Join(outside, "a.tar"))
	must(t, err)
	_, err = sample().Layout(filepath.Join(w.dir, "layout"))
	must(t, err)
	must(t, os.Symlink(filepath.Join(outside, "layout"), filepath.Join(w.dir, "link")))
	must(t, os.Symlink("../"+filepath.Base(outside), filepath.Join(w.dir, "up")))
	must(t, os.Symlink("layout", filepath.Join(w.dir, "within")))
	// A layout whose blobs lie elsewhere.
	must(t, os.Mkdir(filepath.Join(w.dir, "half"), 0o755))
	index, err := os.ReadFile(filepath.Join(w.dir, "layout", "index.json"))
	must(t, err)
	must(t, os.WriteFile(filepath.Join(w.dir, "half", "index.json"), index, 0o644))
	must(t, os.Symlink(filepath.Join(outside, "layout", "blobs"), filepath.Join(w.dir, "half", "blobs")))
	mkfifo(t, filepath.Join(w.dir, "fifo"))
	must(t, os.WriteFile(filepath.Join(w.dir, "junk.tar"), []byte("no tar"), 0o644))
	must(t, os.Mkdir(filepath.Join(w.dir, "empty"), 0o755))
	for _, name := range []string{"link", "up/layout", "half", "fifo", "junk.tar", "empty", "missing"} {
		w.fails(spec("1-1", filepath.Join(w.dir, name)), node.Invalid, name)
	}
	w.fails(spec("1-1", filepath.Join(outside, "layout")), node.Invalid, "data.flist", w.dir)
	w.ready(spec("1-2", filepath.Join(w.dir, "within")))
}

// A registry that sends a byte now and then keeps no other user from pulling.
func TestPullsTakeTurns(t *testing.T) {
	t.Parallel()
	w := open(t, func(c *image.Config) { c.Sources.Silence, c.Pulling.Turn = time.Hour, 3*time.Second })
	for n, name := range []string{"aa", "bb", "cc", "dd"} {
		w.push(imagetest.New().Plain().Entry(random(name, 64<<10)), name+":1")
		s := spec("1-"+name, w.ref(name+":1"))
		if n >= 2 {
			s.User = bob
		}
		w.registry.Set(imagetest.Faults{HangAfter: 2 << 10})
		_, err := w.Pull(t.Context(), s)
		must(t, err)
	}
	eventually(t, "all hang", func() bool { return w.registry.Seen().Blobs >= 4 })
	_, err := imagetest.New().File("/a", "a", 0o644).Layout(filepath.Join(w.dir, "layout"))
	must(t, err)
	// Another user's, and another one of a user's who has two.
	carols := spec("2-1", filepath.Join(w.dir, "layout"))
	carols.User = "carol"
	w.ready(carols)
	w.ready(spec("2-2", filepath.Join(w.dir, "layout")))
	// They go on where they were.
	w.registry.Set(imagetest.Faults{})
	for _, name := range []string{"aa", "bb", "cc", "dd"} {
		if _, err := w.Inspect(t.Context(), "1-"+name); err != nil {
			t.Errorf("the pull of %s is gone: %v", name, err)
		}
	}
}
