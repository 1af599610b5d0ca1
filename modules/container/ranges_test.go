package container

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A user's range of IDs is given back once the last container and its layer are removed.
func TestIDRangeIsGivenBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.spec("1-1", "serve", "hello")
	// A user's name leads to the range: a process of another test's container of the same user would keep it.
	s.User = "user-" + random()
	w.runs(s)
	holds := func() bool {
		raw, err := os.ReadFile(filepath.Join(w.cfg.StateDir, "ranges.json"))
		must(t, err)
		return strings.Contains(string(raw), `"`+s.User+`"`)
	}
	if !holds() {
		t.Fatal("who has a container has no range")
	}
	must(t, w.Delete("1-1"))
	if !holds() {
		t.Error("the range is given back while the layer is there")
	}
	must(t, os.RemoveAll(s.Layer))
	eventually(t, "the range is given back", func() bool { return !holds() })
}
