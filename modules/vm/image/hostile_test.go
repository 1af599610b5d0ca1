package image

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/internal/testing/imagetest"
	"github.com/croft-edge/croft/pkg/node"
)

// changed is version 1 with another manifest.
func changed(t *testing.T, change func(m *ocispec.Manifest)) imagetest.Artifact {
	t.Helper()
	a := made(t, "1")
	a.Change = change
	return a
}

// layer is the layer of a file.
func layer(m *ocispec.Manifest, name string) *ocispec.Descriptor {
	for i := range m.Layers {
		if m.Layers[i].Annotations[ocispec.AnnotationTitle] == name {
			return &m.Layers[i]
		}
	}
	return nil
}

// What can't be an image is refused before a file of it is fetched, and nothing stays of it.
func TestHostileArtifacts(t *testing.T) {
	for name, c := range map[string]struct {
		artifact imagetest.Artifact
		says     string
	}{
		"another type":       {changed(t, func(m *ocispec.Manifest) { m.ArtifactType = "application/x" }), `its type is "application/x", must be ` + Type},
		"no type":            {changed(t, func(m *ocispec.Manifest) { m.ArtifactType = "" }), `its type is "application/vnd.oci.empty.v1+json"`},
		"an index":           {changed(t, func(m *ocispec.Manifest) { m.MediaType = ocispec.MediaTypeImageIndex }), "must be one OCI image manifest, and no index"},
		"another schema":     {changed(t, func(m *ocispec.Manifest) { m.SchemaVersion = 1 }), "must be one OCI image manifest"},
		"no layers":          {changed(t, func(m *ocispec.Manifest) { m.Layers = nil }), "must be one OCI image manifest"},
		"no files":           {changed(t, func(m *ocispec.Manifest) { m.Layers = []ocispec.Descriptor{} }), "it has no file image.json"},
		"too many files":     {changed(t, func(m *ocispec.Manifest) { m.Layers = append(m.Layers, make([]ocispec.Descriptor, 12)...) }), "it has 17 files, at most 16 are allowed"},
		"a file twice":       {changed(t, func(m *ocispec.Manifest) { m.Layers = append(m.Layers, m.Layers[0]) }), `it has "sbom.json" twice`},
		"no title":           {changed(t, func(m *ocispec.Manifest) { layer(m, "initrd").Annotations = nil }), "names initrd, which is none of its files"},
		"a packed folder":    {changed(t, func(m *ocispec.Manifest) { layer(m, "initrd").Annotations[unpacked] = "true" }), "names initrd, which is none of its files"},
		"a file elsewhere":   {changed(t, func(m *ocispec.Manifest) { layer(m, "initrd").URLs = []string{"https://example.org/initrd"} }), "names initrd, which is none of its files"},
		"a path":             {changed(t, func(m *ocispec.Manifest) { layer(m, "initrd").Annotations[ocispec.AnnotationTitle] = "../initrd" }), "names initrd, which is none of its files"},
		"another sum":        {changed(t, func(m *ocispec.Manifest) { layer(m, "initrd").Digest = layer(m, "vmlinuz").Digest }), "the SHA-256 of initrd is"},
		"no digest":          {changed(t, func(m *ocispec.Manifest) { layer(m, "initrd").Digest = "sha256:abc" }), `of "initrd" can't be used: "sha256:abc"`},
		"another digest":     {changed(t, func(m *ocispec.Manifest) { layer(m, "initrd").Digest = digest.SHA512.FromString("a") }), `of "initrd" can't be used`},
		"less than nothing":  {changed(t, func(m *ocispec.Manifest) { layer(m, "initrd").Size = -1 }), `of "initrd" can't be used`},
		"too large":          {changed(t, func(m *ocispec.Manifest) { layer(m, "initrd").Size = 4 << 30 }), "it has more than 4294967296 bytes"},
		"an overflow":        {changed(t, func(m *ocispec.Manifest) { layer(m, "initrd").Size, layer(m, "vmlinuz").Size = 1<<62, 1<<62 }), "it has more than 4294967296 bytes"},
		"a large manifest":   {changed(t, func(m *ocispec.Manifest) { m.Annotations = map[string]string{"a": strings.Repeat("a", 64<<10)} }), "a document of it has"},
		"a large image.json": {changed(t, func(m *ocispec.Manifest) { layer(m, "image.json").Size = 1 << 20 }), "its image.json has 1048576 bytes, at most 65536 are allowed"},
		"a strange image.json": {imagetest.Artifact{Type: Type, Files: []imagetest.ArtifactFile{{Name: "image.json", Content: `{"format": 2}`}}},
			"cannot use image.json: cannot accept format: it is 2, must be 1"},
		"a false image.json": {changed(t, func(m *ocispec.Manifest) {
			*layer(m, "image.json") = *layer(m, "vmlinuz")
			m.Layers[4].Annotations = map[string]string{ocispec.AnnotationTitle: "image.json"}
		}), "cannot use image.json"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			first := w.push("0")
			m := w.open()
			must(t, w.round(m))
			w.pushAs(c.artifact, "kubernetes:1")
			w.registry.Forget()
			err := w.round(m)
			w.wantError(err, node.Refused, c.says)
			if pause := m.pauseAfter(err, 20); pause < 30*time.Minute {
				t.Errorf("the next try is in %s", pause)
			}
			if seen := w.registry.Seen(); seen.Blobs > 1 {
				t.Errorf("it fetched %+v", seen)
			}
			w.boots(m, "0")
			w.has(first)
			if s, err := m.Status(); err != nil || s.State != node.VMImageFailed || !strings.Contains(s.Error, c.says) || s.Version != "0" {
				t.Errorf("the status is %+v, %v", s, err)
			}
		})
	}
}

