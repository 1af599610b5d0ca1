package mirror_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/pkg/atomicfile"
	"github.com/croft-edge/croft/pkg/atomicfile/faulty"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/provision/persist"
	"github.com/croft-edge/croft/provision/persist/fs"
	"github.com/croft-edge/croft/provision/persist/mirror"
	"github.com/croft-edge/croft/provision/store"
)

// crashWorld is a world whose mirror is on a disk that breaks: at the n-th step of the life, the power of the mirror's machine is cut, and the
// node dies with it.
type crashWorld struct {
	*world
	disk *faulty.Disk
}

func newCrashWorld(t *testing.T) *crashWorld {
	t.Helper()
	c := &crashWorld{world: newWorld(t)}
	c.restart()
	return c
}

// restart makes the provider anew, as a process does that starts. The disk is another one: what a dead process still had to do never happens.
func (c *crashWorld) restart() {
	c.t.Helper()
	c.disk = faulty.New()
	p, err := fs.New(fs.Config{Instances: []fs.Settings{{Folder: filepath.Join(c.root, "mirror")}}, Hook: c.disk.Hook})
	if err != nil {
		c.t.Fatal(err)
	}
	c.provider = &watched{Provider: p, calls: map[string]int{}}
}

// history are the states that a store's folder has had after each of its changes, in order, and how many there were at the last moment at which the mirror had
// everything; 0 when it never had.
type history struct {
	states   []map[string]string
	mirrored int
}

// watch notes the whole folder after each change.
func (h *history) watch(t testing.TB, root string) func(names ...string) {
	return func(...string) { h.states = append(h.states, files(t, root)) }
}

// check compares what was restored with the states: it is one of them, as a whole, and none from before the last moment at which the mirror had everything.
func (h *history) check(got map[string]string) error {
	at := -1
	for i, state := range h.states {
		if maps.Equal(state, got) {
			at = i
		}
	}
	switch {
	case at < 0:
		return errors.Errorf("the store never was as restored: %.400q", fmt.Sprint(got))
	case at+1 < h.mirrored:
		return errors.Errorf("it is state %d of %d, and the mirror had state %d", at+1, len(h.states), h.mirrored)
	}
	return nil
}

// life changes the store a few times, and lets the mirror follow. It returns false when the mirror died on the way.
func (c *crashWorld) life(h *history) bool {
	c.t.Helper()
	c.changed = h.watch(c.t, c.folder())
	m, stop := c.start()
	defer stop()
	dead := func() bool { return c.disk.Fired().Op != "" }
	settled := func() bool {
		until(c.t, "mirrored, or dead", func() bool {
			s := m.Status()
			return dead() || s.Complete && s.Names == 0 && s.Error == "" && s.Listed.After(time.Time{})
		})
		if dead() {
			return false
		}
		h.mirrored = len(h.states)
		return true
	}
	change := func(do func()) bool {
		do()
		return settled()
	}
	rec := c.record()
	return change(func() { c.write(rec) }) &&
		change(func() { rec.Attempts++; c.write(rec, c.record()) }) &&
		change(func() {
			if err := c.records.Remove(rec.ID()); err != nil {
				c.t.Fatal(err)
			}
		}) && change(c.live)
}

// at lets a life die at its n-th point, with a part of what wasn't synced kept, and reports whether there is such a point.
func (c *crashWorld) at(n, kept int) (h history, fired atomicfile.Point) {
	c.t.Helper()
	c.disk.DieAt(n)
	c.life(&h)
	fired = c.disk.Fired()
	if fired.Op != "" && kept >= 0 {
		if err := c.disk.CutPower(kept); err != nil {
			c.t.Fatal(err)
		}
	}
	return h, fired
}

// TestMirrorDiesAtEveryStep stops node and mirror at every durable step of the mirror. When the node's disk is lost with it, what can be
// restored is the store as it was when the mirror had everything the last time, or later; when it isn't, the mirror catches up, and nothing
// is left over.
func TestMirrorDiesAtEveryStep(t *testing.T) {
	points := 0
	for n := 0; ; n++ {
		some := false
		for kept := -1; kept <= 1; kept++ {
			c := newCrashWorld(t)
			h, fired := c.at(n, kept)
			if fired.Op == "" {
				break
			}
			some = true
			points++
			c.lost(h, fmt.Sprintf("point %d, %v, kept %d", n, fired, kept))
			c.changed = nil
			c.catchesUp()
			if t.Failed() {
				t.Fatalf("at point %d, kept %d", n, kept)
			}
		}
		if !some {
			break
		}
	}
	fmt.Printf("crash points of a mirror: %d\n", points)
	if points < 150 {
		t.Errorf("only %d points: the steps aren't seen", points)
	}
}

// lost restores from the mirror as the crash left it.
func (c *crashWorld) lost(h history, when string) {
	c.t.Helper()
	folder, report, err := c.restored(nil)
	if err != nil {
		if h.mirrored > 0 {
			c.t.Errorf("%s: the mirror had everything once, and now: %v, %+v", when, err, report)
		}
		if kind := node.KindOf(err); kind != node.NotExist && kind != node.Refused {
			c.t.Errorf("%s: %v (%s)", when, err, kind)
		}
		return
	}
	if err := h.check(files(c.t, folder)); err != nil {
		c.t.Errorf("%s: %v", when, err)
	}
}

