package croft_test

import (
	"go/ast"
	"go/parser"
	"slices"
	"strings"
	"testing"
)

// guardedFolders are those of the agent: a panic of a goroutine that they start
// mustn't end the process.
func guardedFolders() []string {
	return []string{
		"provision/", "cmd/croftd/internal/", "pkg/bus/", "pkg/explorer/", "pkg/nodeapi/", "pkg/dial/", "pkg/carrier/", "pkg/clock/",
	}
}

// unguarded are the files that may start a goroutine without a guard, and why.
func unguarded() map[string]string {
	return map[string]string{
		"cmd/croftd/internal/command/command.go": "it waits for signals, and ends the process at the second",
		"pkg/bus/stubgen/generate.go":            "a generator, no part of the agent",
	}
}

// TestGoroutinesAreGuarded holds that each goroutine of the agent runs what it
// runs by supervise.Keep, supervise.Guard, supervise.Do or supervise.Catch, and does nothing beside
// that but send, close and wait.
func TestGoroutinesAreGuarded(t *testing.T) {
	exceptions := unguarded()
	used := map[string]bool{}
	found := 0
	for _, f := range sourceFiles(t) {
		inFolder := func(folder string) bool { return strings.HasPrefix(f.path, folder) }
		if f.test || strings.Contains(f.path, "/conformance/") || !slices.ContainsFunc(guardedFolders(), inFolder) {
			continue
		}
		ast.Inspect(f.file, func(n ast.Node) bool {
			body, starts := goroutine(n)
			if !starts {
				return true
			}
			found++
			if body != nil && guarded(body) || body == nil && startsGuard(n) {
				return true
			}
			if exceptions[f.path] == "" {
				t.Errorf("%s: the goroutine may end the process by a panic: use supervise.Keep or supervise.Guard", f.fset.Position(n.Pos()))
			}
			used[f.path] = true
			return true
		})
	}
	if found < 20 {
		t.Errorf("found only %d goroutines: the test looks at the wrong places", found)
	}
	for path := range exceptions {
		if !used[path] {
			t.Errorf("%s needs no exception any more", path)
		}
	}
}

// goroutine reports whether n starts one, and with which body: nil when that
// isn't a function literal.
func goroutine(n ast.Node) (*ast.BlockStmt, bool) {
	var f ast.Expr
	switch n := n.(type) {
	case *ast.GoStmt:
		f = n.Call.Fun
	case *ast.CallExpr:
		sel, ok := n.Fun.(*ast.SelectorExpr)
		if !ok || sel.Sel.Name != "Go" || len(n.Args) != 1 {
			return nil, false
		}
		f = n.Args[0]
	default:
		return nil, false
	}
	if literal, ok := f.(*ast.FuncLit); ok {
		return literal.Body, true
	}
	return nil, true
}

// startsGuard reports whether n is a go statement whose call is a guard's.
func startsGuard(n ast.Node) bool {
	start, ok := n.(*ast.GoStmt)
	return ok && isGuard(start.Call)
}

// guarded reports whether every statement of a goroutine is harmless or under a guard.
func guarded(body *ast.BlockStmt) bool {
	return !slices.ContainsFunc(body.List, func(s ast.Stmt) bool { return !guardedStatement(s) })
}

func guardedStatement(s ast.Stmt) bool {
	switch s := s.(type) {
	case *ast.DeferStmt, *ast.DeclStmt:
		return true
	case *ast.SendStmt:
		return !calls(s.Value) || hasGuard(s.Value)
	case *ast.RangeStmt:
		return guarded(s.Body)
	case *ast.IfStmt:
		return (s.Init == nil || guardedStatement(s.Init)) && (!calls(s.Cond) || hasGuard(s.Cond) || hasGuard(s.Init))
	case *ast.ExprStmt:
		call, ok := s.X.(*ast.CallExpr)
		return ok && (harmless(call) || hasGuard(call))
	}
	return hasGuard(s)
}

// harmless reports whether a call closes or waits.
func harmless(call *ast.CallExpr) bool {
	switch f := call.Fun.(type) {
	case *ast.Ident:
		return f.Name == "close"
	case *ast.SelectorExpr:
		return f.Sel.Name == "Wait"
	}
	return false
}

// calls reports whether there is any call in n.
func calls(n ast.Node) bool {
	return contains(n, func(*ast.CallExpr) bool { return true })
}

// hasGuard reports whether there is a call of a guard in n.
func hasGuard(n ast.Node) bool {
	return contains(n, isGuard)
}

// isGuard reports whether a call is of a guard.
func isGuard(call *ast.CallExpr) bool {
	sel, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	pkg, ok := sel.X.(*ast.Ident)
	return ok && pkg.Name == "supervise" && slices.Contains([]string{"Keep", "Guard", "Do", "Catch"}, sel.Sel.Name)
}

// The rule itself: what it lets through and what it doesn't.
func TestTheRuleOfGuards(t *testing.T) {
	for body, want := range map[string]bool{
		"open.Wait(); close(out)":                                                true,
		"defer close(out); _ = supervise.Keep(ctx, log, name, b, f)":             true,
		"done <- supervise.Guard(log, name, f)":                                  true,
		"if !supervise.Do(log, name, f) { cancel() }":                            true,
		"if err := supervise.Catch(name, f); err != nil { cancel(err) }":         true,
		"for frame := range frames { supervise.Do(log, name, f); free <- slot }": true,
		"s.run(ctx)":                                          false,
		"done <- s.look(ctx)":                                 false,
		"for x := range in { handle(x) }":                     false,
		"if s.look() { cancel() }":                            false,
		"a, err := s.look(); done <- a":                       false,
		"_ = supervise.Keep(ctx, log, name, b, f); s.after()": false,
	} {
		f, err := parser.ParseExpr("func() { " + body + " }")
		if err != nil {
			t.Fatal(err)
		}
		start := &ast.GoStmt{Call: &ast.CallExpr{Fun: f}}
		if block, ok := goroutine(start); !ok || guarded(block) != want {
			t.Errorf("guarded is %t for %s", !want, body)
		}
	}
}

func contains(n ast.Node, is func(*ast.CallExpr) bool) bool {
	found := false
	if n == nil {
		return false
	}
	ast.Inspect(n, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok && is(call) {
			found = true
		}
		return !found
	})
	return found
}
