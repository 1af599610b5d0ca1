package rootfs

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/pkg/node"
)

func TestManyLayersFitInARoot(t *testing.T) {
	w := newWorld(t)
	long := w.folderIn(strings.Repeat("long-", 40)) // 128 paths of this length are far more than a page
	s := w.spec("1-1")
	s.Lower = nil
	for i := range 127 {
		dir := filepath.Join(long, fmt.Sprint("layer,with:odd characters-", i))
		must(t, os.MkdirAll(dir, 0o755))
		must(t, os.WriteFile(dir+fmt.Sprint("/of-", i), []byte(fmt.Sprint(i)), 0o644))
		must(t, os.WriteFile(dir+"/top", []byte(fmt.Sprint(i)), 0o644))
		s.Lower = append(s.Lower, dir)
	}
	s.Lower = append(s.Lower, w.image("last", nil))
	made := w.make(s)
	w.whole("1-1", 2)
	got := w.inside(made, "read", "/top", ";", "read", "/of-0", ";", "read", "/of-126", ";", "stat", "/of-63", ";", "write", "/of-63", "mine", ";", "read", "/of-63")
	if want := "0 0 126 0:0 644 ok mine"; strings.Join(got, " ") != want {
		t.Errorf("inside: %q, want %q", got, want)
	}
	if raw, err := os.ReadFile(s.Lower[63] + "/of-63"); err != nil || string(raw) != "63" {
		t.Errorf("the layer was written to: %q, %v", raw, err)
	}
	must(t, w.store.Remove(t.Context(), "1-1"))
	w.nothing("1-1")
	for name, lower := range map[string][]string{"none": nil, "too many": make([]string, 501), "twice": {s.Lower[0], s.Lower[0] + "/"}, "relative": {"x"}} {
		s.Lower = lower
		_, err := w.store.Make(t.Context(), s)
		if node.KindOf(err) != node.Invalid || !strings.Contains(err.Error(), "Lower") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestLayerOfAnotherRangeIsReplacedAndLogged(t *testing.T) {
	w := newWorld(t)
	s := w.spec("1-1")
	w.inside(w.make(s), "write", "/secret", "of user", ";", "chown", "/", "1000")
	must(t, w.store.Remove(t.Context(), "1-1"))
	// Its root gave its top folder to another of its users: that is its own thing.
	if got := w.inside(w.make(s), "read", "/secret", ";", "stat", "/"); got[0] != "of user" || got[1] != "1000:1000 755" {
		t.Errorf("inside: %q", got)
	}
	if w.log.Len() > 0 {
		t.Errorf("log: %s", w.log)
	}
	must(t, w.store.Remove(t.Context(), "1-1"))
	must(t, os.MkdirAll(s.Layer+"/.gone-upper-half", 0o700))
	s.User = "other"
	got := w.inside(w.make(s), "read", "/secret", ";", "stat", "/")
	if !strings.Contains(got[0], "no such file") || got[1] != "0:0 755" {
		t.Errorf("inside: %q", got)
	}
	if said := w.log.String(); strings.Count(said, "another range of IDs") != 1 || !strings.Contains(said, `"id":"1-1"`) {
		t.Errorf("log: %s", said)
	}
	entries, err := os.ReadDir(s.Layer)
	must(t, err)
	if len(entries) != 2 {
		t.Errorf("the layer holds %v, want upper and work", entries)
	}
	// What a hostile hand put there instead of a folder isn't followed.
	must(t, w.store.Remove(t.Context(), "1-1"))
	canary := w.folderIn("canary")
	must(t, os.RemoveAll(s.Layer+"/upper"))
	must(t, os.Symlink(canary, s.Layer+"/upper"))
	untouched(t, canary, func() { w.inside(w.make(s), "write", "/x", "x") })
	must(t, w.store.Remove(t.Context(), "1-1"))
	must(t, os.RemoveAll(s.Layer))
	_, err = w.store.Make(t.Context(), s)
	kind(t, err, node.NotExist, s.Layer)
	w.nothing("1-1")
}

func TestLayerIsUnreadableToOtherUsers(t *testing.T) {
	w := newWorld(t)
	s := w.spec("1-1")
	first := w.make(s)
	w.inside(first, "write", "/secret", "mine", ";", "chmod", "/secret", "600")
	if info, err := os.Stat(s.Layer); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the layer: %v, %v", info, err)
	}
	// Even if the other one got to see the folder itself.
	other := w.spec("1-2")
	other.User = "other"
	other.Binds = []Bind{{Source: s.Layer + "/upper", Target: "/layer"}}
	second := w.make(other)
	if first.Range == second.Range {
		t.Fatal("both have the same range")
	}
	for _, line := range w.inside(second, "read", "/layer/secret", ";", "write", "/layer/x", "", ";", "chmod", "/layer/secret", "666") {
		if !strings.Contains(line, "permission denied") && !strings.Contains(line, "operation not permitted") {
			t.Errorf("inside: %s", line)
		}
	}
}

// Set-id files and devices do nothing: neither those of a volume, which root of
// the node may have put there, nor those of an image.
func TestSetIDFilesAndDevicesDoNothing(t *testing.T) {
	w := newWorld(t)
	volume := w.folderIn("volume")
	null := func(dir string) {
		must(t, unix.Mknod(dir+"/null", unix.S_IFCHR|0o666, int(unix.Mkdev(1, 3))))
		must(t, os.Chmod(dir+"/null", 0o666))
	}
	null(volume)
	s := w.spec("1-1")
	s.Lower = []string{w.image("devices", func(d string) { null(d); must(t, os.Chmod(d+"/inside", 0o4755|os.ModeSetuid)) })}
	s.Binds = []Bind{{Source: volume, Target: "/data", Mapped: true}}
	made := w.make(s)
	got := w.inside(made, "copy", "/inside", "/data/suid", ";", "chmod", "/data/suid", "4755", ";", "stat", "/data/suid", ";", "stat", "/inside", ";",
		"as", "/data/suid", "1000", ";", "as", "/inside", "1000", ";", "read", "/data/null", ";", "read", "/null", ";", "mknod", "/data/own", ";", "mknod", "/own")
	want := []string{"ok", "ok", "0:0 4755", "0:0 4755", "1000 1000", "1000 1000", "error: open /data/null: permission denied", "error: open /null: permission denied",
		"error: operation not permitted", "error: operation not permitted"}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("inside:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// disk mounts a file system on a loop file.
func (w *world) disk(name, kind string) string {
	w.t.Helper()
	at, file := w.folderIn(name), filepath.Join(w.dir, name+".img")
	must(w.t, os.WriteFile(file, nil, 0o600))
	must(w.t, os.Truncate(file, 300<<20))
	command(w.t, "mkfs."+kind, "-q", file)
	command(w.t, "mount", "-o", "loop,nosuid,nodev", file, at)
	return at
}

func TestLayersAndVolumesLieOnBtrfsAndExt4(t *testing.T) {
	w := newWorld(t)
	pool, plain := w.disk("pool", "btrfs"), w.disk("plain", "ext4")
	for _, name := range []string{"volume", "layer", "image"} {
		command(t, "btrfs", "subvolume", "create", filepath.Join(pool, name))
	}
	for _, dir := range []string{pool, plain, pool + "/volume", w.dir} {
		must(t, Supported(dir))
	}
	s := w.spec("1-1")
	s.Layer = pool + "/layer"
	must(t, os.WriteFile(pool+"/image/from-image", []byte("btrfs"), 0o644))
	s.Lower = append([]string{pool + "/image"}, s.Lower...)
	must(t, os.Mkdir(plain+"/volume", 0o755))
	s.Binds = []Bind{{Source: pool + "/volume", Target: "/btrfs", Mapped: true}, {Source: plain + "/volume", Target: "/ext4", Mapped: true}}
	made := w.make(s)
	got := w.inside(made, "write", "/btrfs/x", "b", ";", "write", "/ext4/x", "e", ";", "write", "/from-image", "changed", ";", "chown", "/ext4/x", "33", ";", "read", "/from-image")
	if strings.Join(got, " ") != "ok ok ok ok changed" {
		t.Errorf("inside: %q", got)
	}
	for path, owner := range map[string]uint32{pool + "/volume/x": 0, plain + "/volume/x": 33, pool + "/layer/upper/from-image": made.Range.Base} {
		if got := owns(t, path); got != owner {
			t.Errorf("%s is owned by %d, want %d", path, got, owner)
		}
	}
	must(t, w.store.Remove(t.Context(), "1-1"))
	w.nothing("1-1")
	for _, at := range []string{pool, plain} {
		must(t, unix.Unmount(at, 0)) // not in use any more
	}
}

func TestUnmappableFileSystemIsNamed(t *testing.T) {
	w := newWorld(t)
	kind(t, Supported("/proc"), node.Refused, "/proc", "5.19")
	kind(t, Supported("/none"), node.NotExist, "/none")
	s := w.spec("1-1")
	s.Binds = []Bind{{Source: "/proc/sys", Target: "/x", Mapped: true}}
	_, err := w.store.Make(t.Context(), s)
	kind(t, err, node.Refused, "id-map", "/proc/sys", "btrfs")
	w.nothing("1-1")
	if n := w.mounts("."); n != 1 {
		t.Errorf("%d mounts are left", n)
	}
}

func TestManyAreMadeAndRemovedAtTheSameTime(t *testing.T) {
	w := newWorld(t)
	volume := w.folderIn("volume")
	var done sync.WaitGroup
	for i := range 12 {
		s := w.spec(fmt.Sprint("1-", i))
		s.User = fmt.Sprint("user", i%5)
		s.Binds = []Bind{{Source: volume, Target: "/data", Mapped: true}}
		for range 3 { // of one, too
			done.Go(func() {
				if _, err := w.store.Make(t.Context(), s); err != nil {
					t.Error(err)
				}
				if _, err := w.store.CheckAll(); err != nil {
					t.Error(err)
				}
			})
		}
	}
	done.Wait()
	all, err := w.store.CheckAll()
	must(t, err)
	for id, drift := range all {
		if drift != "" {
			t.Errorf("%s: %s", id, drift)
		}
	}
	if n := w.mounts("run"); len(all) != 12 || n != 1+12*2 {
		t.Errorf("%d containers, %d mounts", len(all), n)
	}
	for id := range all {
		done.Go(func() {
			if err := w.store.Remove(t.Context(), id); err != nil {
				t.Error(err)
			}
		})
	}
	done.Wait()
	if n := w.mounts("run"); n != 1 || w.containers() != 0 || len(w.store.locks.byID) != 0 {
		t.Errorf("%d mounts, %d containers, %d locks are left", n, w.containers(), len(w.store.locks.byID))
	}
}
