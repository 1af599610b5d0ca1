package logs

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/croft-edge/croft/pkg/node"
)

func sizeOf(t *testing.T, dir string) (total int64, files int) {
	t.Helper()
	list, err := numbers(dir)
	must(t, err)
	for _, n := range list {
		if info, err := os.Stat(fileName(dir, n)); err == nil {
			total += info.Size()
			files++
		}
	}
	return total, files
}

func TestFilesNeverGrowBeyondTheirBounds(t *testing.T) {
	dir := folder(t)
	l := testLimits()
	l.files = 3
	c := here(t, dir, l)
	out := shim(t, c.place.paths().Stdout)
	for i := range 30 {
		say(t, out, strings.Repeat(fmt.Sprintf("%05d\n", i), 1000))
		if total, files := sizeOf(t, c.place.files); total > l.size*int64(l.files) || files > l.files {
			t.Fatalf("%d bytes in %d files", total, files)
		}
	}
	c.finish(t, true)
	list, err := numbers(c.place.files)
	must(t, err)
	if len(list) != 3 || list[0] == 0 {
		t.Fatalf("files %v, want three, without the first", list)
	}
	// The newest file may be a new one. One before it is full: the next block of outSize bytes at most did not fit.
	for _, number := range list[:2] {
		info, err := os.Stat(fileName(c.place.files, number))
		must(t, err)
		if info.Size() <= l.size-int64(outSize) {
			t.Errorf("file %d has %d bytes, and there is a newer one; a file takes %d", number, info.Size(), l.size)
		}
	}
	// The last ones are those that were said last, over more than one file.
	lines, err := Last(filepath.Join(dir, "logs"), "1-1", 5000)
	must(t, err)
	if len(lines) != 5000 || lines[0].Text != "00025" || lines[4999].Text != "00029" {
		t.Errorf("%d lines from %q", len(lines), texts(lines[:min(1, len(lines))]))
	}
	lines, err = Last(filepath.Join(dir, "logs"), "1-1", 1_000_000)
	if err != nil || len(lines) < 5000 || !slices.IsSorted(texts(lines)) {
		t.Errorf("all: %d lines (%v)", len(lines), err)
	}
	// Fewer files from now on.
	l.files = 2
	here(t, dir, l).finish(t, true)
	if _, files := sizeOf(t, c.place.files); files != 2 {
		t.Errorf("%d files", files)
	}
}

func TestAStartGoesOnInTheSameFiles(t *testing.T) {
	c := site(t, MinSize, 2)
	client := started(t, c)
	for i, keep := range []bool{true, true, false} {
		fifos, err := client.Open(t.Context(), "1-1", "")
		must(t, err)
		again, err := client.Open(t.Context(), "1-1", "")
		if err != nil || again != fifos {
			t.Errorf("opened again: %v %v", again, err)
		}
		say(t, shim(t, fifos.Stdout), fmt.Sprintf("start %d\nno end", i))
		must(t, client.Drop(t.Context(), "1-1", keep))
		if _, err := os.Stat(filepath.Dir(fifos.Stdout)); !os.IsNotExist(err) {
			t.Errorf("the FIFOs stay: %v", err)
		}
		if keep {
			if got := last(t, c, "1-1", 10); len(got) != 2*(i+1) || got[2*i].Text != fmt.Sprint("start ", i) {
				t.Errorf("after start %d: %q", i, texts(got))
			}
		}
	}
	_, err := Last(c.Dir, "1-1", 1)
	wants(t, node.NotExist, "there are none", err)
	must(t, client.Drop(t.Context(), "1-1", false))
	must(t, client.Drop(t.Context(), "1-1", true))
	left, err := os.ReadDir(c.Dir)
	if err != nil || len(left) != 0 {
		t.Errorf("left: %v %v", left, err)
	}
}

func TestRemovedFIFOsAndFilesAreMadeAgain(t *testing.T) {
	c := site(t, MinSize, 2)
	client := started(t, c)
	fifos, err := client.Open(t.Context(), "1-1", "")
	must(t, err)
	must(t, os.RemoveAll(filepath.Dir(fifos.Stdout)))
	fifos, err = client.Open(t.Context(), "1-1", "")
	must(t, err)
	out := shim(t, fifos.Stdout)
	say(t, out, "one\n")
	until(t, "the first line", func() bool { return len(last(t, c, "1-1", 10)) == 1 })
	must(t, os.RemoveAll(filepath.Join(c.Dir, "1-1")))
	say(t, out, "two\n")
	until(t, "the second line", func() bool {
		lines, err := Last(c.Dir, "1-1", 10)
		return err == nil && strings.Join(texts(lines), "|") == "two"
	})
	// Something else in its place isn't taken.
	must(t, client.Drop(t.Context(), "1-1", false))
	must(t, os.MkdirAll(filepath.Join(filepath.Dir(fifos.Stdout)), 0o700))
	must(t, os.WriteFile(fifos.Stdout, []byte("precious"), 0o600))
	_, err = client.Open(t.Context(), "1-1", "")
	wants(t, node.Exist, "it is no FIFO", err)
}

// A write that failed is noted before the container's other stream can write at its place:
// a successor would take that record for the failed one.
func TestFailureIsNotedBeforeTheNextWrite(t *testing.T) {
	f, err := openFiles(t.TempDir(), 1<<20, 3)
	if err != nil {
		t.Fatal(err)
	}
	nothing := func() {}
	if err := f.append([]byte("one\n"), func(int64, int64) {}, nothing); err != nil {
		t.Fatal(err)
	}
	f.file.Close() // the next write fails
	noted := false
	err = f.append([]byte("two\n"), func(int64, int64) {}, func() {
		noted = true
		if f.mu.TryLock() {
			t.Error("the failure is noted when the place is free already")
		}
	})
	if err == nil || !noted {
		t.Errorf("a write to a closed file: %v, noted %v", err, noted)
	}
}
