package image

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"
	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"github.com/croft-edge/croft/internal/testing/flisttest"
	"github.com/croft-edge/croft/internal/testing/imagetest"
	"github.com/croft-edge/croft/pkg/backoff"
	"github.com/croft-edge/croft/pkg/clock"
	"github.com/croft-edge/croft/pkg/dial"
	"github.com/croft-edge/croft/pkg/fetch"
	"github.com/croft-edge/croft/pkg/flist"
	"github.com/croft-edge/croft/pkg/flist/database"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/vmimage"
)

// TestMain also runs as the process that reads flists.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == "read-flist" {
		os.Exit(database.Serve())
	}
	goleak.VerifyTestMain(m)
}

// patience is for a slow, busy machine.
const patience = 2 * time.Minute

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
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

func (l *lines) count(what string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), what)
}

// world is a registry, or a server of flists, and the settings of a node that has its image from there.
type world struct {
	t        testing.TB
	registry *imagetest.Registry
	// flists is the server that registry is a part of, nil in a world of artifacts.
	flists *flisttest.Server
	// lists are the flists that were made, by their description.
	lists map[string]flisttest.Made
	cfg   Config
	clock *clock.Fake
	logs  *lines

	mu    sync.Mutex
	inUse []string
}

// newWorld is a world of artifacts.
func newWorld(t testing.TB) *world {
	t.Helper()
	registry, err := imagetest.StartRegistry()
	must(t, err)
	return worldOf(t, &world{registry: registry})
}

// newFlistWorld is a world of flists.
func newFlistWorld(t testing.TB) *world {
	t.Helper()
	server, err := flisttest.StartServer(nil)
	must(t, err)
	return worldOf(t, &world{registry: server.Registry, flists: server, lists: map[string]flisttest.Made{}})
}

// inEach runs a test in worlds of each kind.
func inEach(t *testing.T, test func(t *testing.T, newWorld func(t testing.TB) *world)) {
	t.Run("artifact", func(t *testing.T) { test(t, newWorld) })
	t.Run("flist", func(t *testing.T) { test(t, newFlistWorld) })
}

func worldOf(t testing.TB, w *world) *world {
	t.Helper()
	w.t, w.logs, w.clock = t, &lines{}, clock.NewFake(time.Date(2027, 3, 1, 12, 0, 0, 0, time.UTC))
	t.Cleanup(func() { _ = w.registry.Close() })
	w.cfg = Config{
		Source: w.source("kubernetes:1"), Folder: filepath.Join(t.TempDir(), "state", "kubernetes-image"),
		Registries: fetch.Config{Dialer: dialer(t, w.registry.Host), PlainHTTP: []string{w.registry.Host}, Silence: 30 * time.Second},
		Flists:     &remembered{from: database.Reader{Command: []string{"/proc/self/exe", "read-flist"}}, read: map[[32]byte]*flist.Flist{}},
		InUse: func() ([]string, bool) {
			w.mu.Lock()
			defer w.mu.Unlock()
			return w.inUse, true
		},
		Clock: w.clock, Log: zerolog.New(zerolog.MultiLevelWriter(w.logs, zerolog.NewTestWriter(t))),
		Space: func() (uint64, uint64, error) { return 1 << 40, 1 << 41, nil },
	}
	return w
}

// remembered reads each flist once: a test that fetches one hundreds of times needn't start as many processes.
type remembered struct {
	from FlistReader
	mu   sync.Mutex
	read map[[32]byte]*flist.Flist
}

func (r *remembered) Read(ctx context.Context, file *os.File) (*flist.Flist, error) {
	raw, err := io.ReadAll(io.NewSectionReader(file, 0, 1<<30))
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	sum := sha256.Sum256(raw)
	if r.read[sum] == nil {
		list, err := r.from.Read(ctx, file)
		if err != nil {
			return nil, err
		}
		r.read[sum] = list
	}
	return r.read[sum], nil
}

