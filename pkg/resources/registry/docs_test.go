package registry_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/cosi-project/runtime/pkg/resource/meta"

	"github.com/croft-edge/croft/pkg/resources/registry"
	"github.com/croft-edge/croft/pkg/resources/work"
)

const page = "../../../docs/state.md"

// TestStatePage: the page's tables of types and of reasons are the code's. WRITE_DOCS=1 writes them.
func TestStatePage(t *testing.T) {
	types := "| type | aliases | namespace |\n|---|---|---|\n"
	for _, each := range registry.Types() {
		d, err := meta.NewResourceDefinition(each.ResourceDefinition())
		if err != nil {
			t.Fatal(err)
		}
		s := d.TypedSpec()
		types += fmt.Sprintf("| `%s` | %s | `%s` |\n", s.Type, strings.Join(s.Aliases, ", "), s.DefaultNamespace)
	}
	reasons := "| reason | kind | operation | what has happened |\n|---|---|---|---|\n"
	for _, r := range work.Reasons() {
		reasons += fmt.Sprintf("| `%s` | %s | %s | %s |\n", r.Name, r.Kind, r.Operation, r.Meaning)
	}
	raw, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	text := string(raw)
	for name, table := range map[string]string{"types": types, "reasons": reasons} {
		begin, rest, found := strings.Cut(text, "<!-- "+name+": ")
		mark, rest, opened := strings.Cut(rest, " -->\n")
		shown, end, closed := strings.Cut(rest, "<!-- /"+name+" -->")
		if !found || !opened || !closed {
			t.Fatalf("%s has no place for the table of %s", page, name)
		}
		if shown != table && os.Getenv("WRITE_DOCS") == "" {
			t.Errorf("%s: the table of %s is stale: run this test with WRITE_DOCS=1", page, name)
		}
		text = begin + "<!-- " + name + ": " + mark + " -->\n" + table + "<!-- /" + name + " -->" + end
	}
	if os.Getenv("WRITE_DOCS") != "" {
		if err := os.WriteFile(page, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
