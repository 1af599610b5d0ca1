package lifecycle_test

import (
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/croft-edge/croft/provision/lifecycle"
)

var update = flag.Bool("update", false, "write the table in docs/flow.md anew")

// The table of docs/flow.md is the one in the code. `make generate` writes it.
func TestTheDocumentShowsTheTable(t *testing.T) {
	const path, from, to = "../../docs/flow.md", "<!-- lifecycle table -->\n", "<!-- end -->"
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(raw), from)
	shown, after, ends := strings.Cut(rest, to)
	if !found || !ends {
		t.Fatalf("%s has no table between %q and %q", path, from, to)
	}
	want := lifecycle.Text()
	if shown == want {
		return
	}
	if !*update {
		t.Fatalf("%s shows another table than the one that is run: make generate writes it", path)
	}
	if err := os.WriteFile(path, []byte(before+from+want+to+after), 0o644); err != nil {
		t.Fatal(err)
	}
}

// The text is complete: it has every phase and every event, and explains every
// word.
func TestTheTableNamesEverything(t *testing.T) {
	text := lifecycle.Text()
	for _, p := range lifecycle.Phases() {
		if !strings.Contains(text, "| "+string(p)+" | ") || strings.Contains(text, "| "+string(p)+" |  |") {
			t.Errorf("phase %s isn't explained", p)
		}
	}
	for _, k := range lifecycle.Kinds() {
		if !strings.Contains(text, "| **"+string(k)+"** |") {
			t.Errorf("event %q changes nothing anywhere", k)
		}
	}
}