func dialer(t testing.TB, allow ...string) *dial.Dialer {
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

func (w *world) source(name string) Source {
	w.t.Helper()
	text := "oci://" + w.registry.Host + "/" + name
	if w.flists != nil {
		at, digest, pinned := strings.Cut(name, "@")
		if text = "http://" + w.registry.Host + flistPath(at); pinned {
			text += "#" + strings.Replace(digest, ":", "=", 1)
		}
	}
	s, err := ParseSource(text)
	must(w.t, err)
	return s
}

// flistPath is the path of the flist with the name of an artifact.
func flistPath(name string) string { return "/" + strings.Replace(name, ":", "-", 1) + ".fl" }

func (w *world) uses(paths ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.inUse = paths
}

// contentOf is that of a file of a version: some 60 to 90 KB, which don't pack.
func contentOf(version, name string) string {
	title := "version " + version + " of " + name + "\n"
	out := make([]byte, 3000*len(title))
	_, _ = rand.NewChaCha8(sha256.Sum256([]byte(title))).Read(out) // never fails
	return string(out)
}

// fileNames are the names of an image's files.
var fileNames = []string{"vmlinuz", "initrd", "root.squashfs"}

// made is an artifact of a version, with a file that its image doesn't name.
func made(t testing.TB, version string) imagetest.Artifact {
	t.Helper()
	dir := t.TempDir()
	a := imagetest.Artifact{Type: Type, Files: []imagetest.ArtifactFile{{Name: "sbom.json", Content: "{}"}}}
	for _, name := range fileNames {
		must(t, os.WriteFile(filepath.Join(dir, name), []byte(contentOf(version, name)), 0o600))
		a.Files = append(a.Files, imagetest.ArtifactFile{Name: name, Content: contentOf(version, name)})
	}
	describe(t, dir, version)
	raw, err := os.ReadFile(filepath.Join(dir, vmimage.Manifest))
	must(t, err)
	a.Files = append(a.Files, imagetest.ArtifactFile{Name: vmimage.Manifest, Content: string(raw)})
	return a
}

// describe writes image.json beside the files of a version.
func describe(t testing.TB, dir, version string) {
	t.Helper()
	must(t, vmimage.Write(dir, vmimage.Image{Name: "kubernetes", Version: version, Kernel: "vmlinuz", Initrd: "initrd", Root: "root.squashfs", Arguments: "quiet"}))
}

// push makes a version the registry's, and returns the digest of its manifest.
func (w *world) push(version string) string {
	w.t.Helper()
	return w.pushAs(made(w.t, version), "kubernetes:1")
}

func (w *world) pushAs(a imagetest.Artifact, name string) string {
	w.t.Helper()
	if w.flists != nil {
		return w.put(w.listOf(a), name)
	}
	d, err := a.Push(context.Background(), w.registry.Host+"/"+name, w.registry.Behind())
	must(w.t, err)
	return d.String()
}

// listOf is a flist of an artifact's files, whose blocks the server has.
func (w *world) listOf(a imagetest.Artifact) flisttest.List {
	list := flisttest.List{Routes: []flist.Route{{First: 0, Last: 255, URL: "http://" + w.registry.Host + flisttest.Blobs}}}
	for _, f := range a.Files {
		list.Files = append(list.Files, flisttest.File{Path: f.Name, Content: f.Content})
	}
	return list
}

// keyOf is the key of a flist in world.lists.
func keyOf(list flisttest.List) string { return fmt.Sprint(list) }

// put makes a flist the server's, and returns its digest.
func (w *world) put(list flisttest.List, name string) string {
	w.t.Helper()
	key := keyOf(list)
	made, ok := w.lists[key]
	if !ok {
		var err error
		made, err = list.Make()
		must(w.t, err)
		w.lists[key] = made
	}
	w.flists.Put(flistPath(name), made)
	return digest.FromBytes(made.FL).String()
}

// open opens the image as a start of the node does.
func (w *world) open() *Images {
	w.t.Helper()
	m, err := Open(w.cfg)
	must(w.t, err)
	w.t.Cleanup(m.Close)
	return m
}

// round is one round of Run.
func (w *world) round(m *Images) error {
	w.t.Helper()
	err := m.round(context.Background())
	m.settle(err, time.Minute)
	return err
}

// boots fails unless VMs boot that version, and its files are whole.
func (w *world) boots(m *Images, version string) node.VMImage {
	w.t.Helper()
	i, err := m.Current()
	must(w.t, err)
	if i.Version != version {
		w.t.Fatalf("VMs boot %+v, want version %s", i, version)
	}
	w.whole(i)
	return i
}

func (w *world) whole(i node.VMImage) {
	w.t.Helper()
	for name, path := range map[string]string{"vmlinuz": i.Kernel, "initrd": i.Initrd, "root.squashfs": i.Root} {
		raw, err := os.ReadFile(path)
		must(w.t, err)
		if string(raw) != contentOf(i.Version, name) {
			w.t.Fatalf("%s of version %s isn't what it was", name, i.Version)
		}
	}
}

// entries are the names in the folder of versions.
func (w *world) entries() []string {
	w.t.Helper()
	all, err := os.ReadDir(w.cfg.Folder)
	must(w.t, err)
	var out []string
	for _, e := range all {
		out = append(out, e.Name())
	}
	return out
}

// has fails unless the folder has these versions and nothing else.
func (w *world) has(digests ...string) {
	w.t.Helper()
	want := []string{pointerName}
	for _, d := range digests {
		want = append(want, strings.Replace(d, ":", "-", 1))
	}
	slices.Sort(want)
	if got := w.entries(); !slices.Equal(got, want) {
		w.t.Errorf("the folder has %q, want %q", got, want)
	}
}

// wantError fails unless a round ends with that kind of error, which says that.
func (w *world) wantError(err error, kind node.Kind, says string) {
	w.t.Helper()
	if node.KindOf(err) != kind || !strings.Contains(err.Error(), says) || !strings.HasPrefix(err.Error(), "cannot ") {
		w.t.Errorf("%v (%s), want %s and %q", err, node.KindOf(err), kind, says)
	}
}

// eventually waits until what comes true.
func eventually(t testing.TB, what string, f func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !f(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not after %s", what, patience)
		}
	}
}

// run runs the image until the test or its end is called.
func (w *world) run(m *Images) (end func()) {
	w.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- m.Run(ctx) }()
	var once sync.Once
	end = func() {
		once.Do(func() {
			cancel()
			if err := <-done; err != nil {
				w.t.Errorf("it ended with %v", err)
			}
		})
	}
	w.t.Cleanup(end)
	return end
}

// quick are pauses for tests with the machine's clock.
func quick() Times {
	b := backoff.Backoff{Base: 10 * time.Millisecond, Max: 50 * time.Millisecond}
	return Times{Look: 20 * time.Millisecond, Retry: b, Mistake: b}
}