// A tool of OCI 1.0 has the type in the config's.
func TestOlderTools(t *testing.T) {
	w := newWorld(t)
	w.pushAs(changed(t, func(m *ocispec.Manifest) { m.ArtifactType, m.MediaType, m.Config.MediaType = "", "", Type }), "kubernetes:1")
	m := w.open()
	must(t, w.round(m))
	w.boots(m, "1")
}

// impatient opens the image for a round that must fail: a registry that says nothing isn't waited for.
func (w *world) impatient() *Images {
	w.t.Helper()
	before := w.cfg.Registries.Silence
	defer func() { w.cfg.Registries.Silence = before }()
	w.cfg.Registries.Silence = time.Second
	return w.open()
}

// isFile reports whether a path of the registry is that of a file of an image.
func isFile(path string, body []byte) bool {
	return strings.Contains(path, "/blobs/") && len(body) > 10_000
}

// otherBytes and fewerBytes change the files of an image.
var (
	otherBytes = imagetest.Faults{Change: func(path string, body []byte) []byte {
		if isFile(path, body) {
			body = append([]byte("x"), body[1:]...)
		}
		return body
	}}
	fewerBytes = imagetest.Faults{Change: func(path string, body []byte) []byte {
		if isFile(path, body) {
			body = body[:len(body)/2]
		}
		return body
	}}
)

// survives wants a server with these faults to cost nothing: what was here stays, and once it is well again the newer image comes.
func (w *world) survives(faults imagetest.Faults, kind node.Kind, says string) {
	w.t.Helper()
	first := w.push("1")
	m := w.open()
	must(w.t, w.round(m))
	second := w.push("2")
	w.registry.Set(faults)
	w.wantError(w.round(w.impatient()), kind, says)
	w.boots(m, "1")
	w.registry.Set(imagetest.Faults{})
	must(w.t, w.round(m))
	w.boots(m, "2")
	w.has(first, second)
}

// A registry that lies, stalls or breaks: what was here stays, and once it is well again the image comes.
func TestLyingRegistries(t *testing.T) {
	for name, c := range map[string]struct {
		faults imagetest.Faults
		kind   node.Kind
		says   string
	}{
		"other bytes": {otherBytes, node.Refused, "the bytes of initrd aren't those of its digest"},
		"fewer bytes": {fewerBytes, node.Transient, "it ended"},
		"more bytes": {imagetest.Faults{Change: func(path string, body []byte) []byte {
			if isFile(path, body) {
				body = append(bytes.Clone(body), "more"...)
			}
			return body
		}}, node.Refused, "more"},
		"endless": {imagetest.Faults{Endless: true}, node.Refused, ""},
		"another manifest": {imagetest.Faults{Change: func(path string, body []byte) []byte {
			if strings.Contains(path, "/manifests/") {
				body = append(bytes.Clone(body), ' ')
			}
			return body
		}}, node.Refused, ""},
		"hangs":                     {imagetest.Faults{HangAfter: 30_000}, node.Transient, "said nothing for"},
		"redirects":                 {imagetest.Faults{Redirect: "http://10.0.0.1"}, node.Refused, "10.0.0.1"},
		"redirects to this machine": {imagetest.Faults{Redirect: "https://127.0.0.1:1"}, node.Refused, "127.0.0.1"},
		"has gone":                  {imagetest.Faults{Status: 404}, node.Invalid, "has no such image"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			newWorld(t).survives(c.faults, c.kind, c.says)
		})
	}
}