// catchesUp starts the node again, with its disk, and the mirror's.
func (c *crashWorld) catchesUp() {
	c.t.Helper()
	c.restart()
	m, stop := c.start()
	c.live()
	mirrored(c.t, m)
	want := files(c.t, c.folder())
	names, err := mirror.Folder(c.folder()).Names()
	if err != nil {
		c.t.Fatal(err)
	}
	// What the list doesn't have is removed after it: what crashes left, too.
	until(c.t, "nothing is left over", func() bool {
		all, err := os.ReadDir(filepath.Join(c.root, "mirror", "file"))
		return err == nil && len(slices.DeleteFunc(all, func(e os.DirEntry) bool { return strings.HasPrefix(e.Name(), ".") })) == len(names)
	})
	stop()
	folder, _, err := c.restored(nil)
	if err != nil {
		c.t.Errorf("after another life: %v", err)
		return
	}
	sameFiles(c.t, files(c.t, folder), want)
}

// TestRestoreDiesAtEveryStep stops a restore, with the rebirth in it, at every durable step. There is no store then, or a whole one that
// is reborn; another try makes one.
func TestRestoreDiesAtEveryStep(t *testing.T) {
	w := newWorld(t)
	m, stop := w.start()
	for range 3 {
		w.live()
	}
	mirrored(t, m)
	want, birth := files(t, w.folder()), w.records.Birth().ID
	stop()
	points := 0
	for n := 0; ; n++ {
		disk := faulty.New()
		disk.DieAt(n)
		var folder string
		use := func(c *mirror.RestoreConfig) { c.Hook, c.Rebirth = disk.Hook, rebirth(disk.Hook) }
		folder, _, err := w.restored(use)
		if disk.Fired().Op == "" {
			if err != nil {
				t.Fatal(err)
			}
			break
		}
		points++
		if err == nil {
			t.Errorf("it died at %v, and tells nothing", disk.Fired())
		}
		whole := func() bool {
			t.Helper()
			if names, err := mirror.Folder(folder).Names(); err != nil || len(names) == 0 {
				return false // missing, or with a lock alone
			}
			s, err := store.Open(store.Config{Root: folder})
			if err != nil {
				t.Fatalf("died at %v: %v", disk.Fired(), err)
			}
			defer s.Close()
			if s.Birth().ID == birth || s.AcceptsOlder() || s.Cursor().Change != 0 || len(s.Quarantined()) > 0 {
				t.Errorf("died at %v: a store that isn't reborn", disk.Fired())
			}
			sameFiles(t, files(t, folder), want)
			return true
		}
		if done := whole(); done {
			continue
		}
		if _, _, err := w.restored(func(c *mirror.RestoreConfig) { c.Folder = folder }); err != nil {
			t.Errorf("died at %v: the next try: %v", disk.Fired(), err)
		}
		if _, err := os.Lstat(folder + ".restore"); err == nil || !whole() {
			t.Errorf("died at %v: the next try made no store", disk.Fired())
		}
	}
	fmt.Printf("crash points of a restore: %d\n", points)
	if points < 30 {
		t.Errorf("only %d points: the steps aren't seen", points)
	}
}

// errDead is the error of a dead process's calls.
var errDead = errors.New("the process died here")

// TestNodeDiesAtEveryCall stops the node alone before and after each call of the provider: what it had asked for has happened.
func TestNodeDiesAtEveryCall(t *testing.T) {
	points := 0
	for n := 0; ; n++ {
		w := newWorld(t)
		c := &crashWorld{world: w, disk: faulty.New()}
		var mu sync.Mutex
		seen, dead := 0, false
		w.provider.step = func(string, bool) error {
			mu.Lock()
			defer mu.Unlock()
			seen++
			if dead = dead || seen > n; dead {
				return errDead
			}
			return nil
		}
		h := history{}
		w.changed = h.watch(t, w.folder())
		m, stop := w.start()
		for range 2 { // the second with a list to replace
			w.live()
			until(t, "mirrored, or dead", func() bool {
				mu.Lock()
				defer mu.Unlock()
				s := m.Status()
				return dead || s.Complete && s.Names == 0 && s.Error == ""
			})
			mu.Lock()
			if !dead {
				h.mirrored = len(h.states)
			}
			mu.Unlock()
		}
		stop()
		if !dead {
			break
		}
		points++
		folder, _, err := w.restored(nil)
		if kind := node.KindOf(err); err != nil && kind != node.NotExist && kind != node.Refused {
			t.Errorf("call %d: %v", n, err)
		}
		if err != nil && h.mirrored > 0 {
			t.Errorf("call %d: the mirror had everything once, and now: %v", n, err)
		}
		if err == nil {
			if err := h.check(files(t, folder)); err != nil {
				t.Errorf("call %d: %v", n, err)
			}
		}
		w.changed = nil
		c.catchesUp()
	}
	if points < 15 {
		t.Errorf("only %d points", points)
	}
}

