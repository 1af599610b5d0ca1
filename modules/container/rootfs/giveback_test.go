package rootfs

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// layerOf makes a user's layer.
func (w *world) layerOf(user string) string {
	layer := filepath.Join(w.dir, "layers", "of-"+fmt.Sprintf("%.64s", user))
	if err := os.MkdirAll(layer, 0o755); err != nil {
		w.t.Error(err)
	}
	return layer
}

// hold is the range that a user has for a layer.
func (w *world) hold(user string) Range {
	w.t.Helper()
	r, done, err := w.store.ranges.hold(user, w.layerOf(user))
	must(w.t, err)
	done()
	return r
}

// have are the users who have a range, also by the file.
func (w *world) have() []string {
	w.t.Helper()
	file, err := readRanges(w.store.ranges.path())
	must(w.t, err)
	if !maps.EqualFunc(file, w.store.ranges.held, func(a, b share) bool { return a.Index == b.Index && maps.Equal(a.Layers, b.Layers) }) {
		w.t.Errorf("the file has %v, the store %v", file, w.store.ranges.held)
	}
	return slices.Sorted(maps.Keys(file))
}

// giveBack gives back until those are left who should be: containers of tests beside
// this one may have processes of the same range.
func (w *world) giveBack(want ...string) {
	w.t.Helper()
	before, given := len(w.have()), 0
	for deadline := time.Now().Add(time.Minute); ; <-time.After(50 * time.Millisecond) {
		n, err := w.store.GiveBack(w.t.Context())
		must(w.t, err)
		given += n
		left := w.have()
		if given != before-len(left) {
			w.t.Fatalf("%d were given back, %d had ranges, and %v have", given, before, left)
		}
		if slices.Equal(left, want) {
			return
		}
		if len(left) < len(want) || time.Now().After(deadline) {
			w.t.Fatalf("%v have ranges, want %v", left, want)
		}
	}
}

// TestFreeKeysDontTakeAllRanges has more users than there are ranges come and go.
func TestFreeKeysDontTakeAllRanges(t *testing.T) {
	w := newWorld(t)
	users := map[string]share{}
	lost := w.layerOf("lost")
	on, err := fileSystemOf(lost)
	must(t, err)
	must(t, os.Remove(lost))
	for i := range rangeCount {
		users[fmt.Sprint("key", i)] = share{Index: uint32(i), Layers: map[string]string{lost: on}}
	}
	must(t, writeRanges(w.store.ranges.path(), users))
	w.open()
	s := w.spec("1-1")
	s.User = "honest"
	w.make(s)
	// Those stay that containers of tests beside this one have.
	if have := w.have(); !slices.Contains(have, "honest") || len(have) > rangeCount/2 {
		t.Errorf("%d users have ranges, want the honest one and few others", len(have))
	}
}

func TestARangeGoesWithTheLastLayer(t *testing.T) {
	w := newWorld(t)
	one, two := w.spec("1-1"), w.spec("1-2")
	w.make(one)
	w.make(two)
	w.hold("other")
	w.giveBack("other", "user")
	must(t, w.store.Remove(t.Context(), "1-1"))
	must(t, os.RemoveAll(one.Layer))
	w.giveBack("other", "user")
	// The layer goes first: the container still stands.
	must(t, os.RemoveAll(two.Layer))
	w.giveBack("other", "user")
	must(t, w.store.Remove(t.Context(), "1-2"))
	w.giveBack("other")
	// It is as good for the next store.
	w.open()
	w.giveBack("other")
}

// TestAnUnmountedDiskKeepsRanges has the layer's file system away, and another in
// its place.
func TestAnUnmountedDiskKeepsRanges(t *testing.T) {
	w := newWorld(t)
	pool := w.folderIn("pool")
	must(t, unix.Mount("croft", pool, "tmpfs", 0, "size=1m"))
	layer := filepath.Join(pool, "layer")
	must(t, os.Mkdir(layer, 0o755))
	_, done, err := w.store.ranges.hold("user", layer)
	must(t, err)
	done()
	aside := w.folderIn("aside")
	must(t, unix.Mount(pool, aside, "", unix.MS_BIND, ""))
	must(t, unix.Unmount(pool, 0))
	w.giveBack("user")
	must(t, unix.Mount("croft", pool, "tmpfs", 0, "size=1m"))
	w.giveBack("user")
	must(t, unix.Unmount(pool, 0))
	must(t, os.Remove(pool))
	w.giveBack("user")
	must(t, os.Mkdir(pool, 0o755))
	must(t, unix.Mount(aside, pool, "", unix.MS_BIND, ""))
	w.giveBack("user")
	must(t, os.Remove(layer))
	w.giveBack()
}

