package image_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/internal/testing/imagetest"
	"github.com/croft-edge/croft/modules/container/image"
	"github.com/croft-edge/croft/pkg/node"
)

func TestAnotherMachinesImage(t *testing.T) {
	w := open(t)
	w.push(imagetest.New().Platform("linux", "s390x").File("/a", "a", 0o644), "app:s390x")
	w.fails(spec("1-1", w.ref("app:s390x")), node.Invalid, "linux/s390x", runtime.GOOS+"/"+runtime.GOARCH)
	w.push(imagetest.New().Platform("windows", runtime.GOARCH).File("/a", "a", 0o644), "app:windows")
	w.fails(spec("1-1", w.ref("app:windows")), node.Invalid, "windows/"+runtime.GOARCH)
}

// index makes an index of images, each for the platform that its config says.
func index(t *testing.T, images ...*imagetest.Builder) v1.ImageIndex {
	t.Helper()
	out := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, b := range images {
		i, err := b.Image()
		must(t, err)
		c, err := i.ConfigFile()
		must(t, err)
		out = mutate.AppendManifests(out, mutate.IndexAddendum{Add: i, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: c.OS, Architecture: c.Architecture}}})
	}
	return out
}

func TestAnIndexIsSearchedForThisMachine(t *testing.T) {
	w := open(t)
	mine := imagetest.New().File("/a", "mine", 0o644)
	theirs := imagetest.New().Platform("linux", "s390x").File("/a", "theirs", 0o644)
	d, err := imagetest.PushIndex(t.Context(), w.registry.Host+"/app:1", index(t, theirs, mine), w.registry.Behind())
	must(t, err)
	i, err := mine.Image()
	must(t, err)
	want, err := i.Digest()
	must(t, err)
	// By tag, and by the digest of the index, which needs no network later.
	for label, name := range map[string]string{"1-1": "app:1", "1-2": "app@" + d.String()} {
		if got := w.ready(spec(label, w.ref(name))); got.Digest != want.String() {
			t.Errorf("%s has digest %s, want that of this machine's manifest, %s", name, got.Digest, want)
		}
	}
	w.registry.Forget()
	w.ready(spec("1-3", w.ref("app@"+d.String())))
	if n := w.registry.Seen().Requests; n != 0 {
		t.Errorf("the registry was asked %d times, want 0", n)
	}
	must(t, w.Release(t.Context(), "1-1"))
	_, err = imagetest.PushIndex(t.Context(), w.registry.Host+"/app:2", index(t, theirs, theirs), w.registry.Behind())
	must(t, err)
	other := spec("1-4", w.ref("app:2"))
	other.User = bob
	w.fails(other, node.Invalid, "linux/s390x", runtime.GOOS+"/"+runtime.GOARCH)
}

func TestNestedIndexes(t *testing.T) {
	w := open(t)
	nest := func(levels int) v1.ImageIndex {
		out := index(t, imagetest.New().File("/a", "a", 0o644))
		for range levels - 1 {
			out = mutate.AppendManifests(mutate.IndexMediaType(empty.Index, types.OCIImageIndex), mutate.IndexAddendum{Add: out})
		}
		return out
	}
	for levels, ok := range map[int]bool{2: true, 3: false} {
		name := fmt.Sprintf("app:%d", levels)
		_, err := imagetest.PushIndex(t.Context(), w.registry.Host+"/"+name, nest(levels), w.registry.Behind())
		must(t, err)
		s := spec("1-1", w.ref(name))
		if ok {
			w.ready(s)
			continue
		}
		s.User = bob
		s.Label = "1-2"
		w.fails(s, node.Invalid, "2 levels")
	}
}

