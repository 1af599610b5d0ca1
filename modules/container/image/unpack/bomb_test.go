package unpack

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/opencontainers/go-digest"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/pkg/limit"
	"github.com/croft-edge/croft/pkg/node"
)

// entries is a tar of n entries.
func entries(t *testing.T, n int, entry func(i int) tar.Header) []byte {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for i := range n {
		h := entry(i)
		if h.Typeflag == 0 {
			h.Typeflag = tar.TypeReg
		}
		if h.Typeflag != tar.TypeXGlobalHeader {
			h.Mode = 0o755
		}
		must(t, w.WriteHeader(&h))
	}
	must(t, w.Close())
	return out.Bytes()
}

func gzipped(t *testing.T, raw []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, err := w.Write(raw)
	must(t, err)
	must(t, w.Close())
	return out.Bytes()
}

func zstded(t *testing.T, raw []byte) []byte {
	t.Helper()
	w, err := zstd.NewWriter(nil)
	must(t, err)
	defer w.Close()
	return w.EncodeAll(raw, nil)
}

// sparse is a tar of one small entry of GNU's that says it is a large file.
func sparse(t *testing.T, size int64) []byte {
	t.Helper()
	b := entries(t, 1, func(int) tar.Header { return tar.Header{Name: "sparse", Format: tar.FormatGNU} })
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

func attributes(n, size int) map[string]string {
	out := map[string]string{}
	for i := range n {
		out[fmt.Sprintf("SCHILY.xattr.user.%d", i)] = strings.Repeat("v", size)
	}
	return out
}

// TestBombs wants every kind of layer that is more than it seems to be refused
// within the bounds: 1000 files and 2 MiB, on the disk, and Memory.
func TestBombs(t *testing.T) {
	const mostBytes, mostFiles = 2 << 20, 1000
	large := tarOf(t, 8<<20)
	wide := []byte{0x28, 0xb5, 0x2f, 0xfd, 0x00, 0xf8}
	for what, c := range map[string]struct {
		layer []byte
		kind  node.Kind
	}{
		"gzip":             {gzipped(t, large), node.Refused},
		"gzip in gzip":     {gzipped(t, gzipped(t, large)), node.Invalid},
		"zstd":             {zstded(t, large), node.Refused},
		"a window of zstd": {append(wide, make([]byte, 64)...), node.Invalid},
		"plain":            {large, node.Refused},
		"without an end":   {gzipped(t, append(entries(t, 1, func(int) tar.Header { return tar.Header{Name: "a"} }), make([]byte, 22<<20)...)), node.Refused},
		"sparse":           {sparse(t, 1<<32), node.Refused},
		"files":            {entries(t, 1001, func(i int) tar.Header { return tar.Header{Name: fmt.Sprint(i)} }), node.Refused},
		"folders":          {entries(t, 1001, func(i int) tar.Header { return tar.Header{Name: fmt.Sprint(i, "/"), Typeflag: tar.TypeDir} }), node.Refused},
		"folders unnamed":  {entries(t, 400, func(i int) tar.Header { return tar.Header{Name: fmt.Sprint(i, "/a/b/c")} }), node.Refused},
		"a deep path":      {entries(t, 1, func(int) tar.Header { return tar.Header{Name: strings.Repeat("d/", 1500) + "x"} }), node.Refused},
		"folders behind links": {entries(t, 4, func(i int) tar.Header {
			if i%2 == 0 {
				return tar.Header{Name: fmt.Sprint("s", i), Typeflag: tar.TypeSymlink, Linkname: fmt.Sprint(i) + strings.Repeat("/d", 600)}
			}
			return tar.Header{Name: fmt.Sprint("s", i-1, "/x")}
		}), node.Refused},
		"a long path": {entries(t, 1, func(int) tar.Header { return tar.Header{Name: strings.Repeat("n", 200_000)} }), node.Invalid},
		"long paths":  {entries(t, 40, func(i int) tar.Header { return tar.Header{Name: strings.Repeat("n", 500_000) + fmt.Sprint(i)} }), node.Invalid},
		"hard links": {entries(t, 1002, func(i int) tar.Header {
			if i == 0 {
				return tar.Header{Name: "a"}
			}
			return tar.Header{Name: fmt.Sprint(i), Typeflag: tar.TypeLink, Linkname: "a"}
		}), node.Refused},
		"a link to itself": {entries(t, 3, func(i int) tar.Header {
			return []tar.Header{{Name: "a", Typeflag: tar.TypeSymlink, Linkname: "b"}, {Name: "b", Typeflag: tar.TypeSymlink, Linkname: "a"}, {Name: "a/x"}}[i]
		}), node.Invalid},
		"attributes":            {entries(t, 4, func(i int) tar.Header { return tar.Header{Name: fmt.Sprint(i), PAXRecords: attributes(1, 900_000)} }), node.Refused},
		"attributes of nothing": {entries(t, 12, func(i int) tar.Header { return tar.Header{Name: fmt.Sprint(i), PAXRecords: attributes(20_000, 0)} }), node.Refused},
		"headers": {entries(t, 1001, func(int) tar.Header {
			return tar.Header{Typeflag: tar.TypeXGlobalHeader, PAXRecords: map[string]string{"comment": "x"}}
		}), node.Refused},
		"whiteouts": {entries(t, 1001, func(i int) tar.Header { return tar.Header{Name: fmt.Sprintf(".wh.%d", i)} }), node.Refused},
	} {
		upper := t.TempDir()
		_, err := Run(t.Context(), []string{"/proc/self/exe", "unpack"}, Layer{Packed: bytes.NewReader(c.layer), Upper: upper, Bounds: Bounds{MostBytes: mostBytes, MostFiles: mostFiles, Room: 1 << 40}})
		// Attributes that are too many for the disk are no room, on some.
		if !errors.Is(err, c.kind) && !(strings.HasPrefix(what, "attributes") && errors.Is(err, node.Invalid) || errors.Is(err, node.NoSpace) && strings.HasPrefix(what, "attributes")) {
			t.Errorf("%s answers %v (kind %s), want %s", what, err, node.KindOf(err), c.kind)
		}
		if err != nil && strings.Contains(err.Error(), "of memory") {
			t.Errorf("%s takes all memory: %v", what, err)
		}
		files, used := onDisk(t, upper)
		if files > mostFiles+2 || used > mostBytes+mostFiles*4096 {
			t.Errorf("%s has left %d files with %d bytes", what, files, used)
		}
	}
}

// Of a layer of more files than an image may have, few are made; of one of as many, all.
func TestManyFilesAreCountedBeforeTheyAreMade(t *testing.T) {
	const mostFiles = mostUncounted + 1000 // the folder counts twice: by itself, and above the others
	for more, want := range map[int]node.Kind{0: node.Kind(""), 1: node.Refused} {
		layer := gzipped(t, entries(t, mostFiles-1+more, func(i int) tar.Header {
			if i == 0 {
				return tar.Header{Name: "f/", Typeflag: tar.TypeDir, ModTime: time.Unix(1, 0)}
			}
			return tar.Header{Name: fmt.Sprint("f/", i), Uid: i % 3}
		}))
		upper := t.TempDir()
		must(t, os.Chmod(upper, 0o755))
		got, err := Run(t.Context(), []string{"/proc/self/exe", "unpack"}, Layer{Packed: bytes.NewReader(layer), Upper: upper, Bounds: Bounds{MostBytes: 1 << 20, MostFiles: mostFiles, Room: 1 << 30}})
		files, _ := onDisk(t, upper)
		files-- // the folder that it is unpacked to
		if want != "" {
			if !errors.Is(err, want) || !strings.Contains(err.Error(), "more than") || files > mostUncounted {
				t.Errorf("with %d too many %d are made: %v", more, files, err)
			}
			continue
		}
		must(t, err)
		info, err := os.Stat(filepath.Join(upper, "f"))
		must(t, err)
		if files != mostFiles-1 || got.Files != mostFiles || !info.ModTime().Equal(time.Unix(1, 0)) || got.Diff != digest.FromBytes(plainOf(t, layer)) {
			t.Errorf("there are %d files, %+v, the folder is of %s", files, got, info.ModTime())
		}
	}
}

// A tree that is deeper than a process may have files open, and in the way when the layer is begun anew.
func TestDeepTreesOfManyFiles(t *testing.T) {
	upper := t.TempDir()
	must(t, os.Chmod(upper, 0o755))
	layer := gzipped(t, entries(t, mostUncounted+1, func(i int) tar.Header {
		if i == 0 {
			return tar.Header{Name: strings.Repeat("d/", 1000) + "x"}
		}
		return tar.Header{Name: fmt.Sprint("f/", i)}
	}))
	got, err := Run(t.Context(), []string{"/proc/self/exe", "unpack"}, Layer{Packed: bytes.NewReader(layer), Upper: upper, Bounds: bounds()})
	if err != nil || got.Files != mostUncounted+1+1000+1 {
		t.Errorf("%+v, %v", got, err)
	}
}

// plainOf is the unpacked content.
func plainOf(t *testing.T, packed []byte) []byte {
	t.Helper()
	r, err := gzip.NewReader(bytes.NewReader(packed))
	must(t, err)
	raw, err := io.ReadAll(r)
	must(t, err)
	return raw
}

func onDisk(t *testing.T, dir string) (files, used int64) {
	t.Helper()
	must(t, filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		var st unix.Stat_t
		if err == nil && unix.Lstat(path, &st) == nil {
			files, used = files+1, used+st.Blocks*512
		}
		return err
	}))
	return files, used
}