// A file that was cut off is gone on with; when what was here before was wrong, it is begun anew.
func TestResume(t *testing.T) {
	for name, damage := range map[string]func(part string){
		"where it was": func(string) {},
		"wrong bytes": func(part string) {
			raw, err := os.ReadFile(part)
			must(t, err)
			must(t, os.WriteFile(part, append([]byte("x"), raw[1:]...), 0o600))
		},
		"too many bytes": func(part string) {
			must(t, os.WriteFile(part, []byte(strings.Repeat("x", 1<<20)), 0o600))
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			d := w.push("1")
			w.registry.Set(imagetest.Faults{HangAfter: 30_000})
			if err := w.round(w.impatient()); node.KindOf(err) != node.Transient {
				t.Fatalf("cut off: %v", err)
			}
			part := filepath.Join(w.cfg.Folder, fetchPrefix+d[len("sha256:"):], partPrefix+"initrd")
			if info, err := os.Stat(part); err != nil || info.Size() != 30_000 {
				t.Fatalf("of the file there is %+v, %v", info, err)
			}
			damage(part)
			w.registry.Set(imagetest.Faults{})
			w.registry.Forget()
			m := w.open()
			must(t, w.round(m))
			w.boots(m, "1")
			w.has(d)
			if seen := w.registry.Seen(); len(seen.Ranges) == 0 != (name == "too many bytes") {
				t.Errorf("the registry has seen %+v", seen)
			}
		})
	}
}

// A connection that breaks is made anew, where it was.
func TestBrokenConnections(t *testing.T) {
	w := newWorld(t)
	d := w.push("1")
	w.registry.Set(imagetest.Faults{CutAfter: 30_000})
	m := w.open()
	must(t, w.round(m))
	w.boots(m, "1")
	w.has(d)
	if seen := w.registry.Seen(); len(seen.Ranges) < len(fileNames) {
		t.Errorf("the registry has seen %+v", seen)
	}
}

// drips is a content that sends a byte now and then.
type drips struct {
	w     *world
	size  int64
	pause time.Duration
}

func (d drips) usable(_ context.Context, _ io.Reader, bytes int64) (int64, error) { return bytes, nil }
func (d drips) open(context.Context, int64) (io.ReadCloser, error)                { return d, nil }
func (d drips) wrap(err error) error                                              { return err }
func (d drips) paced() bool                                                       { return true }
func (d drips) proven() bool                                                      { return false }
func (d drips) Close() error                                                      { return nil }

func (d drips) Read(p []byte) (int, error) {
	d.w.clock.Advance(d.pause)
	n := min(len(p), int(d.size))
	return n, nil
}

// A registry that sends too little is given up, however it spreads that; a slow one isn't.
func TestSlowRegistry(t *testing.T) {
	for name, c := range map[string]struct {
		drips drips
		slow  bool
	}{
		"a byte now and then": {drips{size: 1, pause: 29 * time.Second}, true},
		"too slow":            {drips{size: 4000, pause: time.Second}, true},
		"slow":                {drips{size: 5000, pause: time.Second}, false},
	} {
		w := newWorld(t)
		must(t, os.MkdirAll(w.cfg.Folder, 0o700))
		c.drips.w = w
		d := &download{shelf: newShelf(w.cfg), clock: w.clock, folder: w.cfg.Folder, progress: func(int64) {}}
		began := w.clock.Boot()
		err := d.read(t.Context(), file{name: "vmlinuz", size: 1 << 20, from: c.drips}, io.Discard, 0)
		took := w.clock.Boot() - began
		if c.slow && (node.KindOf(err) != node.Transient || !strings.Contains(err.Error(), "sends less than 256 KiB a minute") || took > 2*time.Minute) ||
			!c.slow && node.KindOf(err) != node.Refused { // it has no end
			t.Errorf("%s: after %s %v", name, took, err)
		}
	}
}

