package web_test

import (
	"os/exec"
	"regexp"
	"strconv"
	"testing"
)

// The page's own JavaScript has table tests of its own, which node runs.
func TestTheTerminalInThePage(t *testing.T) {
	for file, least := range map[string]int{"emulator.test.mjs": 150, "page.test.mjs": 20} {
		t.Run(file, func(t *testing.T) {
			out, err := exec.CommandContext(t.Context(), "node", "testdata/"+file).CombinedOutput()
			if err != nil {
				t.Errorf("%v\n%s", err, out)
			}
			found := regexp.MustCompile(`(?m)^(\d+) cases, 0 failed$`).FindSubmatch(out)
			if found == nil {
				t.Fatalf("it doesn't say that all is well:\n%s", out)
			}
			if n, _ := strconv.Atoi(string(found[1])); n < least {
				t.Errorf("only %d cases ran, there are at least %d", n, least)
			}
		})
	}
}