func TestFoldersThatHideOthersAreBounded(t *testing.T) {
	raw := entries(t, int(Opaque.Each)+1, func(int) tar.Header { return tar.Header{Name: "d/.wh..wh..opq"} })
	before := limit.Times()[Opaque.Name]
	err := as(t, "unpack", bytes.NewReader(raw))
	if !errors.Is(err, node.Refused) || !strings.Contains(err.Error(), "hide") {
		t.Errorf("it answers %v", err)
	}
	if limit.Times()[Opaque.Name] != before+1 {
		t.Error("it isn't counted")
	}
}

// TestIDsOfLayers wants owners to be as the layer says, those that no container has
// to be nobody's, and attributes of the kernel's own to be left out.
func TestIDsOfLayers(t *testing.T) {
	caps := string([]byte{1, 0, 0, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0})
	owners := []tar.Header{
		{Name: "a", Uid: 0, Gid: 65535}, {Name: "b", Uid: 70_000, Gid: 1 << 20}, {Name: "c/d", Uid: 5, Gid: 6},
		{Name: "e", Uid: 1, PAXRecords: map[string]string{
			"SCHILY.xattr.security.capability": caps, "SCHILY.xattr.security.selinux": "x", "SCHILY.xattr.user.u": "kept",
		}},
	}
	upper := t.TempDir()
	must(t, os.Chmod(upper, 0o755))
	_, err := Run(t.Context(), []string{"/proc/self/exe", "unpack"}, Layer{
		Packed: bytes.NewReader(entries(t, len(owners), func(i int) tar.Header { return owners[i] })), Upper: upper, Bounds: bounds(),
	})
	must(t, err)
	for name, want := range map[string][2]uint32{"a": {0, 65535}, "b": {nobody, nobody}, "c": {0, 0}, "c/d": {5, 6}, "e": {1, 0}} {
		var st unix.Stat_t
		must(t, unix.Lstat(filepath.Join(upper, name), &st))
		if st.Uid != want[0] || st.Gid != want[1] {
			t.Errorf("%s is of %d:%d, want %v", name, st.Uid, st.Gid, want)
		}
	}
	value := make([]byte, 64)
	for name, want := range map[string]bool{"security.capability": true, "security.selinux": false, "user.u": true} {
		if _, err := unix.Getxattr(filepath.Join(upper, "e"), name, value); (err == nil) != want {
			t.Errorf("attribute %s: %v, want it %t", name, err, want)
		}
	}
}

