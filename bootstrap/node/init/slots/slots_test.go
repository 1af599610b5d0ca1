package slots

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/internal/grubenv"
	"github.com/croft-edge/croft/internal/nodeimage"
	"github.com/croft-edge/croft/internal/nodeimage/verity"
)

func key() ed25519.PrivateKey { return ed25519.NewKeyFromSeed([]byte(strings.Repeat("k", 32))) }

// write makes an image in a folder. The SBOM isn't there: a node needs none.
func write(t *testing.T, folder, version string, built int64) {
	t.Helper()
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	m := nodeimage.Manifest{Format: nodeimage.Format, Version: version, Kernel: "6.1", Built: built}
	root := filepath.Join(folder, nodeimage.RootFile)
	if err := os.WriteFile(root, bytes.Repeat([]byte(version), 50_000), 0o600); err != nil {
		t.Fatal(err)
	}
	var err error
	if m.Root, err = verity.Append(root, []byte("salt")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{nodeimage.KernelFile, nodeimage.InitrdFile, nodeimage.RootFile} {
		path := filepath.Join(folder, name)
		if name != nodeimage.RootFile {
			if err := os.WriteFile(path, []byte(name+" of "+version), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256(content)
		m.Files = append(m.Files, nodeimage.File{Name: name, Size: int64(len(content)), SHA256: hex.EncodeToString(sum[:])})
	}
	if version != "v1" { // the manifest of v1 is an older one
		m.SBOM = &nodeimage.File{Name: nodeimage.SBOMFile, Size: 1, SHA256: strings.Repeat("ab", 32)}
	}
	raw, err := m.Encode()
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{nodeimage.ManifestFile: raw, nodeimage.SignatureFile: nodeimage.Sign(key(), raw)} {
		if err := os.WriteFile(filepath.Join(folder, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// boots is a boot medium with a loader that follows the protocol.
type boots struct {
	t *testing.T
	Medium
}

// medium makes a boot medium that runs slot a.
func medium(t *testing.T) *boots {
	t.Helper()
	b := &boots{t: t}
	b.Medium = Medium{
		Root: t.TempDir(), Slot: "a", Key: key().Public().(ed25519.PublicKey),
		Writable: func(bool) error { return nil },
	}
	write(t, filepath.Join(b.Root, "croft/a"), "v1", 1000)
	if err := os.MkdirAll(filepath.Join(b.Root, "boot/grub"), 0o755); err != nil {
		t.Fatal(err)
	}
	block, err := new(grubenv.Block).Encode()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(b.Root, environmentFile), block, 0o600); err != nil {
		t.Fatal(err)
	}
	return b
}

// boot boots as GRUB does, and returns whether it was a trial.
func (b *boots) boot() bool {
	b.t.Helper()
	environment, err := grubenv.Read(filepath.Join(b.Root, environmentFile))
	if err != nil {
		b.t.Fatal(err)
	}
	b.Slot = "a"
	if slot, ok := environment.Get("slot"); ok {
		b.Slot = slot
	}
	trial, isTrial := environment.Get("trial")
	if isTrial {
		b.Slot = trial
		environment.Delete("trial")
		if err := grubenv.Write(filepath.Join(b.Root, environmentFile), environment); err != nil {
			b.t.Fatal(err)
		}
	}
	return isTrial
}

// folder is a Source whose files are in a folder.
type folder string

func (f folder) Open(_ context.Context, name string, from int64) (io.ReadCloser, bool, error) {
	file, err := os.Open(filepath.Join(string(f), name))
	if err != nil {
		return nil, false, err
	}
	_, err = file.Seek(from, io.SeekStart)
	return file, true, err
}

func (b *boots) looks(isTrial bool, want Outcome) {
	b.t.Helper()
	if got, err := b.Look(isTrial); got != want || err != nil {
		b.t.Errorf("the trial is %q, %v; want %q", got, err, want)
	}
}

func (b *boots) install(from Source) error {
	_, err := b.Install(b.t.Context(), from)
	return err
}

// upgrade installs and tries an image.
func (b *boots) upgrade(from Source) {
	b.t.Helper()
	if err := b.install(from); err != nil {
		b.t.Fatal(err)
	}
	if err := b.Try(); err != nil {
		b.t.Fatal(err)
	}
}

func TestGoodUpgrade(t *testing.T) {
	b, next := medium(t), t.TempDir()
	write(t, next, "v2", 2000)
	arguments := new(grubenv.Block)
	if err := arguments.Set("cmdline", "quiet panic=10"); err != nil {
		t.Fatal(err)
	}
	raw, err := arguments.Encode()
	if err != nil {
		t.Fatal(err)
	}
	put(t, filepath.Join(b.Root, "croft/a", argumentsFile), raw)
	b.looks(b.boot(), None)
	b.upgrade(folder(next))
	if !b.boot() || b.Slot != "b" {
		t.Fatalf("slot %s is booted", b.Slot)
	}
	if got, err := grubenv.Read(filepath.Join(b.Root, "croft/b", argumentsFile)); err != nil {
		t.Error(err)
	} else if text, _ := got.Get("cmdline"); text != "quiet panic=10" {
		t.Errorf("the new image's kernel gets %q", text)
	}
	b.looks(true, Running)
	if err := b.Keep(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if b.boot() || b.Slot != "b" {
			t.Fatalf("slot %s is booted after it was kept", b.Slot)
		}
		b.looks(false, None)
		if err := b.Keep(); err != nil {
			t.Fatal(err)
		}
	}
	// The next one goes into slot a.
	write(t, next, "v3", 3000)
	b.upgrade(folder(next))
	if !b.boot() || b.Slot != "a" {
		t.Fatalf("slot %s is booted", b.Slot)
	}
}

// TestBrokenUpgrade holds that an image that didn't become ready is left for the old one, and isn't tried again; a newer one is.
func TestBrokenUpgrade(t *testing.T) {
	b, next := medium(t), t.TempDir()
	write(t, next, "v2", 2000)
	b.upgrade(folder(next))
	b.boot() // and never keeps it
	if b.boot() || b.Slot != "a" {
		t.Fatalf("slot %s is booted", b.Slot)
	}
	b.looks(false, Failed)
	b.looks(false, None)
	if err := b.install(folder(next)); !errors.Is(err, ErrNothing) {
		t.Errorf("it is installed again: %v", err)
	}
	write(t, next, "v3", 3000)
	b.upgrade(folder(next))
	b.boot()
	if b.Slot != "b" {
		t.Errorf("slot %s is booted", b.Slot)
	}
}

// TestTrialThatIsStillToCome: a boot by another way than GRUB, such as a power cut before the reboot, is no failure of it.
func TestTrialThatIsStillToCome(t *testing.T) {
	b, next := medium(t), t.TempDir()
	write(t, next, "v2", 2000)
	b.upgrade(folder(next))
	b.looks(false, None)
	if !b.boot() || b.Slot != "b" {
		t.Fatalf("slot %s is booted", b.Slot)
	}
}

// TestWhatIsNotInstalled holds each reason, and that the running image and the loader's choice stay.
func TestWhatIsNotInstalled(t *testing.T) {
	for name, c := range map[string]struct {
		change func(t *testing.T, folder string)
		want   string
	}{
		"the running image": {func(t *testing.T, f string) { t.Helper(); write(t, f, "v1", 1000) }, ErrNothing.Error()},
		"an older image":    {func(t *testing.T, f string) { t.Helper(); write(t, f, "v0", 999) }, ErrNothing.Error()},
		"another key": {func(t *testing.T, f string) {
			t.Helper()
			put(t, filepath.Join(f, nodeimage.SignatureFile), ed25519.Sign(key(), []byte("x")))
		}, "signature"},
		"no signature": {func(t *testing.T, f string) { t.Helper(); drop(t, filepath.Join(f, nodeimage.SignatureFile)) }, "no such file"},
		"a damaged root": {func(t *testing.T, f string) {
			t.Helper()
			path := filepath.Join(f, nodeimage.RootFile)
			raw, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			raw[5000] ^= 1
			put(t, path, raw)
		}, "SHA-256"},
		"a short kernel": {func(t *testing.T, f string) { t.Helper(); put(t, filepath.Join(f, nodeimage.KernelFile), []byte("x")) }, "must have"},
		"a long kernel": {func(t *testing.T, f string) {
			t.Helper()
			put(t, filepath.Join(f, nodeimage.KernelFile), make([]byte, 1<<20))
		}, "must have"},
		"no initrd": {func(t *testing.T, f string) { t.Helper(); drop(t, filepath.Join(f, nodeimage.InitrdFile)) }, "no such file"},
		"a huge manifest": {func(t *testing.T, f string) {
			t.Helper()
			put(t, filepath.Join(f, nodeimage.ManifestFile), make([]byte, nodeimage.MostManifest+1))
		}, "more than"},
	} {
		t.Run(name, func(t *testing.T) {
			b, next := medium(t), t.TempDir()
			write(t, next, "v2", 2000)
			c.change(t, next)
			if err := b.install(folder(next)); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
			if err := b.Try(); err == nil {
				t.Error("a slot without a whole image is tried")
			}
			if b.boot() || b.Slot != "a" {
				t.Errorf("slot %s is booted", b.Slot)
			}
			if _, _, err := b.image("a"); err != nil {
				t.Error(err)
			}
			// The next attempt, with a right image, isn't disturbed by what was left.
			write(t, next, "v4", 4000)
			b.upgrade(folder(next))
		})
	}
}

func put(t *testing.T, path string, content []byte) {
	t.Helper()
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
}

func drop(t *testing.T, path string) {
	t.Helper()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
}

// TestNoRoom holds that an image that doesn't fit is refused.
func TestNoRoom(t *testing.T) {
	f := fetcher{folder: t.TempDir()}
	m := nodeimage.Manifest{Version: "v9", Files: []nodeimage.File{{Name: "x", Size: 1 << 60}}}
	if err := f.fits(m); err == nil || !strings.Contains(err.Error(), "free") {
		t.Error(err)
	}
}

// TestServer holds that a cut connection costs only what wasn't fetched yet, from a server with and without ranges.
func TestServer(t *testing.T) {
	for name, ranges := range map[string]bool{"with ranges": true, "without": false} {
		t.Run(name, func(t *testing.T) {
			b, next := medium(t), t.TempDir()
			write(t, next, "v2", 2000)
			var asked []string
			cut := 1
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				asked = append(asked, r.URL.Path+" "+r.Header.Get("Range"))
				if !ranges {
					r.Header.Del("Range")
				}
				if strings.HasSuffix(r.URL.Path, nodeimage.RootFile) && cut > 0 {
					cut--
					w = &short{w, 70_000}
				}
				http.ServeFile(w, r, filepath.Join(next, filepath.Base(r.URL.Path)))
			}))
			defer server.Close()
			from := Server{server.URL + "/images"}
			if err := b.install(from); err == nil {
				t.Fatal("half a file is taken")
			}
			b.upgrade(from)
			b.boot()
			if b.Slot != "b" {
				t.Errorf("slot %s is booted", b.Slot)
			}
			resumed := strings.Contains(strings.Join(asked, "\n"), "root.squashfs bytes=")
			if !resumed {
				t.Errorf("nothing was resumed:\n%s", strings.Join(asked, "\n"))
			}
		})
	}
	if _, _, err := (Server{"http://127.0.0.1:1"}).Open(t.Context(), "x", 0); err == nil {
		t.Error("a server that isn't there answers")
	}
	gone := httptest.NewServer(http.NotFoundHandler())
	defer gone.Close()
	if _, _, err := (Server{gone.URL}).Open(t.Context(), "x", 0); err == nil || !strings.Contains(err.Error(), "404") {
		t.Error(err)
	}
}

// short cuts an answer off.
type short struct {
	http.ResponseWriter
	left int
}

func (s *short) Write(p []byte) (int, error) {
	if len(p) > s.left {
		_ = http.NewResponseController(s.ResponseWriter).Flush()
		panic(http.ErrAbortHandler)
	}
	s.left -= len(p)
	return s.ResponseWriter.Write(p)
}

// TestPowerCuts cuts the power before each change of the medium's files: whatever is on it, the machine boots the old image or a whole
// new one, and the upgrade can be done after it.
func TestPowerCuts(t *testing.T) {
	next := t.TempDir()
	write(t, next, "v2", 2000)
	for cut := 1; ; cut++ {
		b := medium(t)
		source := &cutter{folder: folder(next), left: cut}
		_, err := b.Install(t.Context(), source)
		if b.boot() || b.Slot != "a" {
			t.Fatalf("after cut %d slot %s is booted", cut, b.Slot)
		}
		b.looks(false, None)
		b.upgrade(folder(next))
		if !b.boot() || b.Slot != "b" {
			t.Fatalf("after cut %d slot %s is booted", cut, b.Slot)
		}
		if _, m, err := b.image("b"); err != nil || b.whole("b", m) != nil {
			t.Fatalf("after cut %d the image isn't whole: %v", cut, err)
		}
		if err == nil {
			return
		}
	}
}

var errCut = errors.New("the power is cut")

// cutter ends at its n-th read.
type cutter struct {
	folder
	left int
}

func (c *cutter) Open(ctx context.Context, name string, from int64) (io.ReadCloser, bool, error) {
	r, there, err := c.folder.Open(ctx, name, from)
	if err != nil {
		return nil, false, err
	}
	return &cutReader{r, c}, there, nil
}

type cutReader struct {
	io.ReadCloser
	c *cutter
}

func (r *cutReader) Read(p []byte) (int, error) {
	if r.c.left--; r.c.left < 0 {
		return 0, errCut
	}
	return r.ReadCloser.Read(p[:min(len(p), 16<<10)])
}

func TestStalledServer(t *testing.T) {
	w := &watched{ReadCloser: io.NopCloser(strings.NewReader("x")), timer: time.NewTimer(time.Hour), cancel: func(error) {}}
	if raw, err := io.ReadAll(w); string(raw) != "x" || err != nil || w.Close() != nil {
		t.Errorf("%q, %v", raw, err)
	}
}