func TestLyingRegistry(t *testing.T) {
	t.Parallel()
	flip := func(kind string) func(string, []byte) []byte {
		return func(path string, body []byte) []byte {
			isConfig := len(body) > 0 && body[0] == '{'
			is := map[string]bool{"manifest": strings.Contains(path, "/manifests/"), "config": strings.Contains(path, "/blobs/") && isConfig, "layer": strings.Contains(path, "/blobs/") && !isConfig}
			if !is[kind] {
				return body
			}
			out := bytes.Clone(body)
			out[len(out)-1] ^= 1
			return out
		}
	}
	for what, c := range map[string]struct {
		faults imagetest.Faults
		text   string
	}{
		"another manifest": {imagetest.Faults{Change: flip("manifest")}, "aren't those of its digest"},
		"another config":   {imagetest.Faults{Change: flip("config")}, "aren't those of its digest"},
		"another layer":    {imagetest.Faults{Change: flip("layer")}, "aren't those of its digest"},
		"endless":          {imagetest.Faults{Endless: true}, "more"},
		"too short": {imagetest.Faults{Change: func(path string, b []byte) []byte {
			if strings.Contains(path, "/blobs/") {
				return b[:len(b)-1]
			}
			return b
		}}, "fewer"},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			w := open(t)
			digest := w.push(imagetest.New().File("/a", "a", 0o644), "app:1")
			w.registry.Set(c.faults)
			w.fails(spec("1-1", w.ref("app:1")), node.Refused, c.text)
			w.fails(spec("1-2", w.ref("app@"+digest)), node.Refused, c.text)
			// It is final: the same question isn't asked again.
			w.registry.Forget()
			_, err := w.result(spec("1-1", w.ref("app:1")))
			wantError(t, err, node.Refused)
			if n := w.registry.Seen().Requests; n != 0 {
				t.Errorf("the registry was asked %d times after a final failure, want 0", n)
			}
			// Another reservation may try.
			w.registry.Set(imagetest.Faults{})
			w.ready(spec("1-3", w.ref("app:1")))
		})
	}
}

func TestNoSuchImage(t *testing.T) {
	w := open(t)
	w.push(sample(), "app:1")
	w.fails(spec("1-1", w.ref("app:2")), node.Invalid, "no such image")
	w.fails(spec("1-2", w.ref("app@sha256:"+strings.Repeat("0", 64))), node.Invalid, "no such image")
}

// manifests are changed in the JSON of a good one.
func TestUnusableManifests(t *testing.T) {
	t.Parallel()
	type object = map[string]any
	layer := func(m object) object { return m["layers"].([]any)[0].(object) }
	for what, c := range map[string]struct {
		change func(m object)
		kind   node.Kind
		text   string
	}{
		"huge":                         {func(m object) { m["annotations"] = object{"a": strings.Repeat("a", 5<<20)} }, node.Invalid, "manifest"},
		"many layers":                  {func(m object) { m["layers"] = repeated(m["layers"].([]any)[0], 129) }, node.Invalid, "129 layers"},
		"no layers":                    {func(m object) { m["layers"] = []any{} }, node.Invalid, "no layers"},
		"huge config":                  {func(m object) { m["config"].(object)["size"] = 5 << 20 }, node.Invalid, "config"},
		"smaller size":                 {func(m object) { layer(m)["size"] = 5 }, node.Refused, "more"},
		"larger size":                  {func(m object) { layer(m)["size"] = 5000 }, node.Refused, "fewer"},
		"negative size":                {func(m object) { layer(m)["size"] = -1 }, node.Invalid, "negative"},
		"sizes overflow":               {func(m object) { layer(m)["size"] = uint64(1)<<63 - 1 }, node.Invalid, "overflow"},
		"larger than all":              {func(m object) { layer(m)["size"] = 1 << 50 }, node.Refused, "packed"},
		"foreign":                      {func(m object) { layer(m)["urls"] = []string{"http://169.254.169.254/"} }, node.Invalid, "elsewhere"},
		"nondistributable":             {func(m object) { layer(m)["mediaType"] = "application/vnd.oci.image.layer.nondistributable.v1.tar+gzip" }, node.Invalid, "elsewhere"},
		"unknown layer":                {func(m object) { layer(m)["mediaType"] = "application/x-foo" }, node.Invalid, "application/x-foo"},
		"not an image":                 {func(m object) { m["config"].(object)["mediaType"] = "application/vnd.cncf.helm.config.v1+json" }, node.Invalid, "config"},
		"bad digest":                   {func(m object) { layer(m)["digest"] = "sha256:../../etc/passwd" }, node.Invalid, "digest"},
		"config and indexes":           {func(m object) { m["manifests"] = []any{} }, node.Invalid, "either"},
		"other layers than its config": {func(m object) { m["layers"] = repeated(m["layers"].([]any)[0], 2) }, node.Invalid, "its config has 1"},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			w := open(t)
			w.push(imagetest.New().File("/a", strings.Repeat("abc", 100), 0o644), "app:good")
			i, err := imagetest.New().File("/a", strings.Repeat("abc", 100), 0o644).Image()
			must(t, err)
			raw, err := i.RawManifest()
			must(t, err)
			var m object
			must(t, json.Unmarshal(raw, &m))
			c.change(m)
			raw, err = json.Marshal(m)
			must(t, err)
			_, err = imagetest.PushManifest(t.Context(), w.registry.Host+"/app:bad", ocispec.MediaTypeImageManifest, raw, w.registry.Behind())
			must(t, err)
			w.fails(spec("1-1", w.ref("app:bad")), c.kind, c.text)
		})
	}
}

