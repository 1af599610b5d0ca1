package container

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestAUserWithoutContainersHoldsNothing waits for the range of user IDs to be
// given back after the container and, by whoever made it, the layer have gone.
func TestAUserWithoutContainersHoldsNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.spec("1-1", "serve", "hello")
	w.runs(s)
	holds := func() bool {
		raw, err := os.ReadFile(filepath.Join(w.cfg.StateDir, "ranges.json"))
		must(t, err)
		return strings.Contains(string(raw), `"ada"`)
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
