package image

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/croft-edge/croft/internal/testing/imagetest"
	"github.com/croft-edge/croft/pkg/clock"
	"github.com/croft-edge/croft/pkg/node"
)

func TestSources(t *testing.T) {
	digest := "sha256:" + strings.Repeat("a", 64)
	for text, want := range map[string]string{
		"":                                "",
		"/images/kubernetes":              "/images/kubernetes",
		"/images//kubernetes/":            "/images/kubernetes",
		"oci://example.org/a/b:1.36":      "oci://example.org/a/b:1.36",
		"oci://example.org:5000/b:1":      "oci://example.org:5000/b:1",
		"oci://docker.io/me/b:1":          "oci://docker.io/me/b:1",
		"oci://example.org/b@" + digest:   "oci://example.org/b@" + digest,
		"oci://example.org/b:1@" + digest: "oci://example.org/b@" + digest,
		"oci://example.org/b":             "- neither a tag nor a digest",
		"oci://example.org:5000":          "- names no registry",
		"oci://me/b:1":                    "- names no registry",
		"oci://b:1":                       "- names no registry",
		"oci://":                          "- invalid reference format",
		"oci://example.org/B:1":           "- must be lowercase",
		"oci://example.org/b:":            "- invalid reference format",
		"oci://example.org/b@sha256:abc":  "- invalid reference format",
		"oci://me:secret@example.org/b:1": "- invalid reference format",
		"docker://example.org/b:1":        "- none of them",
		"https://example.org/a/k.fl":      "https://example.org/a/k.fl",
		"https://example.org:8443/k.fl#sha256=" + digest[7:]:         "https://example.org:8443/k.fl#sha256=" + digest[7:],
		"http://example.org/k.fl":                                    "http://example.org/k.fl",
		"https://example.org/a/k.flist":                              "- must end in .fl",
		"https://example.org/k.tar":                                  "- must end in .fl",
		"https://example.org/.fl":                                    "- must end in .fl",
		"https:///k.fl":                                              "- names no host",
		"https://me:secret@example.org/k.fl":                         "- names a user",
		"https://example.org/k.fl?a=b":                               "- has a query",
		"https://example.org/k.fl?":                                  "- has a query",
		"https://exa mple.org/k.fl":                                  "- no URL",
		"https://example.org/k.fl#":                                  "- there must be sha256= and 64",
		"https://example.org/k.fl#sha256=abc":                        "- there must be sha256= and 64",
		"https://example.org/k.fl#" + digest[7:]:                     "- there must be sha256= and 64",
		"https://example.org/k.fl#sha256=" + strings.Repeat("A", 64): "- there must be sha256= and 64",
		"ftp://example.org/k.fl":                                     "- none of them",
		"images/kubernetes":                                          "- none of them",
		"oci://example.org/" + longName() + ":1":                     "- longer than 1024 bytes",
	} {
		s, err := ParseSource(text)
		if says, bad := strings.CutPrefix(want, "- "); bad {
			if err == nil || !strings.Contains(err.Error(), says) || !strings.HasPrefix(err.Error(), "an absolute path, oci://REGISTRY/REPOSITORY:TAG, ") {
				t.Errorf("%q: %v, want %q", text, err, says)
			}
		} else if err != nil || s.String() != want || s.none() != (text == "") || s.fetched() != strings.Contains(text, "://") {
			t.Errorf("%q is %q, %v, want %q", text, s, err, want)
		}
	}
}

func longName() string { return strings.Repeat("a/", 600) + "a" }