func TestARangeStaysWhileAProcessHasIt(t *testing.T) {
	w := newWorld(t)
	r := w.hold("user")
	must(t, os.Remove(w.layerOf("user")))
	cmd := exec.CommandContext(t.Context(), "sleep", "600")
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: r.Base + 1000, Gid: r.Base}}
	must(t, cmd.Start())
	w.giveBack("user")
	must(t, cmd.Process.Kill())
	_ = cmd.Wait() // it was killed
	w.giveBack()
}

func TestARangeStaysWhileSomethingIsMadeOnIt(t *testing.T) {
	w := newWorld(t)
	_, done, err := w.store.ranges.hold("user", w.layerOf("user"))
	must(t, err)
	must(t, os.Remove(w.layerOf("user")))
	w.giveBack("user")
	done()
	w.giveBack()
}

// TestRangeSurvivesACrashAtEveryStep ends the agent at each step of making a
// container: as soon as anything has its range, that is noted.
func TestRangeSurvivesACrashAtEveryStep(t *testing.T) {
	w := newWorld(t)
	s := w.spec("1-1")
	making := w.steps(func() { w.make(s) })
	must(t, w.store.Remove(t.Context(), s.ID))
	must(t, os.RemoveAll(s.Layer))
	w.giveBack()
	for i, name := range making {
		t.Run(name, func(t *testing.T) {
			w := &world{t: t, dir: w.dir, store: w.store}
			s := w.spec("1-1")
			w.crashAt(crash{Spec: s, Do: "Make", Step: i + 1})
			w.giveBack("user")
			must(t, os.RemoveAll(s.Layer))
			w.giveBack("user")
			must(t, w.store.Remove(t.Context(), s.ID))
			w.giveBack()
		})
	}
}

// TestRangesOfAnOlderCroftStay reads a file that names no layers.
func TestRangesOfAnOlderCroftStay(t *testing.T) {
	w := newWorld(t)
	sum, err := sumOf(map[string]uint32{"anna": 7})
	must(t, err)
	must(t, os.WriteFile(w.store.ranges.path(), fmt.Appendf(nil, "{\"version\": 1, \"sum\": %q, \"users\": {\"anna\": 7}}\n", sum), 0o600))
	w.open()
	w.giveBack("anna")
	if r := w.hold("anna"); r != rangeOf(7) {
		t.Errorf("anna has %v now", r)
	}
	must(t, os.Remove(w.layerOf("anna")))
	w.giveBack("anna")
	w.open()
	w.giveBack("anna")
}

// TestAContainerHasIDsAbove31Bits runs one with the highest range.
func TestAContainerHasIDsAbove31Bits(t *testing.T) {
	w := newWorld(t)
	s := w.spec("1-1")
	on, err := fileSystemOf(s.Layer)
	must(t, err)
	must(t, writeRanges(w.store.ranges.path(), map[string]share{"user": {Index: rangeCount - 1, Layers: map[string]string{s.Layer: on}}}))
	w.open()
	volume := w.folderIn("volume")
	s.Binds = []Bind{{Source: volume, Target: "/data", Mapped: true}}
	made := w.make(s)
	if made.Range.Base != 0xefff0000 {
		t.Fatalf("the range is %+v", made.Range)
	}
	got := w.inside(made, "id", ";", "write", "/top", "mine", ";", "chown", "/top", "65535", ";", "write", "/data/x", "hello", ";", "chown", "/data/x", "1000")
	if !slices.Equal(got, []string{"0 0", "ok", "ok", "ok", "ok"}) {
		t.Errorf("inside: %q", got)
	}
	if top, x := owns(t, filepath.Join(s.Layer, "upper/top")), owns(t, volume+"/x"); top != 0xefffffff || x != 1000 {
		t.Errorf("on disk /top is owned by %d, the volume's file by %d", top, x)
	}
}