func repeated(v any, n int) []any {
	out := make([]any, n)
	for i := range out {
		out[i] = v
	}
	return out
}

// rawLayer is an image of this machine with one layer of any bytes.
func rawLayer(t *testing.T, raw []byte) v1.Image {
	t.Helper()
	base, err := imagetest.New().Image()
	must(t, err)
	l, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(raw)), nil }, tarball.WithMediaType(types.OCILayer), tarball.WithCompressionLevel(gzip.BestSpeed))
	must(t, err)
	i, err := mutate.AppendLayers(base, l)
	must(t, err)
	return i
}

// sparse is a tar of one small entry that says it is a large file.
func sparse(t *testing.T, size int64) []byte {
	t.Helper()
	var out bytes.Buffer
	tw := tar.NewWriter(&out)
	must(t, tw.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "sparse", Mode: 0o644, Format: tar.FormatGNU}))
	must(t, tw.Close())
	b := out.Bytes()
	b[156] = 'S'
	copy(b[386:], fmt.Sprintf("%011o\x00%011o\x00", size, 0))
	copy(b[483:], fmt.Sprintf("%011o\x00", size))
	copy(b[148:], "        ")
	sum := 0
	for _, c := range b[:512] {
		sum += int(c)
	}
	copy(b[148:], fmt.Sprintf("%06o\x00 ", sum))
	return b
}

func TestOversizedLayers(t *testing.T) {
	t.Parallel()
	var plain bytes.Buffer
	tw := tar.NewWriter(&plain)
	must(t, tw.Close())
	small := func(c *image.Config) { c.Limits.MaxSize, c.Limits.MaxFiles = 1<<20, 100 }
	zeros := strings.Repeat("\x00", 4<<20)
	for what, c := range map[string]struct {
		image  func() (v1.Image, error)
		change func(c *image.Config)
		text   string
	}{
		"a file that packs well":       {imagetest.New().File("/zeros", zeros, 0o644).Image, small, "1048576 bytes"},
		"one that packs well in zstd":  {imagetest.New().Zstd().File("/zeros", zeros, 0o644).Image, small, "1048576 bytes"},
		"a stream that doesn't end":    {func() (v1.Image, error) { return rawLayer(t, append(plain.Bytes(), make([]byte, 18<<20)...)), nil }, small, "1048576 bytes"},
		"a sparse file":                {func() (v1.Image, error) { return rawLayer(t, sparse(t, 1<<32)), nil }, small, "1048576 bytes"},
		"too many files":               {imagetest.New().Files("/many", 101).Image, small, "more than 100 files"},
		"too many over several layers": {imagetest.New().Files("/a", 60).Layer().Files("/b", 60).Image, small, "more than 100 files"},
		"folders that nobody names":    {imagetest.New().File(strings.Repeat("/d", 120)+"/x", "", 0o644).Image, small, "more than 100 files"},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			w := open(t, c.change)
			i, err := c.image()
			must(t, err)
			_, err = imagetest.PushImage(t.Context(), w.registry.Host+"/app:1", i, w.registry.Behind())
			must(t, err)
			before := w.used()
			w.fails(spec("1-1", w.ref("app:1")), node.Refused, c.text)
			if after := w.used(); after > before+1<<20 {
				t.Errorf("containerd's folder has grown by %d bytes", after-before)
			}
		})
	}
}

