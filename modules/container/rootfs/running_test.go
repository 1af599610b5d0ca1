package rootfs

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/pkg/mounts"
	"github.com/croft-edge/croft/pkg/node"
)

func TestNothingIsMadeAnewUnderARunningContainer(t *testing.T) {
	w := newWorld(t)
	s := w.spec("1-1")
	made := w.make(s)
	c := w.start(made, "wait")
	w.make(s)
	other := s
	other.Files = []File{{Target: "/etc/hostname", Content: []byte("other\n")}}
	_, err := w.store.Make(t.Context(), other)
	kind(t, err, node.Busy, "runs")
	w.whole("1-1", 4)
	must(t, unix.Unmount(made.Root, unix.MNT_DETACH))
	_, err = w.store.Make(t.Context(), s)
	kind(t, err, node.Busy)
	must(t, unix.Unmount(made.NetNS, unix.MNT_DETACH))
	_, err = w.store.Make(t.Context(), s)
	kind(t, err, node.Busy)
	c.stop()
	w.make(other)
	w.whole("1-1", 4)
	if got := w.inside(made, "read", "/etc/hostname"); got[0] != "other" {
		t.Errorf("inside: %q", got)
	}
}

func TestAContainerThatWasHandedOverGoesOnAndComesBack(t *testing.T) {
	w := newWorld(t)
	volume := w.folderIn("volume")
	s := w.spec("1-1")
	s.Binds = []Bind{{Source: volume, Target: "/a/b", Mapped: true}}
	kind(t, w.store.HandOver(t.Context(), "1-1"), node.NotExist)
	made := w.make(s)
	was, err := pinned(filepath.Dir(made.Root))
	must(t, err)
	c := w.start(made, "wait")
	must(t, w.store.HandOver(t.Context(), "1-1"))
	w.whole("1-1", 2)
	w.open()
	w.make(s) // adopted: it runs
	must(t, w.store.HandOver(t.Context(), "1-1"))
	w.whole("1-1", 2)
	pid := command(t, "runc", "--root", w.dir+"/runc", "state", c.id)
	if !strings.Contains(pid, `"running"`) {
		t.Errorf("the container: %s", pid)
	}
	c.stop()
	w.make(s)
	w.whole("1-1", 5)
	if now, err := pinned(filepath.Dir(made.Root)); err != nil || now != was {
		t.Errorf("its namespaces were %v, and are %v, %v", was, now, err)
	}
	if got := w.inside(made, "write", "/a/b/x", "again", ";", "read", "/etc/hostname"); got[0] != "ok" || got[1] != "box" {
		t.Errorf("inside: %q", got)
	}
	must(t, w.store.HandOver(t.Context(), "1-1"))
	must(t, w.store.Remove(t.Context(), "1-1"))
	w.nothing("1-1")
}

// A container that moves the folder above a mount to a very deep place makes
// the path of that so long that others can't read the list of mounts. The store
// can, sees it, and takes it away; with HandOver nobody sees it at all.
func TestAContainerCanNotHideBehindALongPath(t *testing.T) {
	if os.Getenv(roleVariable) != ownMountsRole {
		withOwnMounts(t) // runc, which others test with meanwhile, is one that can't read them
		return
	}
	w := newWorld(t)
	longest := func() (n int) {
		mounted, err := mounts.Read()
		must(t, err)
		for _, path := range mounted.Within(w.dir).Paths() {
			n = max(n, len(path))
		}
		return n
	}
	for _, handOver := range []bool{true, false} {
		volume := w.folderIn("volume")
		s := w.spec("1-1")
		s.Binds = []Bind{{Source: volume, Target: "/a/b", Mapped: true}}
		made := w.make(s)
		// The container is created at this point, and started after HandOver. It
		// can't be told apart from here: it waits, and then it moves.
		c := w.start(made, "mkdir", "/deep", ";", "wait")
		if handOver {
			must(t, w.store.HandOver(t.Context(), "1-1"))
		}
		out := command(t, "runc", "--root", w.dir+"/runc", "exec", c.id, "/inside", "deep", "/a", "/deep")
		if strings.TrimSpace(out) != "ok" {
			t.Fatalf("it can't do that: %s", out)
		}
		if handOver {
			if n := longest(); n > 200 {
				t.Errorf("a path of %d bytes", n)
			}
			w.whole("1-1", 2)
		} else {
			if n := longest(); n < 64<<10 {
				t.Errorf("a path of %d bytes: that shows nothing", n)
			}
			if drift, err := w.store.Check("1-1"); err != nil || !strings.Contains(drift, "/a/b was moved") || len(drift) > 200 {
				t.Errorf("drift: %.500q, %v", drift, err)
			}
		}
		c.stop()
		must(t, w.store.Remove(t.Context(), "1-1"))
		w.nothing("1-1")
		must(t, os.RemoveAll(s.Layer))
	}
}

