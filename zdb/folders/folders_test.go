package folders_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/croft-edge/croft/zdb/folders"
)

// TestLeftFoldersAreOutOfTheWay: what an earlier process left is removed beside the server's work, while a new
// namespace or generation takes the same path.
func TestLeftFoldersAreOutOfTheWay(t *testing.T) {
	t.Parallel()
	for _, separate := range []bool{false, true} {
		data := t.TempDir()
		index := data
		if separate {
			index = t.TempDir()
		}
		f, err := folders.Open(data, index)
		must(t, err)
		must(t, f.Make(1, folders.Descriptor{Name: "one", Generation: 1}))
		// A crash in NSNEW, one in NSDEL, and one in FLUSH.
		must(t, os.MkdirAll(filepath.Join(data, ".new-2/1"), 0o700))
		if separate {
			must(t, os.MkdirAll(filepath.Join(index, "2/1"), 0o700))
		}
		must(t, f.MakeGeneration(1, 2))

		numbers, left, err := f.Numbers()
		must(t, err)
		if len(numbers) != 1 || numbers[0] != 1 {
			t.Errorf("namespaces %v", numbers)
		}
		others, err := f.Others(1, 1)
		must(t, err)
		must(t, f.Make(2, folders.Descriptor{Name: "two", Generation: 1}))
		must(t, f.MakeGeneration(1, 2))
		left = append(left, others...)
		if want := map[bool]int{false: 2, true: 4}[separate]; len(left) != want {
			t.Errorf("%d folders are left, want %d: %v", len(left), want, left)
		}
		for _, path := range left {
			if _, err := os.Stat(path); err != nil {
				t.Error(err)
			}
			must(t, os.RemoveAll(path))
		}
		for number, generation := range map[int]uint64{1: 2, 2: 1} {
			inData, inIndex := f.Store(number, generation)
			for _, path := range []string{inData, inIndex} {
				if _, err := os.Stat(path); err != nil {
					t.Errorf("separate %v: %v", separate, err)
				}
			}
		}
		f.Close()
	}
}

// TestLeftFolderThatCannotBeRenamed: a left folder whose rename is refused, as a full disk may do (here the new
// name is longer than file names may be), is removed at once; the server starts.
func TestLeftFolderThatCannotBeRenamed(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	f, err := folders.Open(data, data)
	must(t, err)
	defer f.Close()
	must(t, f.Make(1, folders.Descriptor{Name: "one", Generation: 1}))
	const longestFileName = 255
	path := filepath.Join(data, ".new-"+strings.Repeat("2", longestFileName-len(".new-")))
	must(t, os.MkdirAll(filepath.Join(path, "1"), 0o700))

	numbers, left, err := f.Numbers()
	must(t, err)
	if len(numbers) != 1 || len(left) != 0 {
		t.Errorf("namespaces %v, left %v; want only namespace 1, and nothing left", numbers, left)
	}
	if _, err := os.Lstat(path); !os.IsNotExist(err) {
		t.Errorf("the folder is still there: %v", err)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
