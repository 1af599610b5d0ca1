package unpack

import (
	"archive/tar"
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/croft-edge/croft/pkg/node"
)

// The memory for unpacking a layer is bounded, however many files are
// allowed.
func TestNamesAndAttributesAreBounded(t *testing.T) {
	for what, header := range map[string]func(i int) *tar.Header{
		"names": func(i int) *tar.Header {
			return &tar.Header{Typeflag: tar.TypeReg, Name: fmt.Sprintf("%s%d", strings.Repeat("n", 4000), i)}
		},
		"attributes of folders": func(i int) *tar.Header {
			return &tar.Header{Typeflag: tar.TypeDir, Name: fmt.Sprint(i), PAXRecords: map[string]string{xattrPrefix + "user.a": strings.Repeat("a", 60<<10)}}
		},
	} {
		u := &counter{Bounds: Bounds{MostBytes: 16 << 30, MostFiles: 1_000_000, Room: 16 << 30}}
		var err error
		i := 0
		for ; err == nil && i < 10_000; i++ {
			_, err = u.count(header(i))
		}
		if node.KindOf(err) != node.Refused || u.extra > mostExtra+128*u.Files+1<<20 {
			t.Errorf("%s: after %d entries %d bytes are kept and the error is %v", what, i, u.extra, err)
		}
	}
}

func TestFoldersAreCountedOnce(t *testing.T) {
	u := &counter{Bounds: Bounds{MostBytes: 16 << 30, MostFiles: 1_000_000, Room: 16 << 30}}
	for _, name := range []string{"a/b/c/1", "a/b/c/2", "a/b/3", "a/4"} {
		if _, err := u.count(&tar.Header{Typeflag: tar.TypeReg, Name: name}); err != nil {
			t.Fatal(err)
		}
	}
	if u.Files != 7 {
		t.Errorf("%d files and folders are counted, want 4 and 3", u.Files)
	}
}

// tarOf is a tar of one file that can't be packed.
func tarOf(t *testing.T, size int) []byte {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	must(t, w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "file", Mode: 0o644, Size: int64(size)}))
	_, err := w.Write(make([]byte, size))
	must(t, err)
	must(t, w.Close())
	return out.Bytes()
}
