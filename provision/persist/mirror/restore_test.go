package mirror_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/croft-edge/croft/pkg/atomicfile"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/provision/persist"
	"github.com/croft-edge/croft/provision/persist/fs"
	"github.com/croft-edge/croft/provision/persist/mirror"
	"github.com/croft-edge/croft/provision/store"
)

// While a store is restored nothing else makes one there: no node that starts meanwhile, and no other restore.
func TestARestoreHoldsTheStore(t *testing.T) {
	w := newWorld(t)
	m, stop := w.start()
	w.live()
	mirrored(t, m)
	want := files(t, w.folder())
	stop()
	tried := 0
	folder, _, err := w.restored(func(c *mirror.RestoreConfig) {
		again, reborn := *c, c.Rebirth
		c.Rebirth = func(stage string) error {
			tried++
			s, err := store.Open(store.Config{Root: again.Folder, NewNode: true})
			if node.KindOf(err) != node.Busy {
				t.Errorf("a node starts meanwhile: %v", err)
			}
			if err == nil {
				_ = s.Close()
			}
			again.Provider = w.newProvider()
			if _, err := mirror.Restore(t.Context(), again); node.KindOf(err) != node.Busy {
				t.Errorf("another restore at the same time: %v", err)
			}
			return reborn(stage)
		}
	})
	if err != nil || tried != 1 {
		t.Fatalf("%v, tried %d times", err, tried)
	}
	sameFiles(t, files(t, folder), want)
}

