package croft_test

import (
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/croft-edge/croft/pkg/limit"
)

// TestTheTableOfLimitsIsTheCodes holds the table of docs/security.md to the
// limit.Limit variables of the code: the same names, the same figures, and for
// each a test that exists.
func TestTheTableOfLimitsIsTheCodes(t *testing.T) {
	code, tests := limitsOfTheCode(t)
	rows := limitsOfTheTable(t)
	for name, l := range code {
		row, ok := rows[name]
		switch {
		case !ok:
			t.Errorf("docs/security.md has no row for the limit %s: %s", name, l)
		case row.figures != l.String():
			t.Errorf("docs/security.md says of the limit %s: %q, the code: %q", name, row.figures, l)
		}
	}
	for name, row := range rows {
		if _, ok := code[name]; !ok {
			t.Errorf("docs/security.md has the limit %s, no limit.Limit has that name", name)
		}
		if len(row.tests) == 0 {
			t.Errorf("docs/security.md names no test of the limit %s", name)
		}
		for _, test := range row.tests {
			if !tests[test] {
				t.Errorf("docs/security.md names the test %s of the limit %s, which isn't there", test, name)
			}
		}
	}
}

// limitRow is a row of the table: what it says the figures are, and its tests.
type limitRow struct {
	figures string
	tests   []string
}

var (
	limitCells = regexp.MustCompile("^\\| `([a-z0-9-]+)` \\|([^|]*)\\|([^|]*)\\|([^|]*)\\|([^|]*)\\|$")
	testNames  = regexp.MustCompile("`(Test[A-Za-z0-9_]+)`")
)

// limitsOfTheTable reads the table that begins with "| limit | of what |".
func limitsOfTheTable(t *testing.T) map[string]limitRow {
	t.Helper()
	text, err := os.ReadFile("docs/security.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]limitRow{}
	inside := false
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSuffix(line, "\n")
		switch {
		case strings.HasPrefix(line, "| limit | of what |"):
			inside = true
		case inside && strings.HasPrefix(line, "|---"):
		case inside && strings.HasPrefix(line, "|"):
			cells := limitCells.FindStringSubmatch(line)
			if cells == nil {
				t.Errorf("docs/security.md: a row of the table of limits isn't `name` and four cells: %s", line)
				continue
			}
			row := limitRow{figures: strings.TrimSpace(cells[3])}
			for _, found := range testNames.FindAllStringSubmatch(cells[5], -1) {
				row.tests = append(row.tests, found[1])
			}
			if _, twice := rows[cells[1]]; twice {
				t.Errorf("docs/security.md has the limit %s twice", cells[1])
			}
			rows[cells[1]] = row
		default:
			inside = false
		}
	}
	return rows
}

// limitsOfTheCode finds every limit.Limit literal with a Name, and the names of all
// test functions.
func limitsOfTheCode(t *testing.T) (map[string]limit.Limit, map[string]bool) {
	t.Helper()
	found, tests := map[string]limit.Limit{}, map[string]bool{}
	files := token.NewFileSet()
	err := filepath.WalkDir(".", func(path string, entry os.DirEntry, err error) error {
		if err != nil || !entry.IsDir() {
			if err != nil || !strings.HasSuffix(path, ".go") {
				return err
			}
		} else {
			if name := entry.Name(); name == "testdata" || name != "." && strings.HasPrefix(name, ".") {
				return filepath.SkipDir
			}
			return nil
		}
		file, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		test := strings.HasSuffix(path, "_test.go")
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				if test && n.Recv == nil {
					tests[n.Name.Name] = true
				}
			case *ast.CompositeLit:
				if test {
					return true
				}
				if l, ok := limitOf(t, files, n); ok {
					if _, twice := found[l.Name]; twice {
						t.Errorf("%s: there is another limit.Limit %s", files.Position(n.Pos()), l.Name)
					}
					found[l.Name] = l
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found, tests
}

// limitOf reads a literal limit.Limit, whose figures are constants without names.
func limitOf(t *testing.T, files *token.FileSet, lit *ast.CompositeLit) (limit.Limit, bool) {
	t.Helper()
	if sel, ok := lit.Type.(*ast.SelectorExpr); !ok || types.ExprString(sel) != "limit.Limit" || len(lit.Elts) == 0 {
		return limit.Limit{}, false
	}
	var l limit.Limit
	for _, elt := range lit.Elts {
		pair, ok := elt.(*ast.KeyValueExpr)
		if !ok {
			t.Errorf("%s: a limit.Limit must name its fields", files.Position(elt.Pos()))
			continue
		}
		field, value := types.ExprString(pair.Key), types.ExprString(pair.Value)
		if field == "Unit" {
			if value == "limit.Bytes" {
				l.Unit = limit.Bytes
			}
			continue
		}
		v, err := types.Eval(files, nil, token.NoPos, value)
		if err != nil || v.Value == nil {
			t.Errorf("%s: %s of a limit.Limit must be a constant in figures, is %s", files.Position(pair.Pos()), field, value)
			continue
		}
		switch field {
		case "Name":
			l.Name = constant.StringVal(v.Value)
		case "Per":
			l.Per = constant.StringVal(v.Value)
		default:
			n, _ := constant.Int64Val(v.Value)
			switch field {
			case "Each":
				l.Each = n
			case "Total":
				l.Total = n
			case "Kept":
				l.Kept = n
			}
		}
	}
	return l, true
}
