package imagebuild

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// The key is one of the content: of paths, modes, targets and bytes, and not of times.
func TestContentKey(t *testing.T) {
	key := func(change func(r RootFolder) error) string {
		t.Helper()
		r := newRoot(t)
		if err := errors.Join(r.File("/etc/x", "content", 0o644), r.Link("/etc/y", "/etc/x"), r.Folder("/var", 0o755), change(r)); err != nil {
			t.Fatal(err)
		}
		k, err := contentKey(string(r), "options")
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	same := key(func(RootFolder) error { return nil })
	if got := key(func(r RootFolder) error { return os.Chtimes(r.At("/etc/x"), time.Unix(1, 0), time.Unix(1, 0)) }); got != same {
		t.Error("a time makes another key")
	}
	seen := map[string]string{same: "nothing"}
	for what, change := range map[string]func(r RootFolder) error{
		"a byte":   func(r RootFolder) error { return os.WriteFile(r.At("/etc/x"), []byte("Content"), 0o644) },
		"a mode":   func(r RootFolder) error { return os.Chmod(r.At("/etc/x"), 0o755) },
		"a name":   func(r RootFolder) error { return os.Rename(r.At("/etc/x"), r.At("/etc/z")) },
		"a target": func(r RootFolder) error { return errors.Join(os.Remove(r.At("/etc/y")), r.Link("/etc/y", "/etc/z")) },
		"a folder": func(r RootFolder) error { return r.Folder("/var/lib", 0o755) },
		"a sticky": func(r RootFolder) error { return os.Chmod(r.At("/var"), os.ModeSticky|0o755) },
	} {
		k := key(change)
		if other, twice := seen[k]; twice {
			t.Errorf("a change of %s makes the key of %s", what, other)
		}
		seen[k] = what
	}
	if k, err := contentKey(t.TempDir(), "a"); err != nil || k == same {
		t.Errorf("the key of nothing is %s, %v", k, err)
	}
}

// The root file system is packed once for the same content, and only the last one is kept.
func TestPackRoot(t *testing.T) {
	cache, packed := t.TempDir(), 0
	run := func(_ context.Context, _, _ string, args ...string) ([]byte, error) {
		if args[0] == "-version" {
			return []byte("mksquashfs version 4.5.1\nmore\n"), nil
		}
		packed++
		return nil, os.WriteFile(args[1], []byte(strings.Join(args, " ")), 0o600)
	}
	r := newRoot(t)
	for i, want := range []bool{true, false} {
		file, fresh, err := PackRoot(t.Context(), r, Packing{Cache: cache, Level: 9, Run: run})
		if err != nil || fresh != want || packed != 1 {
			t.Fatalf("attempt %d: packed anew: %v, %v; mksquashfs ran %d times", i, fresh, err, packed)
		}
		if info, err := os.Stat(file); err != nil || info.Mode() != 0o644 {
			t.Errorf("%v, %v", info.Mode(), err)
		}
	}
	if err := r.File("/etc/new", "", 0o644); err != nil {
		t.Fatal(err)
	}
	if _, fresh, err := PackRoot(t.Context(), r, Packing{Cache: cache, Level: 9, Run: run}); err != nil || !fresh {
		t.Errorf("changed content: packed anew: %v, %v", fresh, err)
	}
	if entries, err := os.ReadDir(filepath.Join(cache, "squashfs")); err != nil || len(entries) != 1 {
		t.Errorf("the cache has %v, %v", entries, err)
	}
	failing := func(ctx context.Context, dir, name string, args ...string) ([]byte, error) {
		if args[0] == "-version" {
			return run(ctx, dir, name, args...)
		}
		return nil, errors.New("no space")
	}
	if err := r.File("/etc/newer", "", 0o644); err != nil {
		t.Fatal(err)
	}
	if _, _, err := PackRoot(t.Context(), r, Packing{Cache: cache, Level: 9, Run: failing}); err == nil {
		t.Error("a failure isn't told")
	}
	if entries, err := os.ReadDir(filepath.Join(cache, "squashfs")); err != nil || len(entries) != 1 || strings.HasPrefix(entries[0].Name(), Temporary) {
		t.Errorf("after a failure the cache has %v, %v", entries, err)
	}
}
