package rootfs

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/pkg/node"
)

// link makes a link in an image.
func link(t testing.TB, dir, name, to string) {
	t.Helper()
	must(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755))
	must(t, os.Symlink(to, filepath.Join(dir, name)))
}

// landed is the path in the root where the spec's bind of a target came to lie.
func (w *world) landed(id, target string) string {
	w.t.Helper()
	was, err := readRecord(w.store.folders.of(id))
	must(w.t, err)
	for _, b := range was.Root.Bound {
		if b.Target == target {
			return b.Path
		}
	}
	w.t.Fatalf("nothing is mounted for %s", target)
	return ""
}

func TestNoLinkLeadsAMountOutOfTheRoot(t *testing.T) {
	w := newWorld(t)
	canary := w.folderIn("canary")
	must(t, os.WriteFile(canary+"/file", []byte("before"), 0o644))
	for i, c := range []struct {
		name, target, lands string
		file                bool
		fill                func(dir string)
	}{
		{name: "absolute", target: "/data", lands: canary, fill: func(d string) { link(t, d, "data", canary) }},
		{name: "relative", target: "/data/x", lands: "/etc/x", fill: func(d string) { link(t, d, "data", "../../../../../etc") }},
		{name: "deep", target: "/a/b/c", lands: canary + "/c", fill: func(d string) { link(t, d, "a/b", strings.Repeat("../", 50)+canary) }},
		{name: "chain", target: "/one/x", lands: "/home/user/x", fill: func(d string) {
			link(t, d, "one", "two/..//three")
			link(t, d, "three", "/four/")
			link(t, d, "four", "./home/user")
			must(t, os.MkdirAll(d+"/two", 0o755))
		}},
		{name: "through a link and back", target: "/one/x", lands: "/x", fill: func(d string) { link(t, d, "one", canary+"/../../../../..") }},
		{name: "to the root", target: "/r/r/data", lands: "/data", fill: func(d string) { link(t, d, "r", "/") }},
		{name: "a file", target: "/etc/resolv.conf", file: true, lands: canary + "/file", fill: func(d string) { link(t, d, "etc/resolv.conf", canary+"/file") }},
		{name: "a file that lacks", target: "/etc/resolv.conf", file: true, lands: "/run/systemd/resolve/stub.conf",
			fill: func(d string) { link(t, d, "etc/resolv.conf", "../run/systemd/resolve/stub.conf") }},
		{name: "a space", target: "/my data\\x\n", lands: "/my data\\x\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			id := "7-" + string(rune('0'+i))
			volume := w.folderIn("volume")
			s := w.spec(id)
			s.Files = nil
			s.Lower = []string{w.image(id, c.fill)}
			b := Bind{Source: volume, Target: c.target, Mapped: true}
			if c.file {
				b = Bind{Source: volume + "/file", Target: c.target, File: true}
				must(t, os.WriteFile(b.Source, []byte("mounted"), 0o644))
			}
			s.Binds = []Bind{b}
			untouched(t, canary, func() {
				made := w.make(s)
				if got := w.landed(id, c.target); got != c.lands {
					t.Errorf("it lies at %q, want %q", got, c.lands)
				}
				w.whole(id, 2)
				must(t, os.WriteFile(volume+"/seen", []byte("seen"), 0o644))
				if !c.file {
					if out := w.inside(made, "read", filepath.Join(c.target, "seen")); out[0] != "seen" {
						t.Errorf("inside: %q", out)
					}
				}
				must(t, w.store.Remove(t.Context(), id))
			})
			w.nothing(id)
		})
	}
}

// Each of these is refused with a clear error, and leaves nothing.
func TestUnusableMountPointsAreRefused(t *testing.T) {
	w := newWorld(t)
	special := func(mode uint32) func(string) {
		return func(d string) { must(t, unix.Mknod(d+"/data", mode|0o666, int(unix.Mkdev(1, 3)))) }
	}
	write := func(name string) func(string) {
		return func(d string) { must(t, os.WriteFile(d+name, []byte("x"), 0o644)) }
	}
	long := strings.Repeat("/x", 600)
	for _, c := range []struct {
		name, target, says string
		file               bool
		fill               func(dir string)
	}{
		{name: "dots", target: "/data/../../etc", says: `".."`},
		{name: "relative", target: "data", says: "absolute"},
		{name: "nothing", target: "", says: "absolute"},
		{name: "the root", target: "//.", says: "root itself"},
		{name: "the root by a link", target: "/data", says: "root itself", fill: func(d string) { link(t, d, "data", "..") }},
		{name: "proc", target: "/proc", says: "/proc"},
		{name: "below proc", target: "/proc/self/root/data", says: "/proc"},
		{name: "sys", target: "//sys/fs", says: "/sys"},
		{name: "dev", target: "/dev/shm", says: "/dev"},
		{name: "proc by a link", target: "/data/x", says: "/proc", fill: func(d string) { link(t, d, "data", "/proc/self/root") }},
		{name: "proc by a link and dots", target: "/data/x", says: "/proc", fill: func(d string) { link(t, d, "data", "/etc/../../proc") }},
		{name: "dev by a link", target: "/data", says: "/dev", fill: func(d string) { link(t, d, "data", "dev/x") }},
		{name: "a magic link", target: "/self/data", says: "/proc", fill: func(d string) { link(t, d, "self", "/proc/1/cwd") }},
		{name: "a loop", target: "/data", says: "more than 40 links", fill: func(d string) { link(t, d, "data", "data") }},
		{name: "a loop of two", target: "/a/x", says: "more than 40 links", fill: func(d string) { link(t, d, "a", "b/x"); link(t, d, "b", "a/y") }},
		{name: "a file for a folder", target: "/data", says: "is a file", fill: write("/data")},
		{name: "a file on the way", target: "/data/x", says: "is a file", fill: write("/data")},
		{name: "a folder for a file", target: "/etc", file: true, says: "is a folder"},
		{name: "a pipe", target: "/data", file: true, says: "pipe", fill: special(unix.S_IFIFO)},
		{name: "a device", target: "/data", file: true, says: "device", fill: special(unix.S_IFCHR)},
		{name: "a disk", target: "/data", says: "device", fill: special(unix.S_IFBLK)},
		{name: "a socket", target: "/data", file: true, says: "socket", fill: special(unix.S_IFSOCK)},
		{name: "a long name", target: "/" + strings.Repeat("x", 300), says: "name too long"},
		{name: "a long path", target: long, says: "at most 1024 bytes"},
		{name: "a long path by links", target: "/a/b", says: "deeper than", fill: func(d string) { link(t, d, "a", "."+long[:1000]+long[:1000]) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := &world{t: t, dir: w.dir, store: w.store}
			volume := w.folderIn("volume")
			must(t, os.WriteFile(volume+"/file", nil, 0o644))
			s := w.spec("1-1")
			s.Lower = []string{w.image(strings.ReplaceAll(c.name, " ", "-"), c.fill)}
			s.Binds = []Bind{{Source: volume, Target: c.target, Mapped: true}}
			if c.file {
				s.Binds = []Bind{{Source: volume + "/file", Target: c.target, File: true}}
			}
			_, err := w.store.Make(t.Context(), s)
			kind(t, err, node.Invalid, c.says)
			w.nothing("1-1")
		})
	}
}