// used are the bytes below containerd's folder, as the disk counts them.
func (w *world) used() (n int64) {
	w.t.Helper()
	root := filepath.Join(filepath.Dir(filepath.Dir(filepath.Dir(w.daemon.Address()))), "state")
	must(w.t, filepath.WalkDir(root, func(path string, _ os.DirEntry, err error) error {
		var st unix.Stat_t
		if err == nil && unix.Lstat(path, &st) == nil {
			n += st.Blocks * 512
		}
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		return err
	}))
	return n
}

func TestWrongDiffID(t *testing.T) {
	w := open(t)
	i, err := imagetest.New().File("/a", "a", 0o644).Image()
	must(t, err)
	c, err := i.ConfigFile()
	must(t, err)
	c = c.DeepCopy()
	c.RootFS.DiffIDs[0].Hex = strings.Repeat("0", 64)
	i, err = mutate.ConfigFile(i, c)
	must(t, err)
	_, err = imagetest.PushImage(t.Context(), w.registry.Host+"/app:1", i, w.registry.Behind())
	must(t, err)
	w.fails(spec("1-1", w.ref("app:1")), node.Refused, "its config says")

	_, err = imagetest.PushImage(t.Context(), w.registry.Host+"/app:junk", rawLayer(t, []byte(strings.Repeat("no tar", 200))), w.registry.Behind())
	must(t, err)
	w.fails(spec("1-2", w.ref("app:junk")), node.Invalid, "can't be unpacked")
}

func TestNoSpace(t *testing.T) {
	var free atomic.Uint64 // a refused pull may be tried again while the test goes on
	free.Store(1<<30 + 1000)
	w := open(t, func(c *image.Config) {
		c.Space = func(context.Context) (image.Space, error) {
			return image.Space{Used: 50 << 30, Total: 100 << 30, Free: free.Load()}, nil
		}
	})
	w.push(imagetest.New().Plain().Entry(random("a", 64<<10)), "app:1")
	w.registry.Forget()
	w.fails(spec("1-1", w.ref("app:1")), node.NoSpace, "free")
	if n := w.registry.Seen().BlobBytes; n > 32<<10 {
		t.Errorf("%d bytes were sent, want none of the layer", n)
	}
	// It fits packed and not unpacked.
	w.push(imagetest.New().File("/zeros", strings.Repeat("\x00", 32<<20), 0o644), "app:2")
	free.Store(1<<30 + 1<<20)
	w.fails(spec("1-2", w.ref("app:2")), node.NoSpace, "free")
}

