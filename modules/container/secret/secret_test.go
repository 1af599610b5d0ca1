package secret

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/pkg/limit"
	"github.com/croft-edge/croft/pkg/node"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func open(t *testing.T) (*Store, string) {
	t.Helper()
	run := t.TempDir()
	t.Cleanup(func() { must(t, TakeDown(run)) })
	s, err := Open(run)
	must(t, err)
	return s, run
}

func TestSecretsAreInMemory(t *testing.T) {
	s, run := open(t)
	path := s.Path("ada", "1-1")
	must(t, s.Put("ada", "1-1", map[string]string{"B": "two\nlines", "A": "1"}))
	raw, err := os.ReadFile(path)
	if err != nil || string(raw) != "A=1\x00B=two\nlines\x00" {
		t.Errorf("the file has %q, %v", raw, err)
	}
	var fs unix.Statfs_t
	must(t, unix.Statfs(path, &fs))
	info, err := os.Stat(filepath.Dir(path))
	must(t, err)
	if fs.Type != unix.TMPFS_MAGIC || info.Mode().Perm() != 0o700 {
		t.Errorf("it is on %x, in a folder of mode %o", fs.Type, info.Mode().Perm())
	}
	// The next process finds it, and leaves it where it is.
	again, err := Open(run)
	must(t, err)
	before, err := os.Stat(path)
	must(t, err)
	must(t, again.Put("ada", "1-1", map[string]string{"A": "1", "B": "two\nlines"}))
	if after, err := os.Stat(path); err != nil || !os.SameFile(before, after) {
		t.Errorf("the same secrets were written anew: %v", err)
	}
	must(t, again.Own("ada", "1-1", 70000, 70001))
	var st unix.Stat_t
	must(t, unix.Stat(path, &st))
	if st.Uid != 70000 || st.Gid != 70001 || st.Mode&0o777 != 0o400 {
		t.Errorf("it is of %d:%d, mode %o", st.Uid, st.Gid, st.Mode)
	}
	if all, err := again.List(); err != nil || !slices.Equal(all, []string{"1-1"}) {
		t.Errorf("there are those of %v, %v", all, err)
	}
	for range 2 {
		must(t, s.Remove("1-1"))
		must(t, s.Own("ada", "1-1", 1, 1))
	}
	if all, err := again.List(); err != nil || len(all) != 0 {
		t.Errorf("there are those of %v, %v", all, err)
	}
}

func TestOneUsersSecretsDontTakeAllMemory(t *testing.T) {
	s, _ := open(t)
	value := map[string]string{"A": strings.Repeat("x", 3<<20)}
	for _, id := range []string{"1-1", "1-2"} {
		must(t, s.Put("eve", id, value))
	}
	before := limit.Times()[Memory.Name]
	if err := s.Put("eve", "1-3", value); node.KindOf(err) != node.NoSpace || strings.Contains(err.Error(), "xxx") {
		t.Fatalf("the third: %.200v", err)
	}
	if limit.Times()[Memory.Name] != before+1 {
		t.Error("it isn't counted")
	}
	// The same container's again is none more, and an honest user has room.
	must(t, s.Put("eve", "1-2", map[string]string{"A": strings.Repeat("y", 3<<20)}))
	must(t, s.Put("ada", "2-1", value))
	var err error
	for i := range 40 {
		err = s.Put("user"+strings.Repeat("z", i), "3-1", value)
	}
	if node.KindOf(err) != node.NoSpace {
		t.Errorf("beyond the total: %v", err)
	}
}

func TestInvalidIDs(t *testing.T) {
	s, _ := open(t)
	for _, id := range []string{"", "..", "a/b", ".x", "a.new"} {
		if err := s.Put("ada", id, nil); node.KindOf(err) != node.Invalid {
			t.Errorf("%q: %v", id, err)
		}
		if err := s.Put(id, "1-1", nil); node.KindOf(err) != node.Invalid {
			t.Errorf("user %q: %v", id, err)
		}
	}
}
