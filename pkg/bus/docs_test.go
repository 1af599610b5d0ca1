package bus_test

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// The document names the test of each claim; none of these may be gone.
func TestTheTestsThatTheDocumentNamesExist(t *testing.T) {
	doc, err := os.ReadFile("../../docs/bus.md")
	if err != nil {
		t.Fatal(err)
	}
	sources := map[string]string{}
	for name, dir := range map[string]string{
		"": ".", "stubs.": "../node/stubs", "stubgen.": "stubgen", "transport.": "transport", "node.": "../node", "croftd.": "../../cmd/croftd",
		"identity.": "../../modules/identity", "monitor.": "../../modules/monitor",
	} {
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if strings.HasSuffix(e.Name(), "_test.go") {
				sources[name] += string(must(os.ReadFile(dir + "/" + e.Name())))
			}
		}
	}
	named := regexp.MustCompile("`([a-z]+\\.)?(Test\\w+)`").FindAllStringSubmatch(string(doc), -1)
	if len(named) < 25 {
		t.Errorf("only %d tests are named", len(named))
	}
	for _, n := range named {
		if !strings.Contains(sources[n[1]], "\nfunc "+n[2]+"(t *testing.T)") {
			t.Errorf("docs/bus.md names %s%s, which doesn't exist", n[1], n[2])
		}
	}
}