func TestTheLimitsAreCheckedBeforeALayerIsFetched(t *testing.T) {
	w := open(t, func(c *image.Config) { c.Limits.MaxSize, c.Limits.UserBudget = 100<<10, 150<<10 })
	w.push(imagetest.New().Plain().Entry(random("a", 200<<10)), "app:large")
	w.push(imagetest.New().Plain().Entry(random("b", 80<<10)), "app:b")
	w.push(imagetest.New().Plain().Entry(random("c", 80<<10)), "app:c")
	w.registry.Forget()
	w.fails(spec("1-1", w.ref("app:large")), node.Refused, "at most 102400")
	if n := w.registry.Seen().BlobBytes; n > 32<<10 {
		t.Errorf("%d bytes were sent, want none of the layer", n)
	}
	w.ready(spec("1-2", w.ref("app:b")))
	_, err := w.result(spec("1-3", w.ref("app:c")))
	wantError(t, err, node.Refused, "at most 153600")
	// Another user has a budget of their own; and who frees some may go on.
	other := spec("1-4", w.ref("app:c"))
	other.User = bob
	w.ready(other)
	must(t, w.Release(t.Context(), "1-2"))
	w.ready(spec("1-5", w.ref("app:c")))
}

func TestLayerContents(t *testing.T) {
	w := open(t)
	outside := t.TempDir()
	redirect := tar.Header{Typeflag: tar.TypeDir, Name: "redirected/", Mode: 0o755, PAXRecords: map[string]string{"SCHILY.xattr.trusted.overlay.redirect": "/etc", "SCHILY.xattr.user.kept": "yes"}}
	w.push(imagetest.New().
		File("/etc/below", "below", 0o644).File("/opaque/below", "below", 0o644).File("/gone", "gone", 0o644).
		Layer().
		File("/bin/su", "su", 0o4755).File("/bin/wall", "wall", 0o2755).
		Device("/dev/sda", tar.TypeBlock, 8, 0).Device("/dev/mem", tar.TypeChar, 1, 1).Device("/etc/below", tar.TypeChar, 0, 0).
		Opaque("/opaque").File("/opaque/above", "above", 0o644).Whiteout("/gone").
		Symlink("/out", outside).File("/out/escaped", "escaped", 0o644).
		Symlink("/up", "../../../../../../../../"+outside).File("/up/escaped", "escaped", 0o644).
		Entry(tar.Header{Typeflag: tar.TypeReg, Name: "../../../../../../.." + outside + "/dots", Mode: 0o644}, []byte("x")).
		Entry(redirect, nil), "app:1")
	w.ready(spec("1-1", w.ref("app:1")))
	l, err := w.Layers(t.Context(), "1-1")
	must(t, err)
	top := l.Lower[0]
	mode := func(path string) os.FileMode {
		st, err := os.Lstat(filepath.Join(top, path))
		must(t, err)
		return st.Mode()
	}
	if mode("bin/su")&os.ModeSetuid == 0 || mode("bin/wall")&os.ModeSetgid == 0 {
		t.Error("set-id bits are gone")
	}
	for _, path := range []string{"dev/sda", "dev/mem", "etc/below"} {
		if _, err := os.Lstat(filepath.Join(top, path)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("device %s is there: %v", path, err)
		}
	}
	var st unix.Stat_t
	must(t, unix.Lstat(filepath.Join(top, "gone"), &st))
	if st.Mode&unix.S_IFMT != unix.S_IFCHR || st.Rdev != 0 {
		t.Error("the whiteout isn't one of overlayfs")
	}
	value := make([]byte, 8)
	if n, err := unix.Getxattr(filepath.Join(top, "opaque"), "trusted.overlay.opaque", value); err != nil || string(value[:n]) != "y" {
		t.Errorf("the opaque folder isn't one of overlayfs: %q, %v", value[:max(n, 0)], err)
	}
	if _, err := unix.Getxattr(filepath.Join(top, "redirected"), "trusted.overlay.redirect", value); !errors.Is(err, unix.ENODATA) {
		t.Errorf("an image speaks to overlayfs: %v", err)
	}
	if n, err := unix.Getxattr(filepath.Join(top, "redirected"), "user.kept", value); err != nil || string(value[:n]) != "yes" {
		t.Errorf("an attribute of users is gone: %v", err)
	}
	entries, err := os.ReadDir(outside)
	must(t, err)
	if len(entries) != 0 {
		t.Errorf("a layer has written outside: %v", entries)
	}
}
