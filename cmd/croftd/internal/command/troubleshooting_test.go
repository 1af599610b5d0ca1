package command_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// sources is the source text of all programs, without tests and generated files.
func sources(t *testing.T) string {
	t.Helper()
	root := "../../../.."
	var all strings.Builder
	for _, dir := range []string{"cmd/croftd", "modules", "pkg", "provision"} {
		err := filepath.WalkDir(filepath.Join(root, dir), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			raw, err := os.ReadFile(path)
			all.Write(raw)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return all.String()
}

// TestTroubleshootingQuotes: a search of the page for a message must find it. A quoted
// message's fixed parts must follow each other in one line of the program, with its variable parts
// between them.
func TestTroubleshootingQuotes(t *testing.T) {
	raw, err := os.ReadFile("../../../../docs/troubleshooting.md")
	if err != nil {
		t.Fatal(err)
	}
	program := sources(t)
	checked := 0
	for line := range strings.Lines(string(raw)) {
		cell, isRow := strings.CutPrefix(line, "| `")
		if !isRow {
			continue
		}
		message, _, _ := strings.Cut(cell, "`")
		var parts []string
		for part := range strings.SplitSeq(message, "…") {
			parts = append(parts, regexp.QuoteMeta(part))
		}
		if !regexp.MustCompile(strings.Join(parts, ".*")).MatchString(program) {
			t.Errorf("nothing says %q", message)
		}
		checked++
	}
	if checked < 40 {
		t.Fatalf("only %d messages were found on the page", checked)
	}
}