func TestConfig(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"InUse":  func(c *Config) { c.InUse = nil },
		"Folder": func(c *Config) { c.Folder = "state" },
		"Dialer": func(c *Config) { c.Registries.Dialer = nil },
		"Flists": func(c *Config) { c.Flists = nil },
		"image-plain-http doesn't list 127.0.0.1": func(c *Config) { c.Registries.PlainHTTP = []string{"127.0.0.1"} },
	} {
		c := newFlistWorld(t).cfg
		change(&c)
		if _, err := Open(c); node.KindOf(err) != node.Invalid || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Only the files that the image names are fetched, each once; its manifest comes last.
func TestFetch(t *testing.T) { inEach(t, testFetch) }

func testFetch(t *testing.T, newWorld func(t testing.TB) *world) {
	w := newWorld(t)
	first := w.push("1")
	m := w.open()
	w.registry.Forget()
	must(t, w.round(m))
	i := w.boots(m, "1")
	if i.Digest != first || i.Name != "kubernetes" || i.Arguments != "quiet" || i.Kernel != filepath.Join(w.cfg.Folder, strings.Replace(first, ":", "-", 1), "vmlinuz") {
		t.Errorf("the image is %+v", i)
	}
	w.has(first)
	var names []string
	entries, err := os.ReadDir(filepath.Dir(i.Kernel))
	must(t, err)
	for _, e := range entries {
		info, err := e.Info()
		must(t, err)
		names = append(names, e.Name()+" "+info.Mode().String())
	}
	if want := []string{"image.json -rw-r--r--", "initrd -rw-r--r--", "root.squashfs -rw-r--r--", "vmlinuz -rw-r--r--"}; !slices.Equal(names, want) {
		t.Errorf("a version has %q, want %q", names, want)
	}
	if seen := w.registry.Seen(); seen.Blobs != 4 {
		t.Errorf("%d blobs were fetched, want 4", seen.Blobs)
	}
	if s, err := m.Status(); err != nil || s != (node.VMImageStatus{Reference: w.cfg.Source.String(), State: node.VMImageReady, Version: "1", Digest: first}) {
		t.Errorf("the status is %+v, %v", s, err)
	}
	w.registry.Forget()
	must(t, w.round(m))
	if seen := w.registry.Seen(); seen.Blobs != 0 || seen.Requests != 1 {
		t.Errorf("to see that a tag hasn't moved it asked %+v", seen)
	}
}

// What is here isn't fetched again, whatever happens to the registry; a digest is never asked for again.
func TestOffline(t *testing.T) { inEach(t, testOffline) }

func testOffline(t *testing.T, newWorld func(t testing.TB) *world) {
	w := newWorld(t)
	first := w.push("1")
	must(t, w.round(w.open()))
	w.registry.Forget()
	tag := w.cfg.Source
	w.cfg.Source = w.source("kubernetes@" + first)
	m := w.open()
	w.boots(m, "1") // before anything was asked
	must(t, w.round(m))
	if seen := w.registry.Seen(); seen.Requests != 0 {
		t.Errorf("of a digest that is here the registry was asked %+v", seen)
	}
	w.cfg.Source = tag
	w.registry.Set(imagetest.Faults{Status: 503})
	m = w.open()
	w.wantError(w.round(m), node.Transient, "Service Unavailable")
	w.boots(m, "1")
	must(t, w.registry.Close())
	m = w.open()
	w.wantError(w.round(m), node.Transient, map[bool]string{false: "cannot pull oci://", true: "cannot fetch http://"}[w.flists != nil])
	s, err := m.Status()
	if err != nil || s.State != node.VMImageFailed || s.Version != "1" || s.Digest != first || s.Error == "" || s.Next != w.clock.Now().Add(time.Minute).UnixNano() {
		t.Errorf("offline the status is %+v, %v", s, err)
	}
}

func (w *world) openAs(s Source) *Images {
	w.t.Helper()
	before := w.cfg.Source
	w.cfg.Source = s
	m := w.open()
	w.cfg.Source = before
	return m
}

// A VM never boots another image than the setting says: what another reference led to isn't used.
func TestAnotherReference(t *testing.T) { inEach(t, testAnotherReference) }

func testAnotherReference(t *testing.T, newWorld func(t testing.TB) *world) {
	w := newWorld(t)
	first := w.push("1")
	second := w.pushAs(made(t, "2"), "kubernetes:2")
	must(t, w.round(w.open()))
	one := w.cfg.Source
	w.cfg.Source = w.source("kubernetes:2")
	w.registry.Set(imagetest.Faults{Status: 503})
	m := w.open()
	_, err := m.Current()
	w.wantError(err, node.Transient, "its size isn't known yet")
	w.wantError(w.round(m), node.Transient, "Service Unavailable")
	_, err = m.Current()
	w.wantError(err, node.Transient, "cannot boot VMs yet: the node's image for Kubernetes VMs is being fetched (the last try has failed, the next one is at 2027-03-01T12:01:00Z)")
	w.boots(w.openAs(one), "1")
	w.registry.Set(imagetest.Faults{})
	must(t, w.round(m))
	w.boots(m, "2")
	w.has(first, second) // the first may be about to be booted
	w.clock.Advance(w.lease())
	must(t, w.round(m))
	w.has(second)
}

// lease is how long a version stays after it was returned.
func (w *world) lease() time.Duration {
	c, err := w.cfg.normal()
	must(w.t, err)
	return c.Times.Lease
}

// An old version stays as long as a VM has its files, or was about to be booted with them for less than an hour.
func TestOldVersions(t *testing.T) { inEach(t, testOldVersions) }

func testOldVersions(t *testing.T, newWorld func(t testing.TB) *world) {
	w := newWorld(t)
	first := w.push("1")
	m := w.open()
	must(t, w.round(m))
	one := w.boots(m, "1")
	second := w.push("2")
	must(t, w.round(m))
	w.boots(m, "2")
	w.has(first, second)
	w.clock.Advance(w.lease() - time.Second)
	must(t, w.round(m))
	w.has(first, second)
	w.uses("/other/disk", one.Root)
	w.clock.Advance(time.Hour)
	must(t, w.round(m))
	w.has(first, second)
	w.whole(one)
	again := w.open() // the next agent
	w.uses()
	must(t, w.round(again))
	w.has(first, second)
	w.clock.Advance(w.lease())
	must(t, w.round(again))
	w.has(second)
	w.boots(again, "2")
	// Back to the first one.
	w.push("1")
	must(t, w.round(again))
	w.boots(again, "1")
}

// While the record of a VM can't be read, nobody knows what it has.
func TestUnknownVMs(t *testing.T) { inEach(t, testUnknownVMs) }

func testUnknownVMs(t *testing.T, newWorld func(t testing.TB) *world) {
	w := newWorld(t)
	first := w.push("1")
	m := w.open()
	must(t, w.round(m))
	second := w.push("2")
	m.cfg.InUse = func() ([]string, bool) { return nil, false }
	must(t, w.round(m))
	w.clock.Advance(w.lease())
	must(t, w.round(m))
	w.has(first, second)
}

// A node that is given its image otherwise, or none, keeps no version for nothing.
func TestNoLongerFetched(t *testing.T) { inEach(t, testNoLongerFetched) }

func testNoLongerFetched(t *testing.T, newWorld func(t testing.TB) *world) {
	w := newWorld(t)
	w.push("1")
	must(t, w.round(w.open()))
	own := filepath.Join(t.TempDir(), "own")
	folder, err := ParseSource(own)
	must(t, err)
	m := w.openAs(folder)
	w.clock.Advance(w.lease())
	before := w.entries()
	must(t, w.round(m)) // the folder isn't there yet
	if got := w.entries(); !slices.Equal(got, before) {
		t.Errorf("the folder has %q, had %q", got, before)
	}
	m = w.openAs(Source{})
	w.clock.Advance(w.lease())
	for _, remains := range []string{".fetch-0", ".old-0", ".tmp-0"} {
		must(t, os.Mkdir(filepath.Join(w.cfg.Folder, remains), 0o700))
	}
	must(t, w.round(m))
	w.has()
	w.cfg.Folder = filepath.Join(w.cfg.Folder, "none") // there is nothing to look for
	must(t, w.round(w.openAs(Source{})))
}

// A folder that lacks a file is shown as broken once a machine was to boot it, until one can.
func TestBrokenFolder(t *testing.T) {
	w := newWorld(t)
	own := filepath.Join(t.TempDir(), "own")
	source, err := ParseSource(own)
	must(t, err)
	must(t, os.MkdirAll(own, 0o755))
	for _, f := range made(t, "1").Files {
		must(t, os.WriteFile(filepath.Join(own, f.Name), []byte(f.Content), 0o644))
	}
	m := w.openAs(source)
	initrd := filepath.Join(own, "initrd")
	for _, broken := range []bool{false, true, false} {
		if broken {
			must(t, os.Rename(initrd, initrd+".away"))
		} else if _, err := os.Stat(initrd); err != nil {
			must(t, os.Rename(initrd+".away", initrd))
		}
		if _, err := m.Current(); (err != nil) != broken {
			t.Errorf("broken %t: VMs boot it: %v", broken, err)
		}
		must(t, w.round(m)) // a round knows nothing of the files
		want := node.VMImageReady
		if broken {
			want = node.VMImageFailed
		}
		if got, err := m.Status(); err != nil || got.State != want || (got.Error != "") != broken {
			t.Errorf("broken %t: the status is %+v, %v", broken, got, err)
		}
	}
}

// A version whose files were changed isn't booted, and is fetched again; on a disk that damages all, not all the time.
func TestDamage(t *testing.T) { inEach(t, testDamage) }

func testDamage(t *testing.T, newWorld func(t testing.TB) *world) {
	w := newWorld(t)
	first := w.push("1")
	m := w.open()
	must(t, w.round(m))
	for n, change := range []func(path string) error{
		func(path string) error { return os.WriteFile(path, []byte("damage"), 0o600) },
		os.Remove,
		func(path string) error { return os.RemoveAll(filepath.Dir(path)) },
		func(path string) error { return os.Remove(filepath.Join(filepath.Dir(path), "image.json")) },
	} {
		i := w.boots(m, "1")
		must(t, change(i.Initrd))
		if _, err := m.Current(); node.KindOf(err) != node.Transient {
			t.Fatalf("damage %d: %v", n, err)
		}
		if _, err := m.Current(); node.KindOf(err) != node.Transient || !strings.Contains(err.Error(), "is being fetched") {
			t.Fatalf("damage %d, asked again: %v", n, err)
		}
		if s, _ := m.Status(); s.State != node.VMImageFailed || s.Version != "" || s.Error == "" {
			t.Errorf("damage %d: the status is %+v", n, s)
		}
		if woken := len(m.wake) == 1; woken != (n == 0) {
			t.Errorf("damage %d: fetched at once: %t", n, woken)
		}
		select {
		case <-m.wake:
		default:
		}
		must(t, w.round(m))
		w.boots(m, "1")
		w.has(first)
	}
	w.clock.Advance(2 * time.Hour)
	must(t, os.Remove(w.boots(m, "1").Kernel))
	if _, err := m.Current(); err == nil || len(m.wake) != 1 {
		t.Errorf("damage hours later: %v, fetched at once: %t", err, len(m.wake) == 1)
	}
}

// Run looks at a tag every hour, give or take, and after failures ever more seldom.
func TestRun(t *testing.T) { inEach(t, testRun) }

func testRun(t *testing.T, newWorld func(t testing.TB) *world) {
	w := newWorld(t)
	w.push("1")
	m := w.open()
	w.run(m)
	waits := func() bool { return w.clock.Waiting() == 1 }
	eventually(t, "the first fetch", waits)
	w.boots(m, "1")
	second := w.push("2")
	w.registry.Forget()
	w.clock.Advance(40 * time.Minute)
	if seen := w.registry.Seen(); seen.Requests != 0 {
		t.Errorf("after 40 minutes it asked %+v", seen)
	}
	w.clock.Advance(40 * time.Minute)
	eventually(t, "the second version", func() bool { i, err := m.Current(); return err == nil && i.Digest == second })
	eventually(t, "its wait", waits)
	w.registry.Set(imagetest.Faults{Status: 503})
	w.clock.Advance(80 * time.Minute)
	const failed, better = "cannot get the image of Kubernetes VMs", "can be had again"
	eventually(t, "a failure", func() bool { return w.logs.count(failed) == 1 && waits() })
	for range 12 { // at most 5 minutes each
		before := w.registry.Seen().Requests
		w.clock.Advance(5 * time.Minute)
		eventually(t, "another try", func() bool { return w.registry.Seen().Requests > before && waits() })
	}
	w.registry.Set(imagetest.Faults{})
	w.clock.Advance(5 * time.Minute)
	eventually(t, "the registry is there again", func() bool { return w.logs.count(better) == 1 && waits() })
	if n := w.logs.count(failed); n != 1 {
		t.Errorf("the failure was logged %d times", n)
	}
	if s, err := m.Status(); err != nil || s.State != node.VMImageReady || s.Error != "" {
		t.Errorf("the status is %+v, %v", s, err)
	}
}

// Status shows how far a fetch is.
func TestProgress(t *testing.T) { inEach(t, testProgress) }

func testProgress(t *testing.T, newWorld func(t testing.TB) *world) {
	w := newWorld(t)
	w.cfg.Clock = clock.System{}
	w.push("1")
	w.registry.Set(imagetest.Faults{Pause: 20 * time.Millisecond})
	m := w.open()
	w.run(m)
	total := uint64(0)
	for _, name := range fileNames {
		total += uint64(len(contentOf("1", name)))
	}
	last := uint64(0)
	eventually(t, "some bytes", func() bool {
		s, err := m.Status()
		must(t, err)
		if s.State != node.VMImageFetching || s.Version != "" || s.Done < last || s.Done > total || s.Total != 0 && s.Total != total {
			t.Fatalf("the status is %+v", s)
		}
		last = s.Done
		return s.Total == total && s.Done > 0
	})
	if _, err := m.Current(); err == nil || !strings.Contains(err.Error(), "cannot boot VMs yet: the node's image for Kubernetes VMs is being fetched (0.") {
		t.Errorf("meanwhile: %v", err)
	}
	w.registry.Set(imagetest.Faults{})
	eventually(t, "the image", func() bool { _, err := m.Current(); return err == nil })
}

// The end of the node ends a fetch at once; the next start goes on with it.
func TestStopInTheMiddle(t *testing.T) {
	w := newWorld(t)
	w.push("1")
	w.registry.Set(imagetest.Faults{HangAfter: 50_000})
	m := w.open()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- m.Run(ctx) }()
	eventually(t, "some bytes", func() bool { s, _ := m.Status(); return s.Done > 40_000 })
	cancel()
	if err := <-done; err != nil {
		t.Errorf("it ended with %v", err)
	}
	w.registry.Set(imagetest.Faults{})
	w.registry.Forget()
	m = w.open()
	must(t, w.round(m))
	w.boots(m, "1")
	if seen := w.registry.Seen(); len(seen.Ranges) == 0 {
		t.Error("it was begun anew")
	}
}
