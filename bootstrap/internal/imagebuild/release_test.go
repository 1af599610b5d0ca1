package imagebuild

import (
	"os"
	"path/filepath"
	"testing"
)

// The image takes packages of Debian only, whose release is this machine's.
func TestRelease(t *testing.T) {
	file := filepath.Join(t.TempDir(), "os-release")
	for text, want := range map[string]string{"ID=debian\nVERSION_ID=\"12\"\n": "12", "ID=ubuntu\nVERSION_ID=\"24.04\"\n": "", "ID=debian\n": ""} {
		write(t, file, text)
		if got, err := DebianRelease(file); got != want || (err == nil) != (want != "") {
			t.Errorf("of %q it is %q, %v", text, got, err)
		}
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if _, err := DebianRelease(file); err == nil {
		t.Error("a machine without os-release has a release")
	}
}