// TestUnnamedFoldersAreLikeThoseBelow wants a folder that only layers below name to be
// as there.
func TestUnnamedFoldersAreLikeThoseBelow(t *testing.T) {
	upper, below := t.TempDir(), t.TempDir()
	must(t, os.MkdirAll(filepath.Join(below, "one/two"), 0o700))
	must(t, os.Chown(filepath.Join(below, "one/two"), 7, 8))
	must(t, unix.Chmod(filepath.Join(below, "one/two"), 0o1770))
	must(t, unix.Setxattr(filepath.Join(below, "one/two"), "user.u", []byte("v"), 0))
	_, err := Run(t.Context(), []string{"/proc/self/exe", "unpack"}, Layer{
		Packed: bytes.NewReader(entries(t, 1, func(int) tar.Header { return tar.Header{Name: "one/two/three/x"} })), Upper: upper, Below: []string{below}, Bounds: bounds(),
	})
	must(t, err)
	var st unix.Stat_t
	must(t, unix.Lstat(filepath.Join(upper, "one/two"), &st))
	if st.Uid != 7 || st.Gid != 8 || st.Mode&0o7777 != 0o1770 {
		t.Errorf("it is of %d:%d with mode %o", st.Uid, st.Gid, st.Mode)
	}
	value := make([]byte, 8)
	if n, err := unix.Getxattr(filepath.Join(upper, "one/two"), "user.u", value); err != nil || string(value[:n]) != "v" {
		t.Errorf("its attribute is %q: %v", value[:max(n, 0)], err)
	}
	must(t, unix.Lstat(filepath.Join(upper, "one/two/three"), &st))
	if st.Uid != 0 || st.Mode&0o7777 != 0o755 {
		t.Errorf("one that is nowhere is of %d with mode %o", st.Uid, st.Mode)
	}
}
