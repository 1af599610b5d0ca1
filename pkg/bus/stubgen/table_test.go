package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

type reader interface {
	Read(name string) ([]byte, error)
}

// wide has an embedded interface, a stream, and a method that isn't exported.
type wide interface {
	reader
	Do(name string) error
	Stream(ctx context.Context) <-chan named
	hidden(name string) error
}

func TestTableOfAContract(t *testing.T) {
	src, err := generate(of[wide]("wide", "mod", "obj", "1.0"))
	if err != nil {
		t.Fatal(err)
	}
	const want = `
// wideMethods are the methods of an implementation, for bus.RegisterMethods; nil where it is nil.
func wideMethods(of stubgen.wide) bus.Methods {
	if of == nil {
		return nil
	}
	return bus.Methods{
		"Do":     of.Do,
		"Read":   of.Read,
		"Stream": of.Stream,
	}
}
`
	if !strings.HasSuffix(string(src), want) {
		t.Errorf("it ends with\n%s\nwant\n%s", src[max(0, len(src)-len(want)):], want)
	}
	for _, path := range []string{`bus "github.com/croft-edge/croft/pkg/bus"`, `stubgen "github.com/croft-edge/croft/pkg/bus/stubgen"`} {
		if strings.Count(string(src), path) != 1 {
			t.Errorf("it imports %s %d times, want once", path, strings.Count(string(src), path))
		}
	}
	if !strings.Contains(string(src), ") hidden(") {
		t.Error("the stub has lost its method that isn't exported")
	}
}

// A table that lacks a method, or has another's, is as stale as a stub.
func TestCheckReportsStaleTables(t *testing.T) {
	dir := t.TempDir()
	if err := run(dir, false); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "storage_stub.go")
	src, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	const line = "\t\t\"ReleaseFilesystem\": of.ReleaseFilesystem,\n"
	if strings.Count(string(src), line) != 1 {
		t.Fatalf("it hasn't %q:\n%s", line, src)
	}
	for what, edited := range map[string]string{
		"a method is gone":        "",
		"a method is another's":   "\t\t\"ReleaseFilesystem\": of.ResizeFilesystem,\n",
		"a method has a new name": "\t\t\"Release\": of.ReleaseFilesystem,\n",
	} {
		if err := os.WriteFile(path, []byte(strings.Replace(string(src), line, edited, 1)), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := run(dir, true); err == nil || !strings.Contains(err.Error(), "storage_stub.go") || !strings.Contains(err.Error(), "make generate") {
			t.Errorf("%s: the check says %v", what, err)
		}
	}
	if err := run(dir, false); err != nil {
		t.Fatal(err)
	}
	if now, err := os.ReadFile(path); err != nil || string(now) != string(src) {
		t.Errorf("made anew, it is %v\n%s", err, now)
	}
}