// withOwnMounts runs a test again, as a process with a mount namespace of its own.
func withOwnMounts(t *testing.T) {
	t.Helper()
	again := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	again.Env = append(os.Environ(), roleVariable+"="+ownMountsRole)
	again.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	out, err := again.CombinedOutput()
	if err != nil || !bytes.Contains(out, []byte("--- PASS: "+t.Name())) {
		t.Errorf("%v\n%s", err, out)
	}
}

// A container swaps a folder for links that lead elsewhere, in a volume that
// it shares with one in which something is mounted below that folder.
func TestWhatIsSwappedWhileItIsMountedStaysInTheRoot(t *testing.T) {
	w := newWorld(t)
	shared, inner, canary := w.folderIn("shared"), w.folderIn("inner"), w.folderIn("canary")
	must(t, os.WriteFile(canary+"/file", []byte("before"), 0o644))
	must(t, os.WriteFile(inner+"/seen", []byte("inner"), 0o644))
	must(t, os.MkdirAll(shared+"/x", 0o777))
	must(t, os.Chown(shared+"/x", 0, 0))
	for i, to := range []string{canary, "../../../../../../../../.." + canary, "/proc/self/root" + canary, "/etc/../.."} {
		must(t, os.RemoveAll(shared+"/x.link"))
		must(t, os.Symlink(to, shared+"/x.link"))
		hostile := w.spec("6-" + string(rune('1'+i)))
		hostile.Binds = []Bind{{Source: shared, Target: "/shared", Mapped: true}}
		c := w.start(w.make(hostile), "swap", "/shared/x", "/shared/x.link")
		s := w.spec("5-1")
		s.Binds = []Bind{{Source: shared, Target: "/shared", Mapped: true}, {Source: inner, Target: "/shared/x/y", Mapped: true}}
		made, refused := 0, 0
		untouched(t, canary, func() {
			for range 75 {
				_, err := w.store.Make(t.Context(), s)
				switch node.KindOf(err) {
				case "":
					made++
				case node.Transient, node.Invalid:
					refused++
				default:
					t.Fatalf("%s: %v", to, err)
				}
				mounted, err := mounts.Read()
				must(t, err)
				for _, path := range mounted.Within(w.dir).Paths() {
					if !strings.HasPrefix(path, w.dir+"/run/container") {
						t.Fatalf("%s: mounted at %s", to, path)
					}
				}
				must(t, w.store.Remove(t.Context(), s.ID))
				if n := w.mounts("run/container/5-1"); n != 0 {
					t.Fatalf("%s: %d mounts are left", to, n)
				}
			}
		})
		t.Logf("%s: made %d times, refused %d times", to, made, refused)
		if made == 0 {
			t.Errorf("%s: never made", to)
		}
		c.stop()
		must(t, w.store.Remove(t.Context(), hostile.ID))
	}
	if raw, err := os.ReadFile(inner + "/seen"); err != nil || string(raw) != "inner" {
		t.Errorf("the inner volume: %q, %v", raw, err)
	}
}

func TestTheStoresMountsAreNobodyElses(t *testing.T) {
	w := &world{t: t, dir: folder(t), log: &bytes.Buffer{}}
	must(t, unix.Mount("croft", w.dir, "tmpfs", 0, "mode=711"))
	must(t, unix.Mount("", w.dir, "", unix.MS_SHARED, ""))
	w.open()
	volumes := w.folderIn("volumes")
	must(t, unix.Mount("croft", volumes, "tmpfs", 0, "mode=755"))
	must(t, unix.Mount("", volumes, "", unix.MS_SHARED, ""))
	s := w.spec("1-1")
	s.Binds = []Bind{{Source: w.folderIn("volumes/a"), Target: "/a", Mapped: true}, {Source: w.folderIn("volumes/b"), Target: "/a/b", Mapped: true}}
	w.make(s)
	mounted, err := mounts.Read()
	must(t, err)
	for _, m := range mounted {
		if strings.HasPrefix(m.Path, w.dir+"/run") && m.Shared {
			t.Errorf("%s is shared", m.Path)
		}
	}
	if n := w.mounts("volumes"); n != 1 {
		t.Errorf("%d mounts in the volumes' folder, want its own: one leaked to a source", n)
	}
	must(t, w.store.Remove(t.Context(), "1-1"))
	w.nothing("1-1")
}
