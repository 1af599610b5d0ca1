package spec_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// testsIn are the names of the tests of a package.
func testsIn(t *testing.T, dir string) map[string]bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]bool{}
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			if f, is := d.(*ast.FuncDecl); is && f.Recv == nil && strings.HasPrefix(f.Name.Name, "Test") {
				out[f.Name.Name] = true
			}
		}
	}
	return out
}

// The table of controls in docs/security.md names tests that exist, each test
// of a control is in it, and it has a line for each number of the benchmark.
func TestEveryControlIsInTheTable(t *testing.T) {
	const root = "../../.."
	text, err := os.ReadFile(filepath.Join(root, "docs/security.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(text), "## Containers, control by control\n")
	section, _, _ = strings.Cut(section, "\n## ")
	if !found {
		t.Fatal("docs/security.md has no section about containers")
	}
	tests, named := testsIn(t, "."), map[string]bool{}
	shown := regexp.MustCompile("`(Test[A-Za-z0-9]+)`(?: of `([a-z/]+)`)?")
	lines := 0
	for line := range strings.Lines(section) {
		cells := strings.Split(line, "|")
		if len(cells) != 5 || strings.HasPrefix(cells[1], "---") || cells[1] == " control " {
			continue
		}
		lines++
		if lines <= 32 && !strings.HasPrefix(cells[1], " 5."+strconv.Itoa(lines)+" ") {
			t.Errorf("line %d of the table is about%s", lines, cells[1])
		}
		for _, m := range shown.FindAllStringSubmatch(cells[3], -1) {
			switch {
			case m[2] != "" && !testsIn(t, filepath.Join(root, m[2]))[m[1]]:
				t.Errorf("%s has no %s, which is to show%s", m[2], m[1], cells[1])
			case m[2] == "" && !tests[m[1]]:
				t.Errorf("there is no %s here, which is to show%s", m[1], cells[1])
			}
			named[m[1]] = true
		}
		if !strings.Contains(cells[3], "Test") && strings.TrimSpace(cells[3]) != "" {
			t.Errorf("the line about%snames no test: %s", cells[1], cells[3])
		}
	}
	if lines < 33 {
		t.Errorf("the table has %d lines", lines)
	}
	for name := range tests {
		if strings.HasPrefix(name, "TestControl") && !named[name] {
			t.Errorf("%s shows a control that isn't in the table", name)
		}
	}
}
