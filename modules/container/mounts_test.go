package container

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/croft-edge/croft/pkg/mounts"
	"github.com/croft-edge/croft/pkg/node"
)

// A user has two containers that share a volume, in which the second has another one mounted. The
// first one moves the folder above that mount to a path so long that runc couldn't read the list of
// mounts: on the node, no container of anybody could be started any more. The node has no such
// mount: not while the second one waits to be started, and not when it can't be.
func TestNobodyMovesAMountOfTheNode(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	shared, inner := filepath.Join(w.dir, "v1"), filepath.Join(w.dir, "v2")
	must(t, os.MkdirAll(filepath.Join(shared, "deep"), 0o755))
	must(t, os.Mkdir(inner, 0o755))
	outer := node.MountSpec{Volume: "7-1", Source: shared, Target: "/s"}
	mover := w.spec("1-1", "serve")
	mover.Mounts = []node.MountSpec{outer}
	w.runs(mover)
	for name, c := range map[string]struct {
		program []string
		starts  bool
	}{
		"waits":            {[]string{"/bin/tool", "serve"}, true},
		"can't be started": {[]string{"/nope"}, false},
	} {
		must(t, os.MkdirAll(filepath.Join(shared, "a/b"), 0o755))
		s := w.spec("1-2")
		s.Entrypoint = c.program
		s.Mounts = []node.MountSpec{outer, {Volume: "7-2", Source: inner, Target: "/s/a/b"}}
		_, err := w.Create(s)
		must(t, err)
		w.ready("1-2") // what is done beside has been done
		if !c.starts {
			_, err := w.Start("1-2")
			kind(t, err, node.Invalid, "/nope")
		}
		if code, out, _ := w.exec("1-1", "deep", "/s/a", "/s/deep/"+name); code != 0 {
			t.Fatalf("%s: it can't move the folder: %s", name, out)
		}
		mounted, err := mounts.Read()
		must(t, err)
		for _, m := range mounted.Within(w.cfg.RunDir + "/container") {
			if id, _ := filepath.Rel(w.cfg.RunDir+"/container", m.Path); id != "." && !slices.Contains([]string{"net", "user"}, filepath.Base(m.Path)) {
				t.Errorf("%s: the node has %.200q mounted", name, m.Path)
			}
		}
		other := w.spec("2-1", "serve")
		other.User = "bob"
		w.runs(other)
		for _, id := range []string{"1-2", "2-1"} {
			must(t, w.Delete(id))
		}
	}
	must(t, w.Delete("1-1"))
	w.nothingLeft("1-1", "1-2", "2-1")
}

// What an agent that was killed had mounted to make a container is let go by the next one.
func TestTheRootOfAKilledAgentIsLetGo(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.spec("1-1")
	s.Entrypoint = []string{"/nope"}
	_, err := w.Create(s)
	must(t, err)
	_, err = w.Start("1-1")
	kind(t, err, node.Invalid, "/nope")
	r, _ := w.module.recordOf("1-1")
	w.close()
	_, err = w.module.roots.Make(t.Context(), r.Root)
	must(t, err)
	kept := func() bool {
		mounted, err := mounts.Read()
		must(t, err)
		_, there := mounted.At(w.cfg.RunDir + "/container/1-1/mnt")
		return there
	}
	if !kept() {
		t.Fatal("nothing is kept: that shows nothing")
	}
	w.open()
	eventually(t, "the root is let go", func() bool { return !kept() })
	if info, err := w.Inspect("1-1"); err != nil || info.Drift != "" {
		t.Errorf("%+v (%v)", info, err)
	}
}