// A restore from a place that no machine has used makes nothing there.
func TestARestoreClaimsNothing(t *testing.T) {
	w := newWorld(t)
	for name, make := range map[string]bool{"missing": false, "unused": true} {
		at := filepath.Join(w.root, name)
		if make {
			if err := os.Mkdir(at, 0o700); err != nil {
				t.Fatal(err)
			}
		}
		p, err := fs.New(fs.Config{Instances: []fs.Settings{{Folder: at}}, Existing: true})
		if err != nil {
			t.Fatal(err)
		}
		folder, _, err := w.restored(func(c *mirror.RestoreConfig) { c.Provider, c.Instance = p, p.Instances()[0] })
		if node.KindOf(err) != node.NotExist {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := os.Lstat(folder); err == nil {
			t.Errorf("%s: there is a store", name)
		}
		if left, err := os.ReadDir(at); make != (err == nil) || len(left) > 0 {
			t.Errorf("%s: %v, %v", name, left, err)
		}
	}
}

// TestASlowPlaceGetsLists: a place that takes longer for an object than the store for its next change gets one list after the other, each of one moment.
func TestASlowPlaceGetsLists(t *testing.T) {
	w := newWorld(t)
	w.open(nil)
	m := w.mirror()
	const names = 40
	pair := filepath.Join(w.folder(), "pair")
	if err := os.Mkdir(pair, 0o700); err != nil {
		t.Fatal(err)
	}
	write := func(n int) {
		m.Begin()
		var changed []string
		for _, side := range []string{"a", "b"} {
			name := fmt.Sprintf("pair/%s%d", side, n%names)
			changed = append(changed, name)
			if err := atomicfile.WriteFile(filepath.Join(w.folder(), name), []byte(fmt.Sprint(n)), 0o600); err != nil {
				t.Error(err)
			}
		}
		m.Mark(changed...)
	}
	w.provider.step = func(what string, after bool) error {
		if what == "put file" && !after {
			time.Sleep(30 * time.Millisecond)
		}
		return nil
	}
	stop := run(m)
	n := 0
	for began := time.Now(); w.provider.count("put list") < 6; {
		if time.Since(began) > 3*time.Minute {
			t.Fatalf("after %d changes it has %d lists", n, w.provider.count("put list"))
		}
		write(n)
		n++
		time.Sleep(5 * time.Millisecond) // the store has other work, too, but changes more than the place takes
	}
	stop()
	folder, _, err := w.restored(func(c *mirror.RestoreConfig) { c.Rebirth = func(string) error { return nil } })
	if err != nil {
		t.Fatal(err)
	}
	got, some := files(t, folder), false
	for i := range names {
		a, b := got[fmt.Sprint("pair/a", i)], got[fmt.Sprint("pair/b", i)]
		if some = some || a != ""; a != b {
			t.Errorf("after %d changes %d has %q and %q", n, i, a, b)
		}
	}
	if !some {
		t.Errorf("after %d changes nothing is restored", n)
	}
}

// A list has a change of the store whole or not at all, whenever the mirror ends: of two files that each change changes together, a restore
// finds the same state.
func TestAListHasAllOfAChange(t *testing.T) {
	w := newWorld(t)
	w.open(nil)
	m := w.mirror()
	pair := filepath.Join(w.folder(), "pair")
	if err := os.Mkdir(pair, 0o700); err != nil {
		t.Fatal(err)
	}
	write := func(n int) {
		m.Begin()
		for _, name := range []string{"a", "b"} {
			if err := atomicfile.WriteFile(filepath.Join(pair, name), []byte(fmt.Sprint(n)), 0o600); err != nil {
				t.Error(err)
			}
		}
		m.Mark("pair/a", "pair/b")
	}
	n := 0
	for range 30 {
		write(n)
		stop := run(m)
		for before := w.provider.count("put list"); w.provider.count("put list") < before+3; n++ {
			write(n)
		}
		stop()
		folder, _, err := w.restored(func(c *mirror.RestoreConfig) { c.Rebirth = func(string) error { return nil } })
		if err != nil {
			t.Fatal(err)
		}
		got := files(t, folder)
		if got["pair/a"] != got["pair/b"] || got["pair/a"] == "" {
			t.Fatalf("after %d changes one file is %q, the other %q", n, got["pair/a"], got["pair/b"])
		}
	}
}

// A restore reads what the list has, and lists nothing: whoever may add objects to a place can't make it unrestorable.
func TestARestoreListsNothing(t *testing.T) {
	w := newWorld(t)
	m, stop := w.start()
	w.live()
	mirrored(t, m)
	want := files(t, w.folder())
	stop()
	w.clutter(100)
	p := w.newProvider()
	p.keys = func([]persist.Key, error) ([]persist.Key, error) {
		return nil, node.Errorf(node.Refused, "there are too many")
	}
	read := p.count("get file")
	folder, report, err := w.restored(func(c *mirror.RestoreConfig) { c.Provider = p })
	if err != nil {
		t.Fatal(err)
	}
	sameFiles(t, files(t, folder), want)
	if n := p.count("get file") - read; n != report.Files {
		t.Errorf("%d objects are read for %d files", n, report.Files)
	}
}

// What unfinished writes have left in a store's folders holds up no restore; what no store has is told by its name, and stays.
func TestWhatIsLeftInAnEmptyStore(t *testing.T) {
	w := newWorld(t)
	m, stop := w.start()
	w.live()
	mirrored(t, m)
	want := files(t, w.folder())
	stop()
	for at, sound := range map[string]bool{
		"meta/.tmp-birth": true, ".tmp-1-1": true, "quarantine/.tmp-x": true,
		"meta/.hidden": false, ".hidden": false, "meta/below/file": false, ".folder/file": false,
	} {
		into := filepath.Join(w.root, "into")
		path := filepath.Join(into, at)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("left"), 0o600); err != nil {
			t.Fatal(err)
		}
		folder, _, err := w.restored(func(c *mirror.RestoreConfig) { c.Folder = into })
		switch _, gone := os.Lstat(path); {
		case sound && err != nil, !sound && node.KindOf(err) != node.Refused, sound == (gone == nil):
			t.Errorf("%s: %v, %v", at, err, gone)
		case sound:
			sameFiles(t, files(t, folder), want)
		case !strings.Contains(err.Error(), filepath.Dir(at)) && !strings.Contains(err.Error(), at):
			t.Errorf("%s isn't named: %v", at, err)
		}
		if err := os.RemoveAll(into); err != nil {
			t.Fatal(err)
		}
	}
}