func TestMountsMayLieInEachOther(t *testing.T) {
	w := newWorld(t)
	s := w.spec("1-1")
	names := []string{"/data", "/data/in", "/data/in/deeper/still", "/data-2", "/etc"}
	for _, i := range []int{2, 4, 1, 3, 0} {
		source := w.folderIn("volumes" + names[i] + ".volume")
		must(t, os.WriteFile(source+"/name", []byte(names[i]), 0o644))
		s.Binds = append(s.Binds, Bind{Source: source, Target: names[i], Mapped: true})
	}
	made := w.make(s)
	w.whole("1-1", 1+len(names)+1)
	var ask []string
	for _, n := range names {
		ask = append(ask, "read", n+"/name", ";")
	}
	if got := w.inside(made, append(ask, "read", "/etc/hostname")...); strings.Join(got, " ") != strings.Join(names, " ")+" box" {
		t.Errorf("inside: %q", got)
	}
	// The folder made in the outer volume for the inner one is the container's.
	if owner := owns(t, w.dir+"/volumes/data.volume/in"); owner != 0 {
		t.Errorf("the inner mount point is owned by %d on the outer volume, want 0", owner)
	}
	must(t, w.store.Remove(t.Context(), "1-1"))
	w.nothing("1-1")
	for _, n := range names {
		if raw, err := os.ReadFile(w.dir + "/volumes" + n + ".volume/name"); err != nil || string(raw) != n {
			t.Errorf("volume %s: %q, %v", n, raw, err)
		}
	}
}

func TestNoMountCoversAnother(t *testing.T) {
	w := newWorld(t)
	s := w.spec("1-1")
	s.Lower = []string{w.image("linked", func(d string) { link(t, d, "a", "/z") })}
	one, two := w.folderIn("one"), w.folderIn("two")
	for _, targets := range [][2]string{{"/a/x", "/z"}, {"/a", "/z"}} {
		s.Binds = []Bind{{Source: one, Target: targets[0], Mapped: true}, {Source: two, Target: targets[1], Mapped: true}}
		_, err := w.store.Make(t.Context(), s)
		kind(t, err, node.Invalid, "would cover", targets[0], targets[1])
		w.nothing("1-1")
	}
	s.Binds[0].Target, s.Binds[1].Target = "/x", "//x/."
	_, err := w.store.Make(t.Context(), s)
	kind(t, err, node.Invalid, "twice")
}

func TestWrongBindSourceIsRefused(t *testing.T) {
	w := newWorld(t)
	dir, file, pipe, to := w.folderIn("dir"), w.dir+"/file", w.dir+"/pipe", w.dir+"/link"
	must(t, os.WriteFile(file, nil, 0o644))
	must(t, unix.Mkfifo(pipe, 0o644))
	must(t, os.Symlink(dir, to))
	for want, b := range map[string]Bind{
		"isn't a folder": {Source: file, Target: "/x", Mapped: true}, "isn't a file": {Source: dir, Target: "/x", File: true},
		"pipe: it isn't a file": {Source: pipe, Target: "/x", File: true}, "link": {Source: to, Target: "/x"}, "must be an absolute path": {Source: "x", Target: "/x"},
	} {
		s := w.spec("1-1")
		s.Binds = []Bind{b}
		_, err := w.store.Make(t.Context(), s)
		kind(t, err, node.Invalid, strings.TrimPrefix(want, "pipe: "))
		w.nothing("1-1")
	}
	s := w.spec("1-1")
	s.Binds = []Bind{{Source: w.dir + "/none", Target: "/x", Mapped: true}}
	_, err := w.store.Make(t.Context(), s)
	kind(t, err, node.NotExist, w.dir+"/none")
	w.nothing("1-1")
	// A missing folder can't be made in a read-only mount.
	s.Binds = []Bind{{Source: dir, Target: "/x", ReadOnly: true, Mapped: true}, {Source: dir, Target: "/x/y", Mapped: true}}
	_, err = w.store.Make(t.Context(), s)
	kind(t, err, node.Invalid, "/x/y", "read-only")
	w.nothing("1-1")
}