// TestHostileKeeper restores from mirrors that whoever keeps them has changed: it gets the store as of one list, or nothing.
func TestHostileKeeper(t *testing.T) {
	w := newWorld(t)
	m, stop := w.start()
	w.live()
	rec := w.record()
	w.write(rec)
	mirrored(t, m)
	stop()
	dir := filepath.Join(w.root, "mirror")
	older := snapshot(t, dir)
	olderFiles := files(t, w.folder())
	m, stop = w.start()
	rec.Attempts = 7
	w.write(rec, w.record())
	mirrored(t, m)
	stop()
	until(t, "removed", func() bool { // what the list doesn't have any more
		all, err := os.ReadDir(filepath.Join(dir, "file"))
		return err == nil && len(all) <= len(files(t, w.folder()))+3
	})
	newer, newerFiles := snapshot(t, dir), files(t, w.folder())

	of := func(all map[string]string, kind string) (out []string) {
		for name := range all {
			if strings.HasPrefix(name, kind+"/") {
				out = append(out, name)
			}
		}
		return out
	}
	mixed := func(list map[string]string, others ...map[string]string) map[string]string {
		out := map[string]string{}
		for _, all := range others {
			for name, text := range all {
				out[name] = text
			}
		}
		for _, name := range of(list, "list") {
			out[name] = list[name]
		}
		return out
	}
	check := func(what string, all map[string]string, want map[string]string) {
		t.Helper()
		lay(t, dir, all)
		folder, report, err := w.restored(nil)
		if want == nil {
			if kind := node.KindOf(err); err == nil || kind != node.Refused && kind != node.Invalid && kind != node.NotExist {
				t.Errorf("%s: %v (%s), %+v", what, err, kind, report)
			}
			if _, err := os.Lstat(folder); err == nil {
				t.Errorf("%s: there is a store", what)
			}
			return
		}
		if err != nil {
			t.Errorf("%s: %v, %+v", what, err, report)
			return
		}
		sameFiles(t, files(t, folder), want)
	}
	check("as it was left", newer, newerFiles)
	check("the older one, whole", older, olderFiles) // nobody without a memory can tell: docs/persistence.md
	check("the older list with the newer files", mixed(older, newer), nil)
	check("the newer list with the older files", mixed(newer, older), nil)
	check("the newer list with all files", mixed(newer, older, newer), newerFiles)
	for _, name := range of(newer, "file") {
		less := mixed(newer, newer)
		delete(less, name)
		check("without "+name, less, nil)
		torn := mixed(newer, newer)
		torn[name] = torn[name][:len(torn[name])-1]
		check("torn "+name, torn, nil)
		for _, other := range of(older, "file") {
			if older[other] != newer[name] {
				swapped := mixed(newer, newer)
				swapped[name] = older[other]
				check(name+" is "+other, swapped, nil)
			}
		}
	}
	for _, kind := range []string{"key", "list"} {
		less := mixed(newer, newer)
		for _, name := range of(newer, kind) {
			delete(less, name)
		}
		check("without "+kind, less, nil)
	}
	other := newWorld(t) // another node's mirror, in the place of this one's
	m, stop = other.start()
	other.live()
	mirrored(t, m)
	stop()
	theirs := snapshot(t, filepath.Join(other.root, "mirror"))
	theirs[".machine"] = newer[".machine"]
	for name, text := range theirs {
		theirs[name] = strings.ReplaceAll(text, other.own.ID(), w.own.ID())
	}
	check("another node's", theirs, nil)

	// A part is restored if it is asked for, and the report tells the rest.
	less := mixed(newer, newer)
	gone := of(newer, "file")[:2]
	delete(less, gone[0])
	less[gone[1]] = "junk"
	lay(t, dir, less)
	folder, report, err := w.restored(func(c *mirror.RestoreConfig) { c.Partial = true })
	if err != nil || len(report.Missing) != 1 || len(report.Damaged) != 1 || report.Files != len(of(newer, "file"))-2 {
		t.Fatalf("%+v, %v", report, err)
	}
	got := files(t, folder)
	for name, body := range newerFiles {
		if _, damaged := report.Damaged[name]; name != report.Missing[0] && !damaged && got[name] != body {
			t.Errorf("%s isn't restored", name)
		}
	}
	if _, err := json.Marshal(report.Damaged); err != nil {
		t.Error(err)
	}
}

// snapshot are the files below a folder by their paths in it, and lay puts them there.
func snapshot(t *testing.T, root string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		if os.IsNotExist(err) {
			return nil // a running mirror has removed it since it was listed
		}
		out[path[len(root)+1:]] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func lay(t *testing.T, root string, all map[string]string) {
	t.Helper()
	if err := os.RemoveAll(root); err != nil {
		t.Fatal(err)
	}
	for name, text := range all {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

var _ persist.Provider = (*watched)(nil)
