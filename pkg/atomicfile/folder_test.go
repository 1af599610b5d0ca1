package atomicfile_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/pkg/atomicfile"
	"github.com/croft-edge/croft/pkg/atomicfile/faulty"
)

func openFolder(t *testing.T, path string, hook atomicfile.Hook) *atomicfile.Folder {
	t.Helper()
	f, err := atomicfile.Open(path, hook)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// content is the content of a folder, temporary files too.
func content(t *testing.T, path string) string {
	t.Helper()
	entries, err := os.ReadDir(path)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range entries {
		data, err := os.ReadFile(filepath.Join(path, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, e.Name()+"="+string(data))
	}
	return strings.Join(out, " ")
}

func TestWriteReadRemove(t *testing.T) {
	root := filepath.Join(t.TempDir(), "a", "b")
	f := openFolder(t, root, nil)
	for _, want := range []string{"one", "two, longer", ""} {
		if err := f.Write("x", []byte(want)); err != nil {
			t.Fatal(err)
		}
		if got, err := f.Read("x"); err != nil || string(got) != want {
			t.Errorf("read %q, %v, want %q", got, err, want)
		}
	}
	if err := f.WriteAll([]atomicfile.File{{Name: "y", Data: []byte("1")}, {Name: "z", Data: []byte("2")}}); err != nil {
		t.Fatal(err)
	}
	if got := content(t, root); got != "x= y=1 z=2" {
		t.Errorf("the folder holds %q", got)
	}
	if err := f.Remove("x", "not there", "y"); err != nil {
		t.Fatal(err)
	}
	if names, err := f.Names(); err != nil || strings.Join(names, " ") != "z" {
		t.Errorf("names %v, %v", names, err)
	}
	if info, err := os.Stat(filepath.Join(root, "z")); err != nil || info.Mode().Perm() != atomicfile.Mode {
		t.Errorf("%v, %v", info, err)
	}
	if _, err := f.Read("x"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("reading what isn't there: %v", err)
	}
}

// The next open removes the temporary files of a crash, and nothing else.
func TestStaleTemporariesAreRemoved(t *testing.T) {
	root := t.TempDir()
	for name, data := range map[string]string{".tmp-x": "torn", ".hidden": "kept", "x": "kept"} {
		if err := os.WriteFile(filepath.Join(root, name), []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	f := openFolder(t, root, nil)
	if got := content(t, root); got != ".hidden=kept x=kept" {
		t.Errorf("the folder holds %q", got)
	}
	if names, _ := f.Names(); strings.Join(names, " ") != ".hidden x" {
		t.Errorf("names %v", names)
	}
}

func TestMove(t *testing.T) {
	root := t.TempDir()
	from, to := openFolder(t, filepath.Join(root, "from"), nil), openFolder(t, filepath.Join(root, "to"), nil)
	if err := from.Write("x", []byte("1")); err != nil {
		t.Fatal(err)
	}
	if err := from.Move("x", to, "y"); err != nil {
		t.Fatal(err)
	}
	if a, b := content(t, filepath.Join(root, "from")), content(t, filepath.Join(root, "to")); a != "" || b != "y=1" {
		t.Errorf("from holds %q, to holds %q", a, b)
	}
	if err := from.Move("x", to, "y"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("moving what isn't there: %v", err)
	}
}

// act is one change of the folder; both files are old before it.
type act struct {
	name string
	do   func(*atomicfile.Folder) error
	// mayBe are the contents that a crash may leave, the last one is the act's own.
	mayBe []string
}

func acts() []act {
	return []act{
		{"write", func(f *atomicfile.Folder) error { return f.Write("a", []byte("new")) }, []string{"a=old b=old", "a=new b=old"}},
		{"write new", func(f *atomicfile.Folder) error { return f.Write("c", []byte("new")) }, []string{"a=old b=old", "a=old b=old c=new"}},
		{"write all", func(f *atomicfile.Folder) error {
			return f.WriteAll([]atomicfile.File{{Name: "a", Data: []byte("new")}, {Name: "b", Data: []byte("new")}})
		}, []string{"a=old b=old", "a=new b=old", "a=new b=new"}},
		{"remove", func(f *atomicfile.Folder) error { return f.Remove("a", "b") }, []string{"a=old b=old", "b=old", ""}},
	}
}

// A process that dies before or after any step, with or without the power,
// leaves the old content or the new, and the next open finds nothing torn.
func TestDyingAtEveryStep(t *testing.T) {
	points := 0
	for _, a := range acts() {
		for n := 0; ; n++ {
			fired := false
			for kept := -1; kept <= 3; kept++ { // -1: the process dies, the power stays
				root := t.TempDir()
				disk := faulty.New()
				f := prepared(t, root, disk)
				disk.DieAt(n)
				err := a.do(f)
				if fired = disk.Fired().Op != ""; !fired {
					durable(t, a, root, disk)
					break
				}
				if err == nil {
					t.Fatalf("%s: no error although it died at %v", a.name, disk.Fired())
				}
				if kept >= 0 {
					if err := disk.CutPower(kept); err != nil {
						t.Fatal(err)
					}
				}
				points++
				openFolder(t, root, nil)
				if got := content(t, root); !contains(a.mayBe, got) {
					t.Errorf("%s: died at %v, power cut %d: the folder holds %q, want one of %q", a.name, disk.Fired(), kept, got, a.mayBe)
				}
				if wrong := disk.Wrong(); len(wrong) > 0 {
					t.Errorf("%s: %v", a.name, wrong)
				}
			}
			if !fired {
				break
			}
		}
	}
	t.Logf("%d deaths", points)
	if points < 100 {
		t.Errorf("only %d deaths: the steps aren't seen", points)
	}
}

// durable checks that the act's changes survive a power cut right after it.
func durable(t *testing.T, a act, root string, disk *faulty.Disk) {
	t.Helper()
	if n := disk.Volatile(); n != 0 {
		t.Errorf("%s: %d changes aren't durable on return", a.name, n)
	}
	if err := disk.CutPower(0); err != nil {
		t.Fatal(err)
	}
	if got, want := content(t, root), a.mayBe[len(a.mayBe)-1]; got != want {
		t.Errorf("%s: after it and a power cut the folder holds %q, want %q", a.name, got, want)
	}
}

func prepared(t *testing.T, root string, disk *faulty.Disk) *atomicfile.Folder {
	t.Helper()
	f := openFolder(t, root, disk.Hook)
	if err := f.WriteAll([]atomicfile.File{{Name: "a", Data: []byte("old")}, {Name: "b", Data: []byte("old")}}); err != nil {
		t.Fatal(err)
	}
	return f
}

func contains(all []string, one string) bool {
	for _, s := range all {
		if s == one {
			return true
		}
	}
	return false
}

// An error of the disk at any step is returned unchanged; before the renames
// nothing is changed, and the next try succeeds.
func TestFailingAtEveryStep(t *testing.T) {
	for _, cause := range []error{unix.ENOSPC, unix.EIO} {
		for _, a := range acts() {
			for n := 0; ; n++ {
				root := t.TempDir()
				disk := faulty.New()
				f := prepared(t, root, disk)
				disk.FailAt(n, cause)
				err := a.do(f)
				at := disk.Fired()
				if at.Op == "" {
					break
				}
				if !errors.Is(err, cause) {
					t.Fatalf("%s: %v at %v surfaces as %v", a.name, cause, at, err)
				}
				got := content(t, root)
				if early := at.Op == atomicfile.Write || at.Op == atomicfile.Sync; early && got != a.mayBe[0] {
					t.Errorf("%s: after %v at %v the folder holds %q, want %q", a.name, cause, at, got, a.mayBe[0])
				}
				if err := a.do(f); err != nil {
					t.Errorf("%s: after %v at %v the next try fails: %v", a.name, cause, at, err)
				}
				if got, want := content(t, root), a.mayBe[len(a.mayBe)-1]; got != want {
					t.Errorf("%s: after the next try the folder holds %q, want %q", a.name, got, want)
				}
			}
		}
	}
}

// A full file system, a real one: nothing is changed, and nothing is left.
func TestFullFileSystem(t *testing.T) {
	root := t.TempDir()
	if err := unix.Mount("croft-test", root, "tmpfs", 0, "size=256k"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(root, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	f, err := atomicfile.Open(filepath.Join(root, "f"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Write("a", []byte("old")); err != nil {
		t.Fatal(err)
	}
	err = f.Write("a", make([]byte, 1<<20))
	if !errors.Is(err, unix.ENOSPC) {
		t.Fatalf("writing too much: %v, want ENOSPC", err)
	}
	if got := content(t, filepath.Join(root, "f")); got != "a=old" {
		t.Errorf("the folder holds %d bytes: %.40q", len(got), got)
	}
	if err := f.Write("a", []byte("new")); err != nil {
		t.Errorf("writing what fits, after that: %v", err)
	}
}

func TestWriteFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "seed")
	for i := range 2 {
		want := fmt.Sprint("content ", i)
		if err := atomicfile.WriteFile(path, []byte(want), 0o400); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(path)
		if err != nil || info.Mode().Perm() != 0o400 {
			t.Errorf("%v, %v, want mode 0400", info, err)
		}
		if got, _ := os.ReadFile(path); string(got) != want {
			t.Errorf("it holds %q, want %q", got, want)
		}
	}
	if got := content(t, filepath.Dir(path)); got != "seed=content 1" {
		t.Errorf("the folder holds %q", got)
	}
	if err := atomicfile.WriteFile(filepath.Join(t.TempDir(), "no", "folder"), nil, 0o600); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without the folder: %v", err)
	}
}

// A batch of more files than are open at once is whole, or leaves nothing.
func TestLargeBatch(t *testing.T) {
	root := t.TempDir()
	fails := ""
	f := openFolder(t, root, func(p atomicfile.Point) error {
		if fails != "" && p.Op == atomicfile.Sync && p.Path == filepath.Join(root, fails) {
			return unix.EIO
		}
		return nil
	})
	var files []atomicfile.File
	for i := range 150 {
		files = append(files, atomicfile.File{Name: fmt.Sprint(i), Data: []byte(fmt.Sprint("old", i))})
	}
	if err := f.WriteAll(files); err != nil {
		t.Fatal(err)
	}
	before := content(t, root)
	if n := strings.Count(before, "=old"); n != 150 {
		t.Fatalf("%d files were written", n)
	}
	for i := range files {
		files[i].Data = []byte("new")
	}
	for _, fails = range []string{".tmp-0", ".tmp-63", ".tmp-64", ".tmp-149"} {
		if err := f.WriteAll(files); !errors.Is(err, unix.EIO) || !strings.Contains(err.Error(), "cannot write") {
			t.Errorf("%s: %v", fails, err)
		}
		if after := content(t, root); after != before {
			t.Errorf("%s: the folder holds %s", fails, after)
		}
	}
}
