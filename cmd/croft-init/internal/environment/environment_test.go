package environment

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestVariablesOfAFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "env")
	for _, name := range []string{"A", "B", "KEPT", "EMPTY"} {
		t.Setenv(name, "before")
	}
	if err := os.WriteFile(path, []byte("A=1\x00B=two\nlines = x\x00KEPT=no\x00EMPTY=\x00"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Load(path, []string{"KEPT"}); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"A": "1", "B": "two\nlines = x", "KEPT": "before", "EMPTY": ""} {
		if got := os.Getenv(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
}

func TestBadEnvironmentFiles(t *testing.T) {
	dir := t.TempDir()
	if err := Load(filepath.Join(dir, "none"), nil); err == nil {
		t.Error("a file that isn't there has no error")
	}
	for _, text := range []string{"", "hidden", "=hidden\x00", "A=1\x00\x00"} {
		path := filepath.Join(dir, "env")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		t.Setenv("A", "")
		if err := Load(path, nil); err == nil || strings.Contains(err.Error(), "hidden") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestNoSuchProgram(t *testing.T) {
	if err := Become([]string{"no-such-program"}); err == nil || !strings.Contains(err.Error(), "no-such-program") {
		t.Errorf("error is %v", err)
	}
}
