package fileid_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/pkg/fileid"
)

func idOf(t *testing.T, path string) fileid.ID {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	id, err := fileid.Of(file)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// A change that keeps the size and puts the time of modification back is seen all the same.
func TestChangesAreSeen(t *testing.T) {
	dir := t.TempDir()
	one, other := filepath.Join(dir, "one"), filepath.Join(dir, "other")
	write := func(path, text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(one, "text")
	write(other, "text")
	before := idOf(t, one)
	if again := idOf(t, one); again != before {
		t.Errorf("the same file is %+v, then %+v", before, again)
	}
	if at, err := fileid.At(one); err != nil || at != before {
		t.Errorf("by its path it is %+v, %v; open %+v", at, err, before)
	}
	if idOf(t, other) == before {
		t.Error("another file has the same ID")
	}
	info, err := os.Stat(one)
	if err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); idOf(t, one) == before; { // the kernel's clock of files has ticks
		if time.Now().After(deadline) {
			t.Fatal("the change isn't seen")
		}
		write(one, "TEXT")
		if err := os.Chtimes(one, time.Time{}, info.ModTime()); err != nil {
			t.Fatal(err)
		}
	}
}

// By its path a link is itself, and what isn't there is an error.
func TestAt(t *testing.T) {
	dir := t.TempDir()
	file, link := filepath.Join(dir, "file"), filepath.Join(dir, "link")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(file, link); err != nil {
		t.Fatal(err)
	}
	of, err := fileid.At(file)
	if err != nil {
		t.Fatal(err)
	}
	if at, err := fileid.At(link); err != nil || at == of {
		t.Errorf("the link is %+v, %v; the file %+v", at, err, of)
	}
	if at, err := fileid.At(filepath.Join(dir, "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("what isn't there is %+v, %v", at, err)
	}
}

func TestClosedFile(t *testing.T) {
	file, err := os.Create(filepath.Join(t.TempDir(), "a"))
	if err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	if id, err := fileid.Of(file); err == nil {
		t.Errorf("a closed file is %+v", id)
	}
}

func TestSum(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	if _, err := fileid.Sum(path); !os.IsNotExist(errors.Cause(err)) {
		t.Errorf("a file that isn't there: %v", err)
	}
	if err := os.WriteFile(path, []byte("abc"), 0o600); err != nil {
		t.Fatal(err)
	}
	// The example of FIPS 180-2, appendix B.1.
	if got, err := fileid.Sum(path); err != nil || got != "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" {
		t.Errorf("the sum is %s, %v", got, err)
	}
}
