package mirror_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/croft-edge/croft/pkg/explorer"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/provision/persist"
	"github.com/croft-edge/croft/provision/persist/mirror"
)

// change gives a mirror's folder, which may be in use, other files.
func change(t *testing.T, dir string, to map[string]string) {
	t.Helper()
	for name := range snapshot(t, dir) {
		if err := os.Remove(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range to {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// earlier makes a mirror of a store that is lost then, and returns the mirror's files and the store's.
func (w *world) earlier(t *testing.T) (kept, lost map[string]string) {
	t.Helper()
	m, stop := w.start()
	for range 3 {
		w.live()
	}
	mirrored(t, m)
	lost = files(t, w.folder())
	w.atRest(t)
	stop()
	if err := os.RemoveAll(w.folder()); err != nil {
		t.Fatal(err)
	}
	return snapshot(t, filepath.Join(w.root, "mirror")), lost
}

// atRest waits until the mirror has removed what its list doesn't name any more: a removal that is under way when a mirror is stopped still comes to
// pass, as one of a process that ends does.
func (w *world) atRest(t *testing.T) {
	t.Helper()
	until(t, "what no list names any more is removed", func() bool {
		names, err := mirror.Folder(w.folder()).Names()
		if err != nil {
			t.Fatal(err)
		}
		there := 0
		for name := range snapshot(t, filepath.Join(w.root, "mirror")) {
			if strings.HasPrefix(name, "file/") {
				there++
			}
		}
		return there == len(names)
	})
}

// difference names the files that differ.
func difference(before, now map[string]string) string {
	var out []string
	for name, text := range before {
		if is, there := now[name]; !there || is != text {
			out = append(out, fmt.Sprintf("%s is there: %t, had %d bytes, has %d", name, there, len(text), len(is)))
		}
	}
	for name, text := range now {
		if _, there := before[name]; !there {
			out = append(out, fmt.Sprintf("%s is new, with %d bytes", name, len(text)))
		}
	}
	slices.Sort(out)
	return strings.Join(out, "; ")
}

// rounds waits until the mirror has made some more tries.
func rounds(t *testing.T, done *atomic.Int64) {
	t.Helper()
	for before := done.Load(); done.Load() < before+10; time.Sleep(time.Millisecond) {
	}
}

// settled waits until the mirror has made some more tries, or has everything and so makes none.
func settled(t *testing.T, m *mirror.Mirror, done *atomic.Int64) {
	t.Helper()
	before := done.Load()
	until(t, "some tries", func() bool {
		s := m.Status()
		return done.Load() >= before+10 || done.Load() > before && s.Complete && s.Names == 0 && s.Error == ""
	})
}

// counted counts the mirror's tries.
func (w *world) counted() *atomic.Int64 {
	done := &atomic.Int64{}
	w.edit = func(c *mirror.Config) { c.Changed = func(mirror.Status) { done.Add(1) } }
	return done
}

// A mirror that is replaced by another store's while the node runs is left as it is for good.
func TestAMirrorIsSwappedMeanwhile(t *testing.T) {
	w := newWorld(t)
	dir := filepath.Join(w.root, "mirror")
	kept, lost := w.earlier(t)
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	w.provider = w.newProvider()
	done := w.counted()
	m, stop := w.start()
	w.live()
	mirrored(t, m)
	change(t, dir, kept)
	m.Check()
	until(t, "held", func() bool { return m.Status().Held != "" })
	rounds(t, done)
	w.live()
	m.Check()
	rounds(t, done)
	if s := m.Status(); s.Held == "" {
		t.Errorf("%+v", s)
	}
	stop()
	if !maps.Equal(snapshot(t, dir), kept) {
		t.Error("the other store's mirror is changed")
	}
	folder, _, err := w.restored(nil)
	if err != nil {
		t.Fatal(err)
	}
	sameFiles(t, files(t, folder), lost)
}

// One wrong answer about the data key or the list of another store's mirror doesn't cost the mirror, whatever the new store has.
func TestOneWrongAnswer(t *testing.T) {
	for _, kind := range []persist.Kind{"key", "list"} {
		for _, answer := range []node.Kind{node.NotExist, node.Invalid} {
			for _, always := range []bool{false, true} {
				w := newWorld(t)
				kept, lost := w.earlier(t)
				w.provider = w.newProvider()
				done := w.counted()
				var asked atomic.Int64
				w.provider.get = func(of persist.Kind) error {
					if of == kind && (asked.Add(1) == 1 || always) {
						return node.Errorf(answer, "a wrong answer")
					}
					return nil
				}
				m := w.mirror()
				w.open(m)
				w.write(w.record())
				stop := run(m)
				until(t, "held", func() bool { return m.Status().Held != "" })
				rounds(t, done)
				if s := m.Status(); s.Held == "" {
					t.Errorf("%s, %s: %+v", kind, answer, s)
				}
				stop()
				_ = w.records.Close()
				w.records = nil
				if now := snapshot(t, filepath.Join(w.root, "mirror")); !maps.Equal(now, kept) {
					t.Errorf("%s, %s: the mirror is changed: %s", kind, answer, difference(kept, now))
				}
				folder, _, err := w.restored(nil)
				if err != nil {
					t.Fatal(err)
				}
				sameFiles(t, files(t, folder), lost)
			}
		}
	}
}

// Of two mirrors of a store's ancestors, one wrong answer about the list doesn't cost the newer one, although the store's records are on both.
func TestOneWrongAnswerOfANewerMirror(t *testing.T) {
	for _, answer := range []node.Kind{node.NotExist, node.Invalid} {
		w := newWorld(t)
		dir, older, newer := twoMirrors(t, w)
		restoredFrom(t, w, dir, older)
		lay(t, dir, newer)
		w.provider = w.newProvider()
		done := w.counted()
		var asked atomic.Int64
		w.provider.get = func(of persist.Kind) error {
			if of == "list" && asked.Add(1) == 1 {
				return node.Errorf(answer, "a wrong answer")
			}
			return nil
		}
		m, stop := w.start()
		settled(t, m, done)
		if s := m.Status(); !strings.Contains(s.Held, "newer than") {
			t.Errorf("%s: %+v", answer, s)
		}
		stop()
		if !maps.Equal(snapshot(t, dir), newer) {
			t.Errorf("%s: the newer mirror is changed", answer)
		}
	}
}

// A replacement that fails is over: nothing more is given up unasked, whatever was sent.
func TestAReplacementFails(t *testing.T) {
	w := newWorld(t)
	_, lost := w.earlier(t)
	w.provider = w.newProvider()
	done := w.counted()
	m, stop := w.start()
	w.live()
	until(t, "held", func() bool { return m.Status().Held != "" })
	var put, wrong atomic.Int64
	w.provider.set(func() {
		w.provider.put = func(o persist.Object) error {
			if o.Kind == "list" && put.Add(1) == 1 {
				return node.Errorf(node.NoSpace, "the place is full for a moment")
			}
			return nil
		}
		w.provider.get = func(of persist.Kind) error {
			if of == "list" && put.Load() > 0 && wrong.Add(1) == 1 {
				return node.Errorf(node.NotExist, "a wrong answer")
			}
			return nil
		}
	})
	if err := m.Replace(t.Context()); node.KindOf(err) != node.NoSpace {
		t.Errorf("%v", err)
	}
	settled(t, m, done)
	w.live()
	settled(t, m, done)
	if s := m.Status(); s.Held == "" || put.Load() != 1 {
		t.Errorf("%d lists were sent: %+v", put.Load(), s)
	}
	folder, _, err := w.restored(nil)
	if err != nil {
		t.Fatal(err)
	}
	sameFiles(t, files(t, folder), lost)
	if err := m.Replace(t.Context()); err != nil {
		t.Fatal(err)
	}
	mirrored(t, m)
	want := files(t, w.folder())
	stop()
	if folder, _, err = w.restored(nil); err != nil {
		t.Fatal(err)
	}
	sameFiles(t, files(t, folder), want)
}

// A node that starts and finds its own mirror's list or data key lost knows its files without the list, and asks the operator without the key.
func TestAnOwnMirrorIsDamagedWhileTheNodeIsDown(t *testing.T) {
	for _, kind := range []string{"list", "key"} {
		w := newWorld(t)
		m, stop := w.start()
		w.live()
		mirrored(t, m)
		stop()
		if err := os.RemoveAll(filepath.Join(w.root, "mirror", kind)); err != nil {
			t.Fatal(err)
		}
		w.provider = w.newProvider()
		m, stop = w.start()
		if kind == "key" {
			until(t, "held", func() bool { return strings.Contains(m.Status().Held, "data key") })
			if err := m.Replace(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		w.live()
		mirrored(t, m)
		want := files(t, w.folder())
		stop()
		folder, _, err := w.restored(nil)
		if err != nil {
			t.Fatal(err)
		}
		sameFiles(t, files(t, folder), want)
	}
}

// A first copy that is cut short goes on after a restart, although no file of it is the store's any more.
func TestAFirstCopyIsCutShort(t *testing.T) {
	w := newWorld(t)
	m := w.mirror()
	w.open(m)
	rec := w.write(w.record())[0]
	var put atomic.Int64
	w.provider.put = func(o persist.Object) error {
		if o.Kind == "file" && put.Add(1) > 1 {
			return node.Errorf(node.Transient, "the node dies here")
		}
		return nil
	}
	stop := run(m)
	until(t, "cut short", func() bool { return put.Load() > 1 })
	stop()
	rec.Attempts++
	w.write(rec)
	if err := w.records.AcceptOlder(); err != nil { // it writes the birth anew
		t.Fatal(err)
	}
	_ = w.records.Close()
	w.provider = w.newProvider()
	m, stop = w.start()
	mirrored(t, m)
	stop()
	if _, _, err := w.restored(nil); err != nil {
		t.Fatal(err)
	}
}

// Of two mirrors, the one that is newer than the one that the store was restored from is held: it has what the store lacks. One that has nothing else is
// gone on with.
func TestANewerMirrorIsHeld(t *testing.T) {
	w := newWorld(t)
	dir := filepath.Join(w.root, "mirror")
	m, stop := w.start()
	w.live()
	mirrored(t, m)
	older, olderFiles := snapshot(t, dir), files(t, w.folder())
	if err := w.records.SetCursor(explorer.Cursor{Epoch: "later", Change: 99}); err != nil {
		t.Fatal(err)
	}
	until(t, "another list", func() bool {
		return m.Status().Names == 0 && len(snapshot(t, dir)) > 0 && w.provider.count("put list") > 2
	})
	mirrored(t, m)
	alike := snapshot(t, dir)
	w.live()
	mirrored(t, m)
	w.atRest(t)
	newer, newerFiles := snapshot(t, dir), files(t, w.folder())
	stop()

	for what, c := range map[string]struct {
		from map[string]string
		held bool
	}{"older": {older, true}, "newer": {newer, false}} {
		restoredFrom(t, w, dir, c.from)
		sameFiles(t, files(t, w.folder()), map[bool]map[string]string{true: olderFiles, false: newerFiles}[c.held])
		for name, other := range map[string]map[string]string{"older": older, "alike": alike, "newer": newer} {
			lay(t, dir, other)
			w.provider = w.newProvider()
			m, stop := w.start()
			if c.held && name == "newer" {
				until(t, "held", func() bool { return strings.Contains(m.Status().Held, "newer than") })
				if err := m.Replace(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			until(t, what+", "+name, func() bool {
				s := m.Status()
				if s.Held != "" {
					t.Fatalf("restored from the %s one, the %s one is held: %+v", what, name, s)
				}
				return s.Complete && s.Names == 0 && s.Error == ""
			})
			w.atRest(t)
			stop()
		}
	}
}

// Births are remembered over several restores: a mirror of any of them is held if it has more than came from it.
func TestANewerMirrorIsHeldAfterAnotherRestore(t *testing.T) {
	w := newWorld(t)
	dir, older, newer := twoMirrors(t, w)
	for range 3 {
		restoredFrom(t, w, dir, older)
		w.provider = w.newProvider()
		m, stop := w.start()
		mirrored(t, m)
		w.atRest(t)
		older = snapshot(t, dir)
		stop()
	}
	lay(t, dir, newer)
	w.provider = w.newProvider()
	m, stop := w.start()
	until(t, "held", func() bool { return strings.Contains(m.Status().Held, "newer than") })
	stop()
}

// twoMirrors are a store's mirror in its folder, as it was and as it is after another change.
func twoMirrors(t *testing.T, w *world) (dir string, older, newer map[string]string) {
	t.Helper()
	dir = filepath.Join(w.root, "mirror")
	m, stop := w.start()
	defer stop()
	w.live()
	mirrored(t, m)
	older = snapshot(t, dir)
	w.live()
	mirrored(t, m)
	w.atRest(t)
	return dir, older, snapshot(t, dir)
}

// restoredFrom puts a store restored from a mirror in the place of the world's.
func restoredFrom(t *testing.T, w *world, dir string, from map[string]string) {
	t.Helper()
	if err := os.RemoveAll(w.folder()); err != nil {
		t.Fatal(err)
	}
	lay(t, dir, from)
	if _, _, err := w.restored(func(r *mirror.RestoreConfig) { r.Folder = w.folder() }); err != nil {
		t.Fatal(err)
	}
}
