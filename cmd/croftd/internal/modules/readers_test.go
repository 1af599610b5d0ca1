package modules_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/croft-edge/croft/cmd/croftd/internal/config"
	"github.com/croft-edge/croft/cmd/croftd/internal/config/configtest"
	"github.com/croft-edge/croft/cmd/croftd/internal/module"
	"github.com/croft-edge/croft/cmd/croftd/internal/modules"
)

// TestTheProcessReadsWhatItSays: a setting whose field the process reads, outside of the modules' own folders, needs a
// restart of croftd. Modules' readings are held by the tests in their folders.
func TestTheProcessReadsWhatItSays(t *testing.T) {
	read := selectors(t)
	if !read["StopTimeout"] || !read["Containers.Layer"] || read["DNSServers"] {
		t.Fatalf("the files weren't read: %v", read)
	}
	settings := config.Settings(module.Settings(modules.All()))
	for _, s := range settings {
		if slices.Contains(s.ReadBy, config.Process) || slices.Contains(s.ReadBy, config.Live) { // the process reads what is live anew
			continue
		}
		for _, field := range fields(t, s) {
			if read[field] {
				t.Errorf("%s is read by %v, and by the process as %s", s.Name, s.ReadBy, field)
			}
		}
	}
}

// fields are the paths of the fields that a setting sets.
func fields(t *testing.T, s config.Setting) []string {
	var out []string
	for _, text := range configtest.Others(t, s) {
		var is config.Config
		if err := s.Set.Parse(&is, text); err != nil {
			t.Fatal(err)
		}
		v := reflect.ValueOf(is)
		for i := range v.NumField() {
			name := v.Type().Field(i).Name
			if v.Field(i).Kind() != reflect.Struct || v.Field(i).Type().PkgPath() != reflect.TypeFor[config.Config]().PkgPath() {
				if !v.Field(i).IsZero() {
					out = append(out, name)
				}
				continue
			}
			for j := range v.Field(i).NumField() {
				if !v.Field(i).Field(j).IsZero() {
					out = append(out, name+"."+v.Field(i).Type().Field(j).Name)
				}
			}
		}
	}
	return out
}

// selectors are the names of fields that are read outside of modules' folders: the last, and the last two of each chain.
func selectors(t *testing.T) map[string]bool {
	t.Helper()
	out := map[string]bool{}
	err := filepath.WalkDir("..", func(path string, d os.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (path == "../config" || d.Name() == "testdata" || strings.HasPrefix(path, "../module/")):
			return filepath.SkipDir
		case !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			return err
		}
		ast.Inspect(f, func(n ast.Node) bool {
			sel, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			out[sel.Sel.Name] = true
			if above, ok := sel.X.(*ast.SelectorExpr); ok {
				out[above.Sel.Name+"."+sel.Sel.Name] = true
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// A module's settings reach it by a function that its own test looks at, not by single fields of the host's.
func TestModulesReadNoSingleSettings(t *testing.T) {
	files, err := filepath.Glob("../module/*/*.go")
	if err != nil || len(files) < 10 {
		t.Fatal(files, err)
	}
	for _, path := range files {
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(raw), "h.Config.") {
			t.Errorf("%s reads a field of h.Config: pass h.Config to a function of settings, as moduleConfig", path)
		}
	}
}
