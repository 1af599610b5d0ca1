package rootfs

import (
	"bufio"
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
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
	w.whole("1-1", 2)
	must(t, w.store.spaces.letGo("1-1"))
	_, err = w.store.Make(t.Context(), s)
	kind(t, err, node.Busy)
	must(t, unix.Unmount(made.NetNS, unix.MNT_DETACH))
	_, err = w.store.Make(t.Context(), s)
	kind(t, err, node.Busy)
	c.stop()
	w.make(other)
	w.whole("1-1", 2)
	if got := w.inside(made, "read", "/etc/hostname"); got[0] != "other" {
		t.Errorf("inside: %q", got)
	}
}

// TestNamespaceResidents: one whose first thread is over still is, and one that was killed isn't, also
// before its parent has asked for it.
func TestNamespaceResidents(t *testing.T) {
	t.Parallel()
	cmd := exec.Command(os.Getenv(programVariable), "leave")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWUSER}
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	defer func() {
		_ = cmd.Process.Kill() // it was, where the test has come to its end
		_ = cmd.Wait()
	}()
	pid := strconv.Itoa(cmd.Process.Pid)
	if said, err := bufio.NewReader(out).ReadString('\n'); said != "waiting\n" {
		t.Fatalf("%q, %v", said, err)
	}
	state := func() string {
		raw, err := os.ReadFile("/proc/" + pid + "/stat")
		must(t, err)
		return strings.Fields(string(raw))[2]
	}
	until(t, "the first thread is over", func() bool { return state() == "Z" })
	name, err := os.Readlink("/proc/" + pid + "/ns/user")
	must(t, err)
	namespace, err := strconv.ParseUint(strings.Trim(name, "user:[]"), 10, 64)
	must(t, err)
	if in, err := resident(namespace); in != cmd.Process.Pid || err != nil {
		t.Errorf("with a thread that waits: %d, %v; want %s", in, err, pid)
	}
	must(t, cmd.Process.Kill())
	until(t, "nobody is in it, though its number is taken", func() bool {
		in, err := resident(namespace)
		return in == 0 && err == nil
	})
	if state() != "Z" {
		t.Errorf("the process is %s, not a zombie", state())
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
	w.whole("1-1", 0)
	w.open()
	w.make(s) // adopted: it runs
	must(t, w.store.HandOver(t.Context(), "1-1"))
	w.whole("1-1", 0)
	pid := command(t, "runc", "--root", w.dir+"/runc", "state", c.id)
	if !strings.Contains(pid, `"running"`) {
		t.Errorf("the container: %s", pid)
	}
	c.stop()
	w.make(s)
	w.whole("1-1", 3)
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

// A container that moves the folder above a mount to a very deep place makes the path of that so long
// that runc can't read the list of mounts. On the node nobody sees it, before HandOver and after,
// whether the container has moved it itself, or another one with which it shares a volume.
func TestAContainerCanNotMoveAMountOfTheNode(t *testing.T) {
	w := newWorld(t)
	shared, inner := w.folderIn("shared"), w.folderIn("inner")
	longest := func(of mounts.Table) (n int) {
		for _, m := range of {
			n = max(n, len(m.Path))
		}
		return n
	}
	must(t, os.MkdirAll(shared+"/a/b", 0o755))
	for _, handOver := range []bool{true, false} {
		s := w.spec("1-1")
		s.Binds = []Bind{{Source: shared, Target: "/shared", Mapped: true}, {Source: inner, Target: "/shared/a/b", Mapped: true}}
		made := w.make(s)
		w.whole("1-1", 4)
		mover := w.spec("1-2")
		mover.Binds = s.Binds[:1]
		var c *running
		if handOver {
			// The container is created at this point, and started after HandOver. It
			// can't be told apart from here: it waits, and then it moves.
			c = w.start(made, "mkdir", "/shared/deep", ";", "wait")
			must(t, w.store.HandOver(t.Context(), "1-1"))
		} else {
			c = w.start(w.make(mover), "mkdir", "/shared/deep-too", ";", "wait")
		}
		from, to := "/shared/a", "/shared/deep"
		if !handOver {
			to += "-too"
		}
		out := command(t, "runc", "--root", w.dir+"/runc", "exec", c.id, "/inside", "deep", from, to)
		if strings.TrimSpace(out) != "ok" {
			t.Fatalf("it can't do that: %s", out)
		}
		if !handOver {
			if n := longest(w.inRoot("1-1")); n < 64<<10 {
				t.Errorf("a path of %d bytes: that shows nothing", n)
			}
		}
		mounted, err := mounts.Read()
		must(t, err)
		if n := longest(mounted.Within(w.dir)); n > 200 {
			t.Errorf("a path of %d bytes", n)
		}
		w.inside(w.make(w.spec("1-3")), "id")
		c.stop()
		for _, id := range []string{"1-1", "1-2", "1-3"} {
			must(t, w.store.Remove(t.Context(), id))
			w.nothing(id)
		}
		must(t, os.MkdirAll(shared+"/a/b", 0o755))
	}
}

// A container swaps a folder for links that lead elsewhere, in a volume that
// it shares with one in which something is mounted below that folder.
func TestSwappedTargetsStayInTheRoot(t *testing.T) {
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
					w.onlyBelow(s.ID)
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

// onlyBelow is that of what a container's mount namespace has of the world's folders, and the node hasn't, all
// is below the container's root.
func (w *world) onlyBelow(id string) {
	w.t.Helper()
	root := filepath.Join(w.store.folders.of(id), rootName)
	node, err := mounts.Read()
	must(w.t, err)
	must(w.t, w.store.Within(id, func(string) error {
		mounted, err := mounts.Read()
		found := 0
		for _, m := range mounted {
			if !strings.Contains(m.Root+m.Path, filepath.Base(w.dir)+"/") {
				continue // somebody else's
			}
			_, nodes := node.At(m.Path)
			below := len(mounts.Table{m}.Within(root)) == 1
			if below {
				found++
			}
			if !nodes && !below {
				w.t.Errorf("mounted at %.200q", m.Path)
			}
		}
		if found < 2 { // the root and the shared volume; the other one may unmount binds in that, by removing its folder
			w.t.Errorf("%d mounts were found below the root", found)
		}
		return err
	}))
}

// Another container moves the folder above a mount just before the last look at it.
func TestConcurrentMoveIsDetected(t *testing.T) {
	w := newWorld(t)
	shared, inner := w.folderIn("shared"), w.folderIn("inner")
	s := w.spec("1-1")
	s.Files = nil
	s.Binds = []Bind{{Source: shared, Target: "/s", Mapped: true}, {Source: inner, Target: "/s/a/b", Mapped: true}}
	for name, move := range map[string]func() error{
		"moved": func() error { return os.Rename(shared+"/a", shared+"/moved") },
		"moved, and a link in its place": func() error {
			must(t, os.Rename(shared+"/a", shared+"/moved"))
			return os.Symlink("moved", shared+"/a")
		},
		"another in its place": func() error {
			must(t, os.Rename(shared+"/a", shared+"/moved"))
			return os.MkdirAll(shared+"/a/b", 0o755)
		},
	} {
		w.store.reached = func(step string) {
			if step == "bind 1" {
				must(t, move())
			}
		}
		_, err := w.store.Make(t.Context(), s)
		w.store.reached = func(string) {}
		kind(t, err, node.Transient, "/s/a/b")
		w.nothing("1-1")
		must(t, os.RemoveAll(shared+"/a"))
		must(t, os.RemoveAll(shared+"/moved"))
		t.Log(name, err)
	}
	w.make(s)
	w.whole("1-1", 3)
}

// An agent is killed, and the next one has another container's mount namespace open under the number that the
// first one had: the link to it is gone before.
func TestNoLinkLeadsToAnothersMounts(t *testing.T) {
	w := newWorld(t)
	s, other := w.spec("1-1"), w.spec("1-2")
	link := w.make(s).MountNS
	w.killed()
	if _, err := os.Stat(link); !os.IsNotExist(err) {
		t.Errorf("the mount namespace of a killed agent is there: %v", err)
	}
	theirs := w.make(other).MountNS
	must(t, os.Remove(link))
	to, err := os.Readlink(theirs)
	must(t, err)
	must(t, os.Symlink(to, link))
	w.open()
	for _, one := range []string{link, theirs} {
		if _, err := os.Lstat(one); !os.IsNotExist(err) {
			t.Errorf("%s is still there: %v", one, err)
		}
	}
	for _, id := range []string{"1-1", "1-2"} {
		if drift, err := w.store.Check(id); err != nil || drift != "" {
			t.Errorf("%s: %q, %v", id, drift, err)
		}
		kind(t, w.store.Within(id, func(string) error { return nil }), node.Transient)
	}
	w.make(s)
	w.make(other)
	w.whole("1-1", 2)
	w.whole("1-2", 2)
}

// A croft of before had the root, and its layers while it made that, mounted on the node.
func TestMountsOfAnEarlierCroftAreRemoved(t *testing.T) {
	for name, do := range map[string]func(w *world, s Spec) error{
		"made":        func(w *world, s Spec) error { _, err := w.store.Make(t.Context(), s); return err },
		"handed over": func(w *world, s Spec) error { return w.store.HandOver(t.Context(), s.ID) },
		"let go":      func(w *world, s Spec) error { return w.store.LetGo(s.ID) },
		"removed":     func(w *world, s Spec) error { return w.store.Remove(t.Context(), s.ID) },
		"opened":      func(w *world, _ Spec) error { w.open(); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			s := w.spec("1-1")
			folder := filepath.Dir(w.make(s).Root)
			must(t, w.store.spaces.letGo("1-1"))
			for _, at := range []string{rootName, layersName, mountsName} {
				must(t, os.MkdirAll(folder+"/"+at, 0o755))
				must(t, unix.Mount("croft", folder+"/"+at, "tmpfs", 0, ""))
			}
			must(t, do(w, s))
			mounted, err := mounts.Read()
			must(t, err)
			for _, at := range []string{rootName, layersName, mountsName} {
				if m, there := mounted.At(folder + "/" + at); there {
					t.Errorf("%+v is still mounted", m)
				}
			}
			if name == "made" {
				w.whole("1-1", 2)
			}
		})
	}
}

// mountShared mounts a file system on a folder, below which mounts propagate. It is no tmpfs, which can't be ID-mapped before Linux 6.3.
func mountShared(t *testing.T, dir string, mode os.FileMode) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "disk")
	must(t, os.WriteFile(file, nil, 0o600))
	must(t, os.Truncate(file, 64<<20))
	command(t, "mkfs.ext4", "-q", file)
	command(t, "mount", "-o", "loop", file, dir)
	must(t, os.Chmod(dir, mode))
	must(t, unix.Mount("", dir, "", unix.MS_SHARED, ""))
}

