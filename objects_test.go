package croft_test

import (
	"go/ast"
	"go/token"
	"strings"
	"testing"
)

// Types with behaviour are those with this many methods or more; they stay small.
const (
	behaviour   = 5
	mostMethods = 30
	mostFields  = 12
)

// wide are the types with behaviour that may have more fields, and why.
func wide() map[string]string {
	return map[string]string{
		"provision/lifecycle.Record": "a document: all that is remembered of one reservation",
		"pkg/workload.Reservation":   "a document: the seed's reservation",
	}
}

// object is what one type is made of.
type object struct {
	methods, fields int
}

// A huge object that is cut into small files is still a huge object.
func TestObjectsAreSmall(t *testing.T) {
	objects := map[string]*object{}
	of := func(f goFile, name string) *object {
		key := f.dir() + "." + name
		if objects[key] == nil {
			objects[key] = &object{}
		}
		return objects[key]
	}
	for _, f := range sourceFiles(t) {
		if f.test || f.generated() {
			continue
		}
		for _, d := range f.file.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if name := receiver(d); name != "" {
					of(f, name).methods++
				}
			case *ast.GenDecl:
				for name, s := range structs(d) {
					of(f, name).fields = s.Fields.NumFields()
				}
			}
		}
	}
	if objects["provision/engine.desk"] == nil || objects["provision/engine.desk"].methods < behaviour {
		t.Fatal("the engine's desk isn't found: the test looks at the wrong places")
	}
	exceptions := wide()
	for name, o := range objects {
		if o.methods > mostMethods {
			t.Errorf("%s has %d methods, at most %d are allowed: give a part of it to a type of its own", name, o.methods, mostMethods)
		}
		if o.methods < behaviour || o.fields <= mostFields {
			continue
		}
		if exceptions[name] == "" {
			t.Errorf("%s has %d fields, at most %d are allowed: give a part of it to a type of its own", name, o.fields, mostFields)
		}
		delete(exceptions, name)
	}
	for name := range exceptions {
		t.Errorf("%s needs no exception any more", name)
	}
}

// receiver is the name of the type that a method is of; empty for a function.
func receiver(d *ast.FuncDecl) string {
	if d.Recv == nil {
		return ""
	}
	e := d.Recv.List[0].Type
	if star, ok := e.(*ast.StarExpr); ok {
		e = star.X
	}
	switch index := e.(type) {
	case *ast.IndexExpr:
		e = index.X
	case *ast.IndexListExpr:
		e = index.X
	}
	id, ok := e.(*ast.Ident)
	if !ok {
		return ""
	}
	return id.Name
}

func structs(d *ast.GenDecl) map[string]*ast.StructType {
	out := map[string]*ast.StructType{}
	for _, spec := range d.Specs {
		if typed, ok := spec.(*ast.TypeSpec); ok {
			if s, ok := typed.Type.(*ast.StructType); ok {
				out[typed.Name.Name] = s
			}
		}
	}
	return out
}

// phaseWriters are the files outside provision/lifecycle that may write a member
// Phase, and why.
func phaseWriters() map[string]string {
	return map[string]string{
		"provision/store/document.go":                 "it reads records from their files",
		"provision/store/migrate.go":                  "it reads records of older versions and of other programs",
		"provision/engine/board.go":                   "it shows a record to an operator",
		"cmd/croftd/internal/daemon/doorworkloads.go": "the same, to its user",
		"cmd/croftd/internal/module/supervisor.go":    "it is a module's, not a record's",
		"cmd/croftd/internal/module/standin.go":       "the same",
		"cmd/croftd/internal/daemon/modules.go":       "the same",
		"provision/plane/modules.go":                  "the same",
	}
}

// Only package lifecycle decides a record's phase: nobody else assigns to a
// member Phase, or makes a value that has one.
func TestOnlyLifecycleWritesPhases(t *testing.T) {
	exceptions := phaseWriters()
	own := 0
	for _, f := range sourceFiles(t) {
		if f.test || !strings.HasPrefix(f.path, "provision/") && !strings.HasPrefix(f.path, "cmd/croftd/") {
			continue
		}
		for _, at := range phasesWritten(f) {
			switch {
			case f.dir() == "provision/lifecycle":
				own++
			case phaseWriters()[f.path] == "":
				t.Errorf("%s writes a Phase: only the table of provision/lifecycle does", f.fset.Position(at))
			}
			delete(exceptions, f.path)
		}
	}
	if own < 10 {
		t.Errorf("found only %d phases written by provision/lifecycle: the test looks for the wrong thing", own)
	}
	for path := range exceptions {
		t.Errorf("%s needs no exception any more", path)
	}
}

// phasesWritten are the places at which a file writes a member Phase: by an
// assignment, by its address, or in a literal.
func phasesWritten(f goFile) (out []token.Pos) {
	phase := func(e ast.Expr) bool {
		sel, ok := e.(*ast.SelectorExpr)
		return ok && sel.Sel.Name == "Phase"
	}
	ast.Inspect(f.file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			for _, left := range n.Lhs {
				if phase(left) {
					out = append(out, left.Pos())
				}
			}
		case *ast.UnaryExpr:
			if n.Op == token.AND && phase(n.X) {
				out = append(out, n.Pos())
			}
		case *ast.CompositeLit:
			for _, e := range n.Elts {
				if kv, ok := e.(*ast.KeyValueExpr); ok {
					if key, ok := kv.Key.(*ast.Ident); ok && key.Name == "Phase" {
						out = append(out, kv.Pos())
					}
				}
			}
		}
		return true
	})
	return out
}
