package execs

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/rs/zerolog"
)

func TestAbandonedNames(t *testing.T) {
	for id, want := range map[string]bool{
		newID():                         false, // this process runs it
		Prefix + "4194999-123-abc":      true,
		Prefix + thisProcess() + "-abc": false,
		Prefix + "1-1":                  false, // not of this form
		"somebodys":                     false,
	} {
		if got := abandoned(id); got != want {
			t.Errorf("%s: abandoned %t, want %t", id, got, want)
		}
	}
}

func TestSweepFolders(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{thisProcess(), "4194999-123", "other"} {
		if err := os.MkdirAll(filepath.Join(dir, name, "fifo"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	Runner{Dir: dir, Log: zerolog.Nop()}.SweepFolders()
	for name, want := range map[string]bool{thisProcess(): true, "4194999-123": false, "other": true} {
		if _, err := os.Stat(filepath.Join(dir, name)); (err == nil) != want {
			t.Errorf("%s exists: %t, want %t", name, err == nil, want)
		}
	}
}
