package croft_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"sync"
	"testing"
)

const module = "github.com/croft-edge/croft/"

// goFile is a parsed source file, its path relative to the module's root.
type goFile struct {
	path  string
	lines int
	test  bool
	file  *ast.File
	fset  *token.FileSet
}

func (f goFile) dir() string { return filepath.ToSlash(filepath.Dir(f.path)) }

func (f goFile) generated() bool { return ast.IsGenerated(f.file) }

// sourceFiles are all Go files, parsed rather than listed by the go command, so that a broken
// rule is seen whatever the test cache believes.
func sourceFiles(t *testing.T) []goFile {
	t.Helper()
	out, err := parsedFiles()
	if err != nil {
		t.Fatal(err)
	}
	if len(out) < 20 {
		t.Fatalf("found only %d Go files: the walk is broken", len(out))
	}
	return out
}

// parsedFiles parses the files once for all tests of the tree, which only read them.
var parsedFiles = sync.OnceValues(parseFiles)

func parseFiles() ([]goFile, error) {
	var out []goFile
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == "testdata" || d.Name() == "bin" || (strings.HasPrefix(d.Name(), ".") && path != ".")) {
			return filepath.SkipDir
		}
		if filepath.Ext(path) != ".go" {
			return nil
		}
		src, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, path, src, parser.ParseComments)
		if err != nil {
			return err
		}
		out = append(out, goFile{
			path: filepath.ToSlash(path), lines: strings.Count(string(src), "\n"),
			test: strings.HasSuffix(path, "_test.go"), file: file, fset: fset,
		})
		return nil
	})
	return out, err
}

// mayNotImport says, for a folder of the house, which others it never sees.
// A rule ends in "/": it names all below it.
var mayNotImport = map[string][]string{
	"pkg/":       {"provision/", "modules/", "explorer/", "zdb/", "cmd/", "bootstrap/"},
	"provision/": {"modules/", "explorer/", "zdb/", "cmd/", "bootstrap/"},
	"modules/":   {"provision/", "explorer/", "zdb/", "cmd/", "bootstrap/"},
	"explorer/":  {"provision/", "modules/", "zdb/", "cmd/", "bootstrap/"},
	"zdb/":       {"provision/", "modules/", "explorer/", "cmd/", "bootstrap/"},
}

// testSupport holds what only tests, the demo, and test support itself import.
const testSupport = "internal/testing/"

func TestImportsGoOneWay(t *testing.T) {
	for _, f := range sourceFiles(t) {
		if f.test {
			continue
		}
		for _, spec := range f.file.Imports {
			path, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			imported, ours := strings.CutPrefix(path, module)
			if !ours {
				continue
			}
			if why := forbidden(f.path, imported+"/"); why != "" {
				t.Errorf("%s imports %s: %s", f.path, imported, why)
			}
		}
	}
}

func forbidden(file, imported string) string {
	for from, denied := range mayNotImport {
		if !strings.HasPrefix(file, from) {
			continue
		}
		for _, d := range denied {
			if strings.HasPrefix(imported, d) {
				return from + " never imports " + d
			}
		}
	}
	if strings.HasPrefix(imported, testSupport) && !strings.HasPrefix(file, testSupport) && !strings.HasPrefix(file, "bootstrap/") {
		return "only tests and the demo import " + testSupport
	}
	if a, b := moduleOf(file), moduleOf(imported); a != "" && b != "" && a != b {
		return "modules never import modules"
	}
	below := strings.HasPrefix(file, "provision/") && strings.Count(file, "/") > 1
	if below && imported == "provision/" {
		return "nothing below provision imports its root"
	}
	return ""
}

// moduleOf is the name of the module that a path below modules/ belongs to.
func moduleOf(path string) string {
	rest, ok := strings.CutPrefix(path, "modules/")
	if !ok {
		return ""
	}
	name, _, _ := strings.Cut(rest, "/")
	return name
}

func TestOnlyDefaultsKnowsStubsAndZbus(t *testing.T) {
	for _, f := range sourceFiles(t) {
		if f.test || !strings.HasPrefix(f.path, "provision/") || f.path == "provision/seed/defaults.go" || f.path == "provision/api.go" || f.path == "provision/wiring.go" {
			continue
		}
		for _, spec := range f.file.Imports {
			if strings.Contains(spec.Path.Value, "threefoldtech/zbus") || strings.Contains(spec.Path.Value, "pkg/node/stubs") {
				t.Errorf("%s imports %s: only provision/seed/defaults.go knows the bus", f.path, spec.Path.Value)
			}
		}
	}
}

