package rootfs

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestContainerRunsInItsRoot(t *testing.T) {
	w := newWorld(t)
	volume, config := w.folderIn("volume"), w.folderIn("config")
	must(t, os.WriteFile(config+"/c", []byte("settings"), 0o644))
	program := w.dir + "/init"
	must(t, os.WriteFile(program, []byte("init"), 0o755))
	s := w.spec("1-1")
	s.Binds = []Bind{{Source: volume, Target: "/data", Mapped: true}, {Source: config, Target: "/a/b/c", ReadOnly: true},
		{Source: program, Target: "/sbin/init", ReadOnly: true, File: true}}
	s.Files = append(s.Files, File{Target: "/etc/resolv.conf", Content: []byte("nameserver 10.0.0.1\n")})
	made := w.make(s)
	w.whole("1-1", 1+5)
	got := w.inside(made,
		"id", ";", "read", "/proc/self/uid_map", ";", "stat", "/", ";", "stat", "/inside", ";", "stat", "/data", ";", "stat", "/a/b", ";",
		"write", "/data/x", "hello", ";", "chown", "/data/x", "1000", ";", "write", "/top", "mine", ";", "read", "/etc/hostname", ";",
		"read", "/etc/resolv.conf", ";", "write", "/etc/hostname", "no", ";", "chmod", "/etc/hostname", "777", ";", "read", "/a/b/c/c", ";",
		"write", "/a/b/c/d", "no", ";", "read", "/sbin/init", ";", "stat", "/etc/hostname")
	want := []string{"0 0", fmt.Sprintf("%d %d %d", 0, made.Range.Base, made.Range.Size), "0:0 755", "0:0 755", "0:0 755", "0:0 755", "ok", "ok", "ok", "box", "nameserver 10.0.0.1",
		"error: open /etc/hostname: read-only file system", "error: read-only file system", "settings", "error: open /a/b/c/d: read-only file system", "init", "0:0 644"}
	got[1] = strings.Join(strings.Fields(got[1]), " ")
	if !slices.Equal(got, want) {
		t.Errorf("inside:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if r := rangeOf(w.store.ranges.held["user"].Index); r != made.Range {
		t.Errorf("the range is %v, the container's %v", r, made.Range)
	}
	for path, owner := range map[string]uint32{
		volume + "/x": 1000, filepath.Join(s.Layer, "upper/top"): made.Range.Base, filepath.Join(s.Layer, "upper/a"): made.Range.Base, s.Lower[0] + "/inside": 0,
	} {
		if got := owns(t, path); got != owner {
			t.Errorf("%s is owned by %d on disk, want %d", path, got, owner)
		}
	}
	must(t, w.store.Remove(t.Context(), "1-1"))
	w.nothing("1-1")
	if raw, err := os.ReadFile(volume + "/x"); err != nil || string(raw) != "hello" {
		t.Errorf("the volume has %q, %v", raw, err)
	}
	must(t, w.store.Remove(t.Context(), "1-1"))
}

func owns(t *testing.T, path string) uint32 {
	t.Helper()
	var st unix.Stat_t
	must(t, unix.Lstat(path, &st))
	return st.Uid
}
