package main

import (
	"context"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestStubsAreCurrent(t *testing.T) {
	if err := run("", true); err != nil {
		t.Error(err)
	}
}

func TestEveryContractIsOne(t *testing.T) {
	for _, c := range contracts() {
		if err := checkContract(c.iface); err != nil {
			t.Error(err)
		}
		for _, stream := range c.every {
			if m, ok := c.iface.MethodByName(stream); !ok || m.Type.NumOut() != 1 {
				t.Errorf("%s has no stream %s", c.iface, stream)
			}
		}
	}
}

// An interface of package node without a stub would be a contract that nobody
// can call.
func TestEveryContractHasAStub(t *testing.T) {
	listed := map[string]bool{}
	for _, c := range contracts() {
		if listed[c.iface.Name()] {
			t.Errorf("%s is listed twice", c.iface)
		}
		listed[c.iface.Name()] = true
	}
	paths, err := filepath.Glob("../../node/*.go")
	if err != nil || len(paths) < 5 {
		t.Fatalf("found %v, %v", paths, err)
	}
	found := 0
	for _, path := range paths {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok {
				return true
			}
			if _, ok := spec.Type.(*ast.InterfaceType); ok && spec.Name.IsExported() {
				found++
				if !listed[spec.Name.Name] {
					t.Errorf("%s has no stub: list it in contracts.go", spec.Name)
				}
			}
			return true
		})
	}
	if found != len(listed) {
		t.Errorf("%d interfaces, %d contracts", found, len(listed))
	}
}

type good interface {
	Do(name string, sizes []uint64, at time.Time) (named, error)
	Stream(ctx context.Context) <-chan named
}

type named struct {
	Tags map1
	Subs []sub
}

type map1 map[string]sub

type sub struct{ Raw []byte }

type loop struct{ Loops []loop }

func TestBadContractsAreRefused(t *testing.T) {
	if err := checkContract(reflect.TypeFor[good]()); err != nil {
		t.Error(err)
	}
	type (
		nothing  interface{}
		noError  interface{ Do() string }
		noResult interface{ Do() }
		errFirst interface{ Do() (error, string) }
		pointer  interface{ Do(p *named) error }
		bareMap  interface {
			Do(m map[string]string) error
		}
		inStruct interface{ Do(s struct{ A int }) error }
		array    interface{ Do(a [3]byte) error }
		channel  interface{ Do(c chan int) error }
		function interface{ Do(f func()) error }
		anything interface{ Do(v any) error }
		result   interface{ Do() (any, error) }
		hidden   interface{ Do(h struct1) error }
		errField interface{ Do(h struct2) error }
		loops    interface{ Do(l loop) error }
		intKeys  interface{ Do(m map2) error }
		withCtx  interface {
			Do(ctx context.Context, s string) error
		}
		variadic interface{ Do(s ...string) error }
		both     interface {
			Do(ctx context.Context) chan named
		}
		sends interface {
			Do(ctx context.Context) chan<- named
		}
		noCtx   interface{ Do() <-chan named }
		unnamed interface {
			Do(ctx context.Context) <-chan []named
		}
		ptrEvents interface {
			Do(ctx context.Context) <-chan *named
		}
		nine interface {
			A() error
			B() error
			C() error
			D() error
			E() error
			F() error
			G() error
			H() error
			I() error
		}
	)
	for typ, want := range map[reflect.Type]string{
		reflect.TypeFor[named](): "isn't a named interface", reflect.TypeFor[interface{ A() error }](): "isn't a named interface",
		reflect.TypeFor[nothing](): "0 methods", reflect.TypeFor[nine](): "9 methods",
		reflect.TypeFor[noError](): "error last", reflect.TypeFor[noResult](): "error last", reflect.TypeFor[errFirst](): "error last",
		reflect.TypeFor[pointer](): "ptr", reflect.TypeFor[bareMap](): "has no name", reflect.TypeFor[inStruct](): "has no name",
		reflect.TypeFor[array](): "array", reflect.TypeFor[channel](): "chan", reflect.TypeFor[function](): "func",
		reflect.TypeFor[anything](): "interface", reflect.TypeFor[result](): "interface",
		reflect.TypeFor[hidden](): "isn't exported", reflect.TypeFor[errField](): "interface", reflect.TypeFor[loops](): "holds itself",
		reflect.TypeFor[intKeys](): "aren't strings", reflect.TypeFor[withCtx](): "interface", reflect.TypeFor[variadic](): "variadic",
		reflect.TypeFor[both](): "receive from", reflect.TypeFor[sends](): "receive from", reflect.TypeFor[noCtx](): "takes a context",
		reflect.TypeFor[unnamed](): "named type", reflect.TypeFor[ptrEvents](): "named type",
	} {
		if err := checkContract(typ); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", typ, err, want)
		}
	}
}

type struct1 struct{ hidden int }

var _ = struct1{hidden: 1}.hidden

type struct2 struct{ Err error }

type map2 map[int]string

func TestCheckReportsStaleStubs(t *testing.T) {
	dir := t.TempDir()
	if err := run(dir, true); err == nil || !strings.Contains(err.Error(), "make generate") {
		t.Errorf("an empty folder: %v", err)
	}
	if err := run(dir, false); err != nil {
		t.Fatal(err)
	}
	if err := run(dir, true); err != nil {
		t.Errorf("just generated: %v", err)
	}
	path := filepath.Join(dir, "storage_stub.go")
	src, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(string(src), header) {
		t.Errorf("it starts with %.80q", src)
	}
	if err := os.WriteFile(path, append(src, "// edited\n"...), 0o644); err != nil {
		t.Fatal(err)
	}
	old := filepath.Join(dir, "gone_stub.go")
	if err := os.WriteFile(old, []byte("package stubs\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := run(dir, true); err == nil || !strings.Contains(err.Error(), "storage_stub.go") || !strings.Contains(err.Error(), "gone_stub.go") {
		t.Errorf("an edited stub and one of nothing: %v", err)
	}
	if err := run(dir, false); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(old); !os.IsNotExist(err) {
		t.Errorf("the stub of nothing stays: %v", err)
	}
	if err := run(dir, true); err != nil {
		t.Error(err)
	}
}

func TestRewriteRefusesUnknownCode(t *testing.T) {
	c := contracts()[0]
	raw, err := zbusc(c)
	if err != nil {
		t.Fatal(err)
	}
	for _, change := range [][2]string{{"panic(err)", "panic(fmt.Sprint(err))"}, {"result.CallError()", "result.Failure()"}, {"return ch, nil", "return ch, err"}, {"\npackage ", "\n"}, {"\nimport (", "\nimport("}} {
		if _, err := rewrite([]byte(strings.ReplaceAll(string(raw), change[0], change[1])), c); err == nil {
			t.Errorf("with %q for %q it was taken", change[1], change[0])
		}
	}
	if _, err := rewrite(raw, c); err != nil {
		t.Error(err)
	}
}
