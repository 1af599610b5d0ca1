package croft_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestTestLog holds the end of make test: the closing line and the exit code, also of a
// log that is longer than a pipe.
func TestTestLog(t *testing.T) {
	pass := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, "=== RUN   TestWithALongNameThatFillsPipes%d\n--- PASS: TestWithALongNameThatFillsPipes%d (%d.50s)\n", i, i, i%97)
		}
		return b.String() + "ok  \texample.com/long\t12.500s\n"
	}
	for name, c := range map[string]struct {
		log, end string
		fails    bool
	}{
		"all pass":        {pass(4000), "4000 passed, 0 failed, 0 skipped", false},
		"one fails":       {pass(4000) + "--- FAIL: TestBad (0.10s)\n", "4000 passed, 1 failed, 0 skipped", true},
		"a package fails": {pass(10) + "FAIL\texample.com/bad [build failed]\n", "10 passed, 1 failed, 0 skipped", true},
		"one is skipped":  {pass(10) + "--- SKIP: TestIdle (0.00s)\n", "10 passed, 0 failed, 1 skipped", true},
		"a child races":   {pass(10) + "    node.go:1: WARNING: DATA RACE\n", "10 passed, 1 failed, 0 skipped", true},
		"none runs":       {"?   \texample.com/none\t[no test files]\n", "0 passed, 0 failed, 0 skipped", true},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := exec.Command("bootstrap/testlog")
			cmd.Env = append(os.Environ(), "TEST_LOG="+filepath.Join(t.TempDir(), "test.log"))
			cmd.Stdin = strings.NewReader(c.log)
			out, err := cmd.CombinedOutput()
			lines := strings.Split(strings.TrimSpace(string(out)), "\n")
			if lines[len(lines)-1] != c.end || (err != nil) != c.fails {
				t.Errorf("it ends with %q, %v; want %q, failure %v", lines[len(lines)-1], err, c.end, c.fails)
			}
		})
	}
}
