package container

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/modules/container/launch"
	"github.com/croft-edge/croft/modules/container/rootfs"
	"github.com/croft-edge/croft/pkg/mounts"
	"github.com/croft-edge/croft/pkg/node"
)

// A user has two containers that share a volume, in which the second has another one mounted. The
// first one moves the folder above that mount to a path so long that runc can't read a list of
// mounts with it. If the node had that mount, no container could be started any more. It hasn't:
// neither while the second container's start is prepared, nor after that start has failed.
func TestContainersCannotMoveNodeMounts(t *testing.T) {
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

// The run folder of most machines is mounted noexec.
func TestNoexecRunFolder(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.close()
	must(t, unix.Mount(w.cfg.RunDir, w.cfg.RunDir, "", unix.MS_BIND|unix.MS_REC, ""))
	must(t, unix.Mount("", w.cfg.RunDir, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_NOEXEC|unix.MS_NOSUID|unix.MS_NODEV, ""))
	w.open()
	w.runs(w.spec("1-1", "serve"))
	must(t, w.Delete("1-1"))
}

// A noexec state folder is refused when the module is opened.
func TestNoexecStateFolderIsRefused(t *testing.T) {
	dir := t.TempDir()
	must(t, unix.Mount("croft", dir, "tmpfs", unix.MS_NOEXEC, ""))
	t.Cleanup(func() { must(t, unix.Unmount(dir, unix.MNT_DETACH)) })
	_, err := openRuntime(t.Context(), Config{StateDir: dir, RunDir: dir})
	kind(t, err, node.Refused, "noexec", dir)
}

// Starts that hang, for instance on a file that another container has a lease on, don't block
// others.
func TestHangingStartGivesItsTurnAway(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	raw, err := os.ReadFile(w.cfg.wrapper())
	must(t, err)
	gate, hung := filepath.Join(w.dir, "gate"), filepath.Join(w.dir, "hung-")
	// The container's ID is the last argument of "runc create".
	hangs := "#!/bin/sh\ncase \"$*\" in *create*\" 9-\"*) for id; do :; done; : >'" + hung + "'\"$id\"; " +
		"while [ ! -e '" + gate + "' ]; do sleep 0.1; done;; esac\n"
	must(t, os.WriteFile(w.cfg.wrapper()+".new", append([]byte(hangs), raw...), 0o700))
	must(t, os.Rename(w.cfg.wrapper()+".new", w.cfg.wrapper()))
	for i := range launch.MostAtOnce {
		_, err := w.Create(w.spec(fmt.Sprintf("9-%d", i), "serve"))
		must(t, err)
	}
	// As many as may be made at once: if these kept their turns, nobody else would get one.
	eventually(t, "all of them hang", func() bool {
		all, err := filepath.Glob(hung + "*")
		return err == nil && len(all) == launch.MostAtOnce
	})
	other := w.spec("1-1", "serve")
	other.User = "bob"
	w.runs(other)
	must(t, os.WriteFile(gate, nil, 0o600))
	for i := range launch.MostAtOnce {
		info, err := w.Start(fmt.Sprintf("9-%d", i))
		if err != nil || info.State != node.ContainerRunning {
			t.Errorf("%+v (%v)", info, err)
		}
	}
	eventually(t, "all turns are given back", func() bool { return w.module.launcher.Busy() == 0 })
}

// The next agent unmounts the root that a killed agent had mounted for a start.
func TestRootOfAKilledAgentIsUnmounted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.spec("1-1")
	s.Entrypoint = []string{"/nope"}
	_, err := w.Create(s)
	must(t, err)
	_, err = w.Start("1-1")
	kind(t, err, node.Invalid, "/nope")
	r, _ := w.module.table.Record("1-1")
	w.close()
	killed, err := rootfs.Open(rootfs.Config{RunDir: w.cfg.RunDir, StateDir: w.cfg.StateDir})
	must(t, err)
	defer killed.Close()
	_, err = killed.Make(t.Context(), r.Root)
	must(t, err)
	kept := func() bool {
		_, err := os.Lstat(w.cfg.RunDir + "/container/1-1/mnt")
		return err == nil
	}
	if !kept() {
		t.Fatal("nothing is kept: that shows nothing")
	}
	w.open()
	if kept() {
		t.Error("the link to what the one before had open is still there")
	}
	eventually(t, "the root is let go", func() bool {
		info, err := w.Inspect("1-1")
		return err == nil && info.Drift == ""
	})
}
