package imagebuild

import (
	"strings"
	"testing"
)

// Commands don't see what makes them write other bytes, and their errors say what they printed.
func TestRun(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", "1")
	out, err := Run(t.Context(), "/", "sh", "-c", "pwd; echo $LC_ALL $SOURCE_DATE_EPOCH; echo problem >&2")
	if err != nil || string(out) != "/\nC\n" {
		t.Errorf("it prints %q, %v", out, err)
	}
	if _, err := Run(t.Context(), "", "sh", "-c", "echo problem >&2; exit 3"); err == nil || !strings.HasSuffix(err.Error(), ": exit status 3: problem") {
		t.Errorf("%v", err)
	}
}