// On a full disk nothing new is kept, and what is here stays.
func TestFullDisk(t *testing.T) { inEach(t, testFullDisk) }

func testFullDisk(t *testing.T, newWorld func(t testing.TB) *world) {
	w := newWorld(t)
	w.cfg.Folder = filepath.Join(t.TempDir(), "state")
	must(t, os.Mkdir(w.cfg.Folder, 0o700))
	must(t, unix.Mount("croft-test", w.cfg.Folder, "tmpfs", 0, "size=640k"))
	t.Cleanup(func() { must(t, unix.Unmount(w.cfg.Folder, unix.MNT_DETACH)) })
	first := w.push("1")
	m := w.open()
	must(t, w.round(m)) // some 200 KiB of 640
	filler := filepath.Join(w.cfg.Folder, "filler")
	must(t, os.WriteFile(filler, make([]byte, 300<<10), 0o600))
	second := w.push("2")
	err := w.round(m)
	w.wantError(err, node.NoSpace, "the disk is full")
	if pause := m.pauseAfter(err, 1); pause < 30*time.Second {
		t.Errorf("the next try is in %s", pause)
	}
	w.boots(m, "1")
	must(t, os.Remove(filler))
	w.has(first) // nor is anything left of what was fetched
	must(t, w.round(m))
	w.boots(m, "2")
	w.has(first, second)
}

// What nobody wants any more goes also while there is no room for the next version: else there would never be any.
func TestFullDiskMakesRoom(t *testing.T) { inEach(t, testFullDiskMakesRoom) }

func testFullDiskMakesRoom(t *testing.T, newWorld func(t testing.TB) *world) {
	w := newWorld(t)
	first := w.push("1")
	free := uint64(1 << 40)
	w.cfg.Space = func() (uint64, uint64, error) { return free, 10 << 30, nil }
	m := w.open()
	must(t, w.round(m))
	w.boots(m, "1")
	second := w.push("2")
	must(t, w.round(m))
	w.push("3")
	free = 512 << 20
	w.wantError(w.round(m), node.NoSpace, "are kept for the node")
	w.has(first, second) // the first may be about to be booted
	w.clock.Advance(2 * time.Hour)
	w.wantError(w.round(m), node.NoSpace, "are kept for the node")
	w.has(second)
	w.boots(m, "2")
}

// What others need of the disk isn't taken, neither before a fetch nor while it goes on.
func TestRoomForOthers(t *testing.T) { inEach(t, testRoomForOthers) }

func testRoomForOthers(t *testing.T, newWorld func(t testing.TB) *world) {
	w := newWorld(t)
	first := w.push("1")
	free, asked := uint64(1<<40), 0
	w.cfg.Space = func() (uint64, uint64, error) { asked++; return free, 10 << 30, nil }
	m := w.open()
	must(t, w.round(m))
	w.push("2")
	free = 512<<20 + 100<<10
	w.registry.Forget()
	w.wantError(w.round(m), node.NoSpace, "are kept for the node")
	if seen := w.registry.Seen(); seen.Blobs > 1 {
		t.Errorf("it fetched %+v", seen)
	}
	w.boots(m, "1")
	w.has(first)
	failing := errors.New("cannot look")
	w.cfg.Space = func() (uint64, uint64, error) { return 0, 0, failing }
	if err := w.round(w.open()); !errors.Is(err, failing) {
		t.Errorf("without a look at the disk: %v", err)
	}
	// Others fill the disk meanwhile: seen after 16 MiB.
	s := newShelf(w.cfg)
	s.space = func() (uint64, uint64, error) { return 0, 1 << 30, nil }
	d := &download{shelf: s, clock: w.clock, folder: w.cfg.Folder, progress: func(int64) {}}
	read := 0
	err := d.read(t.Context(), file{name: "vmlinuz", size: 1 << 40, from: drips{w: w, size: 1 << 20}}, writes(func(p []byte) { read += len(p) }), 0)
	if w.wantError(err, node.NoSpace, "are kept for the node"); read > 2*roomEach {
		t.Errorf("it read %d bytes before", read)
	}
}

// writes is told what is written.
type writes func(p []byte)

func (w writes) Write(p []byte) (int, error) {
	w(p)
	return len(p), nil
}
