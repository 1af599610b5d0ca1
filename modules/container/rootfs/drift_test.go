package rootfs

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/pkg/node"
)

func TestDriftIsDetectedAndRepaired(t *testing.T) {
	w := newWorld(t)
	volume := w.folderIn("volumes/v")
	s := w.spec("1-1")
	s.Binds = []Bind{{Source: volume, Target: "/data", Mapped: true}}
	s.Files = append(s.Files, File{Target: "/made/here"})
	other := w.spec("1-2")
	w.make(other)
	in := func(name string) string { return filepath.Join(w.dir, "run/container/1-1", name) }
	off := func(name string) func() { return func() { must(t, unix.Unmount(in(name), unix.MNT_DETACH)) } }
	for _, c := range []struct {
		name, says string
		tamper     func()
		// keeps is whether the namespaces must stay.
		keeps bool
	}{
		{"the root is let go", "root file system isn't mounted", func() { must(t, w.store.spaces.letGo("1-1")) }, true},
		{"the network namespace is let go", "net namespace isn't kept", off("net"), false},
		{"the user namespace is let go", "user namespace isn't kept", off("user"), false},
		{"another namespace is there", "other ones now", func() {
			off("net")()
			must(t, unix.Mount("/proc/self/ns/net", in("net"), "", unix.MS_BIND, ""))
		}, false},
		{"a volume is another one", "volumes/v, which it has at /data, is gone", func() {
			must(t, os.Rename(volume, volume+"-old"))
			must(t, os.Mkdir(volume, 0o755))
			must(t, os.RemoveAll(volume+"-old"))
		}, true},
		{"the layer is emptied", "its writable layer", func() { must(t, os.RemoveAll(s.Layer+"/upper")) }, true},
		{"the record is damaged", "half made", func() { must(t, os.WriteFile(in("made.json"), []byte("{"), 0o600)) }, false},
		{"the node was started again", "user namespace isn't kept", func() { sweep(t, w.dir+"/run/container/1-1") }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := &world{t: t, dir: w.dir, store: w.store}
			w.make(s)
			w.whole("1-1", 4)
			was, err := pinned(in(""))
			must(t, err)
			c.tamper()
			drift, err := w.store.Check("1-1")
			if err != nil || !strings.Contains(drift, c.says) {
				t.Errorf("drift %q, %v; want %q", drift, err, c.says)
			}
			all, err := w.store.CheckAll()
			if err != nil || len(all) != 2 || all["1-1"] != drift || all["1-2"] != "" {
				t.Errorf("all: %v, %v", all, err)
			}
			w.make(s)
			w.whole("1-1", 4)
			now, err := pinned(in(""))
			must(t, err)
			if c.keeps && now != was { // numbers of those that are gone are given again
				t.Errorf("namespaces %v, before %v", now, was)
			}
		})
	}
	for _, id := range []string{"1-1", "1-2"} {
		must(t, w.store.Remove(t.Context(), id))
		w.nothing(id)
	}
	_, err := w.store.Check("1-1")
	kind(t, err, node.NotExist)
}

// A pool that is unmounted and mounted again doesn't disturb what uses it.
func TestUnmountedFileSystemIsNoDrift(t *testing.T) {
	w := newWorld(t)
	s := w.spec("1-1")
	s.Binds = []Bind{{Source: w.folderIn("pool/volumes/v"), Target: "/data", Mapped: true}}
	s.Layer = w.folderIn("pool/volumes/l")
	made := w.make(s)
	must(t, os.Rename(w.dir+"/pool/volumes", w.dir+"/away"))
	w.whole("1-1", 3)
	must(t, os.Rename(w.dir+"/away", w.dir+"/pool/volumes"))
	w.start(made, "wait")
	must(t, w.store.HandOver(t.Context(), "1-1"))
	w.whole("1-1", 0)
	must(t, os.Remove(w.dir+"/pool/volumes/v"))
	w.folderIn("pool/volumes/w") // so that the next one is another
	w.folderIn("pool/volumes/v")
	if drift, err := w.store.Check("1-1"); err != nil || !strings.Contains(drift, "/data") {
		t.Errorf("drift %q, %v", drift, err)
	}
	_, err := w.store.Make(t.Context(), s)
	kind(t, err, node.Busy)
}

func TestMakeTwiceChangesNothing(t *testing.T) {
	w := newWorld(t)
	s := w.spec("1-1")
	made := w.make(s)
	before, err := os.ReadFile(w.dir + "/run/container/1-1/made.json")
	must(t, err)
	w.open()
	// The same, written another way.
	s.Layer += "/."
	s.Files[0].Target = "//etc//hostname"
	if again := w.make(s); again != made {
		t.Errorf("made %v, then %v", made, again)
	}
	if now, err := os.ReadFile(w.dir + "/run/container/1-1/made.json"); err != nil || string(now) != string(before) {
		t.Errorf("was %s, is %s, %v", before, now, err)
	}
}

func TestAfterAStartOfTheNodeAllIsMadeAnew(t *testing.T) {
	w := newWorld(t)
	s := w.spec("1-1")
	w.inside(w.make(s), "write", "/kept", "kept")
	sweep(t, w.dir)
	w.open()
	if ids, err := w.store.List(); err != nil || len(ids) != 1 || ids[0] != "1-1" {
		t.Errorf("list: %v, %v", ids, err)
	}
	if got := w.inside(w.make(s), "read", "/kept"); got[0] != "kept" {
		t.Errorf("what it wrote: %q", got)
	}
	w.whole("1-1", 2)
	// What making needs isn't asked for.
	must(t, os.Chmod(w.dir, 0o700))
	must(t, os.WriteFile(filepath.Join(w.config().StateDir, "ranges.json"), []byte("damaged"), 0o600))
	if _, err := Open(w.config()); err == nil {
		t.Error("containers can be made")
	}
	for range 2 {
		must(t, TakeDown(t.Context(), w.config()))
	}
	if n := w.mounts("."); n != 0 {
		t.Errorf("%d mounts are left", n)
	}
}