func TestEveryPackageHasOneComment(t *testing.T) {
	comments := map[string][]string{}
	dirs := map[string]bool{}
	for _, f := range sourceFiles(t) {
		if f.test || f.dir() == "." {
			continue
		}
		dirs[f.dir()] = true
		if f.file.Doc != nil && !f.generated() {
			comments[f.dir()] = append(comments[f.dir()], f.path)
		}
	}
	for dir := range dirs {
		if n := len(comments[dir]); n != 1 {
			t.Errorf("%s has %d package comments, must have 1: %v", dir, n, comments[dir])
		}
	}
}

func TestNamesSaySomething(t *testing.T) {
	empty := map[string]bool{"util": true, "utils": true, "common": true, "helper": true, "helpers": true, "types": true, "misc": true, "base": true}
	for _, f := range sourceFiles(t) {
		if name := f.file.Name.Name; empty[name] {
			t.Errorf("%s: package %s says nothing", f.path, name)
		}
	}
}

func TestFilesAreShort(t *testing.T) {
	const most, wantMedian = 500, 160
	var sizes []int
	for _, f := range sourceFiles(t) {
		if f.generated() {
			continue
		}
		if f.lines > most {
			t.Errorf("%s has %d lines, at most %d are allowed", f.path, f.lines, most)
		}
		sizes = append(sizes, f.lines)
	}
	sort.Ints(sizes)
	if m := sizes[len(sizes)/2]; m > wantMedian {
		t.Errorf("the median file has %d lines, at most %d are wanted", m, wantMedian)
	}
}

func TestNoInitAndNoPackageState(t *testing.T) {
	for _, f := range sourceFiles(t) {
		if f.test || f.generated() {
			continue
		}
		for _, d := range f.file.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.Name == "init" {
				t.Errorf("%s: init() is not used here", f.path)
			}
		}
	}
}

func TestFunctionsTakeFewParameters(t *testing.T) {
	for _, f := range sourceFiles(t) {
		if f.test || f.generated() {
			continue
		}
		for _, d := range f.file.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Body == nil {
				continue
			}
			if n := fn.Type.Params.NumFields(); n > 5 {
				t.Errorf("%s: %s has %d parameters, at most 5 are allowed: use a Config", f.path, fn.Name.Name, n)
			}
			if n := f.fset.Position(fn.End()).Line - f.fset.Position(fn.Pos()).Line; n > 80 {
				t.Errorf("%s: %s has %d lines", f.path, fn.Name.Name, n)
			}
		}
	}
}

func TestNothingSkips(t *testing.T) {
	for _, f := range sourceFiles(t) {
		if !f.test {
			continue
		}
		ast.Inspect(f.file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			if sel, ok := call.Fun.(*ast.SelectorExpr); ok {
				switch sel.Sel.Name {
				case "Skip", "Skipf", "SkipNow", "Short":
					if id, ok := sel.X.(*ast.Ident); ok && (id.Name == "t" || id.Name == "b" || id.Name == "tb" || id.Name == "testing") {
						t.Errorf("%s: %s.%s: no test is skipped", f.path, id.Name, sel.Sel.Name)
					}
				}
			}
			return true
		})
	}
}

// mostFiles is how many files beside tests a package may have: one person holds a
// room of that size in the head.
const mostFiles = 20

// crowded are the packages that may have more files, and why.
func crowded() map[string]string {
	return map[string]string{
		"pkg/node/stubs": "generated: a file for each contract",
	}
}

func TestPackagesAreSmall(t *testing.T) {
	files := map[string]int{}
	for _, f := range sourceFiles(t) {
		if !f.test {
			files[f.dir()]++
		}
	}
	exceptions := crowded()
	for dir, n := range files {
		if n <= mostFiles {
			continue
		}
		if exceptions[dir] == "" {
			t.Errorf("%s has %d files beside tests, at most %d are allowed: give a part of it a package of its own", dir, n, mostFiles)
		}
		delete(exceptions, dir)
	}
	for dir := range exceptions {
		t.Errorf("%s needs no exception any more", dir)
	}
}

// TestNoProgramLiesAmongTheSources: programs are built into bin/. One beside the sources would be committed with them.
func TestNoProgramLiesAmongTheSources(t *testing.T) {
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == "bin" || (strings.HasPrefix(d.Name(), ".") && path != ".")) {
			return filepath.SkipDir
		}
		if !d.Type().IsRegular() {
			return nil
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		if magic := make([]byte, 4); readFull(f, magic) && string(magic) == "\x7fELF" {
			t.Errorf("%s is a program: programs are built into bin/", path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func readFull(r io.Reader, b []byte) bool {
	_, err := io.ReadFull(r, b)
	return err == nil
}