func TestStoreMountsAreNotPropagated(t *testing.T) {
	w := &world{t: t, dir: folder(t), log: &bytes.Buffer{}}
	mountShared(t, w.dir, 0o711)
	w.open()
	volumes := w.folderIn("volumes")
	mountShared(t, volumes, 0o755)
	s := w.spec("1-1")
	s.Binds = []Bind{{Source: w.folderIn("volumes/a"), Target: "/a", Mapped: true}, {Source: w.folderIn("volumes/b"), Target: "/a/b", Mapped: true}}
	w.make(s)
	mounted, err := mounts.Read()
	must(t, err)
	for _, m := range append(mounted.Within(w.dir+"/run"), w.inRoot("1-1")...) {
		if m.Shared {
			t.Errorf("%s is shared", m.Path)
		}
	}
	if n := w.mounts("volumes"); n != 1 {
		t.Errorf("%d mounts in the volumes' folder, want its own: one leaked to a source", n)
	}
	must(t, w.store.Remove(t.Context(), "1-1"))
	w.nothing("1-1")
}

// TestAnUnmountReachesSpaces: a pool that the node unmounts isn't kept in use by containers that are being created.
func TestAnUnmountReachesSpaces(t *testing.T) {
	w := &world{t: t, dir: folder(t), log: &bytes.Buffer{}}
	mountShared(t, w.dir, 0o711) // as systemd makes the machine's root
	w.open()
	pool := w.folderIn("pool")
	must(t, unix.Mount("croft", pool, "tmpfs", 0, "mode=755"))
	w.make(w.spec("1-1"))
	there := func() (found bool) {
		must(t, w.store.Within("1-1", func(string) error {
			mounted, err := mounts.Read()
			_, found = mounted.At(pool)
			return err
		}))
		return found
	}
	if !there() {
		t.Fatal("the pool isn't in the container's mount namespace")
	}
	must(t, unix.Unmount(pool, 0))
	if there() {
		t.Error("the pool is still mounted in the container's mount namespace")
	}
	must(t, w.store.Remove(t.Context(), "1-1"))
	w.nothing("1-1")
}
