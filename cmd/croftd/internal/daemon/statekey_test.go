package daemon

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// TestStateKey: a key is made once, one of another size is set aside, and where none can be made that is an error.
func TestStateKey(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.key")
	first, err := stateKey(path)
	if err != nil || len(first) != keySize {
		t.Fatalf("%d bytes, %v", len(first), err)
	}
	if again, err := stateKey(path); err != nil || !bytes.Equal(first, again) {
		t.Errorf("another key the next time (%v)", err)
	}
	if err := os.Truncate(path, 7); err != nil {
		t.Fatal(err)
	}
	if next, err := stateKey(path); err != nil || len(next) != keySize || bytes.Equal(first, next) {
		t.Errorf("after a torn one %d bytes, %v", len(next), err)
	}
	if torn, err := os.ReadFile(path + ".damaged"); err != nil || len(torn) != 7 {
		t.Errorf("the torn one has %d bytes, %v", len(torn), err)
	}
	if _, err := stateKey(filepath.Join(path, "below")); err == nil {
		t.Error("no error where none can be made")
	}
}
