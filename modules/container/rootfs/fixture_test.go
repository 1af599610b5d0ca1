package rootfs

import (
	"bytes"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/pkg/mounts"
	"github.com/croft-edge/croft/pkg/node"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func kind(t testing.TB, err error, want node.Kind, words ...string) {
	t.Helper()
	if node.KindOf(err) != want {
		t.Fatalf("%v is %s, want %s", err, node.KindOf(err), want)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%q doesn't say %q", err, w)
		}
	}
}

// folder is a temporary folder through which everybody may walk. Whatever a
// test does, nothing stays mounted in it.
func folder(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "croft-rootfs-")
	must(t, err)
	must(t, os.Chmod(dir, 0o711))
	t.Cleanup(func() {
		sweep(t, dir)
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// sweep unmounts all below dir, including nested mounts.
func sweep(t testing.TB, dir string) {
	t.Helper()
	for range 100 {
		mounted, err := mounts.Read()
		must(t, err)
		left := mounted.Within(dir).Paths()
		if len(left) == 0 {
			return
		}
		slices.SortFunc(left, func(a, b string) int { return len(a) - len(b) })
		if err := unix.Unmount(left[0], unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW); err != nil {
			t.Fatalf("cannot unmount %.200s: %v", left[0], err)
		}
	}
	t.Fatalf("%s can't be unmounted", dir)
}

// world is a store and what its containers are made of.
type world struct {
	t     testing.TB
	dir   string
	store *Store
	log   *bytes.Buffer
}

// newWorld is one that holds no mount namespace in the end.
func newWorld(t testing.TB) *world {
	t.Helper()
	w := &world{t: t, dir: folder(t), log: &bytes.Buffer{}}
	before := mountNamespaces(t)
	t.Cleanup(func() {
		w.store.Close()
		if n := mountNamespaces(t); n != before {
			t.Errorf("%d mount namespaces are open, %d before", n, before)
		}
	})
	w.open()
	return w
}

// mountNamespaces counts those that this process has open.
func mountNamespaces(t testing.TB) (n int) {
	t.Helper()
	all, err := os.ReadDir("/proc/self/fd")
	must(t, err)
	for _, one := range all {
		if to, err := os.Readlink("/proc/self/fd/" + one.Name()); err == nil && strings.HasPrefix(to, "mnt:[") {
			n++
		}
	}
	return n
}

// killed has the store end as by SIGKILL.
func (w *world) killed() {
	w.store.spaces.mu.Lock()
	defer w.store.spaces.mu.Unlock()
	for id, in := range w.store.spaces.open {
		in.close()
		delete(w.store.spaces.open, id)
	}
}

func (w *world) config() Config {
	return Config{RunDir: filepath.Join(w.dir, "run"), StateDir: filepath.Join(w.dir, "state"), Log: zerolog.New(zerolog.SyncWriter(w.log))}
}

func (w *world) open() {
	w.t.Helper()
	if w.store != nil {
		w.killed()
	}
	var err error
	w.store, err = Open(w.config())
	must(w.t, err)
}

// folderIn makes a folder of the world.
func (w *world) folderIn(name string) string {
	w.t.Helper()
	path := filepath.Join(w.dir, name)
	must(w.t, os.MkdirAll(path, 0o755))
	return path
}

// image makes a layer with the program in it, and what fill adds.
func (w *world) image(name string, fill func(dir string)) string {
	w.t.Helper()
	dir := w.folderIn("images/" + name)
	must(w.t, os.MkdirAll(dir+"/etc", 0o755))
	must(w.t, os.WriteFile(dir+"/etc/passwd", []byte("root:x:0:0::/:/\n"), 0o644))
	in, err := os.Open(os.Getenv(programVariable))
	must(w.t, err)
	defer in.Close()
	out, err := os.OpenFile(dir+"/inside", os.O_CREATE|os.O_WRONLY, 0o755)
	must(w.t, err)
	_, err = io.Copy(out, in)
	must(w.t, err)
	must(w.t, out.Close())
	if fill != nil {
		fill(dir)
	}
	return dir
}

// spec is one of a plain container.
func (w *world) spec(id string) Spec {
	w.t.Helper()
	layer := filepath.Join(w.dir, "layers", id)
	must(w.t, os.MkdirAll(layer, 0o755))
	return Spec{ID: id, User: "user", Lower: []string{w.image("plain", nil)}, Layer: layer,
		Files: []File{{Target: "/etc/hostname", Content: []byte("box\n")}}}
}

func (w *world) make(spec Spec) Made {
	w.t.Helper()
	made, err := w.store.Make(w.t.Context(), spec)
	must(w.t, err)
	return made
}

// mounts counts the node's mounts below a folder of the world.
func (w *world) mounts(of string) int {
	w.t.Helper()
	mounted, err := mounts.Read()
	must(w.t, err)
	return len(mounted.Within(filepath.Join(w.dir, of)))
}

// inRoot are the mounts in a container's root.
func (w *world) inRoot(id string) (in mounts.Table) {
	w.t.Helper()
	must(w.t, w.store.Within(id, func(root string) error {
		mounted, err := mounts.Read()
		in = mounted.Within(root)
		return err
	}))
	return in
}

// whole is that a container stands, with its two namespaces on the node and that many mounts in
// its root, none when it was handed over.
func (w *world) whole(id string, inRoot int) {
	w.t.Helper()
	if drift, err := w.store.Check(id); err != nil || drift != "" {
		w.t.Fatalf("container %s: %q, %v", id, drift, err)
	}
	_, err := os.Lstat(MountNS(w.store.folders.of(id)))
	switch {
	case inRoot == 0 && !os.IsNotExist(err):
		w.t.Fatalf("container %s still has a mount namespace (%v)", id, err)
	case inRoot != 0:
		if in := w.inRoot(id); len(in) != inRoot {
			w.t.Fatalf("container %s has %d mounts in its root, want %d", id, len(in), inRoot)
		}
	}
	if n := w.mounts("run/container/" + id); n != 2 {
		w.t.Fatalf("container %s has %d mounts on the node, want 2", id, n)
	}
}

// nothing is that nothing of a container is there.
func (w *world) nothing(id string) {
	w.t.Helper()
	if n := w.mounts("run/container/" + id); n != 0 {
		w.t.Errorf("%d mounts of container %s are left", n, id)
	}
	if _, err := os.Lstat(filepath.Join(w.dir, "run/container", id)); !os.IsNotExist(err) {
		w.t.Errorf("the folder of container %s is left: %v", id, err)
	}
	if n := w.mounts("run"); n != 1 && w.containers() == 0 {
		w.t.Errorf("%d mounts are left, want the store's own", n)
	}
}

func (w *world) containers() int {
	w.t.Helper()
	ids, err := w.store.List()
	must(w.t, err)
	return len(ids)
}

// files are the paths and contents below a folder.
func files(t testing.TB, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	must(t, filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			raw, err := os.ReadFile(path)
			out[path] = string(raw)
			return err
		}
		out[path] = d.Type().String()
		return err
	}))
	return out
}

// untouched runs fn, after which a folder must be as before.
func untouched(t testing.TB, dir string, fn func()) {
	t.Helper()
	was := files(t, dir)
	fn()
	if now := files(t, dir); !maps.Equal(was, now) {
		t.Errorf("%s was changed: it had %v, and has %v", dir, slices.Sorted(maps.Keys(was)), slices.Sorted(maps.Keys(now)))
	}
}

func command(t testing.TB, name string, args ...string) string {
	t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %v: %v\n%s", name, args, err, out)
	}
	return string(out)
}

// until waits for what must come to hold.
func until(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("it didn't come to be that %s", what)
		}
	}
}
