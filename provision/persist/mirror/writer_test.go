package mirror_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/provision/persist"
	"github.com/croft-edge/croft/provision/persist/mirror"
)

// objects are how many objects of files the mirror has.
func (w *world) objects() int {
	all, err := os.ReadDir(filepath.Join(w.root, "mirror", "file"))
	if err != nil {
		w.t.Fatal(err)
	}
	return len(all)
}

// names are how many files the store has.
func (w *world) names() int {
	all, err := mirror.Folder(w.folder()).Names()
	if err != nil {
		w.t.Fatal(err)
	}
	return len(all)
}

// clutter adds objects that nothing needs to the mirror.
func (w *world) clutter(count int) {
	for i := range count {
		if err := os.WriteFile(filepath.Join(w.root, "mirror", "file", fmt.Sprintf("0-%06d", i)), []byte("clutter"), 0o600); err != nil {
			w.t.Fatal(err)
		}
	}
}

// What a cut listing doesn't show isn't sent again, and not left out of the list.
func TestACutListing(t *testing.T) {
	w := newWorld(t)
	m, stop := w.start()
	for range 30 {
		w.write(w.record())
	}
	mirrored(t, m)
	stop()
	w.provider = w.newProvider()
	w.provider.keys = func(all []persist.Key, err error) ([]persist.Key, error) {
		shown := make([]persist.Key, 0, persist.MostKeys)
		for i := range persist.MostKeys - 15 {
			shown = append(shown, persist.Key(fmt.Sprintf("0-%06d", i)))
		}
		return append(shown, all[:15]...), err
	}
	w.provider.step = func(what string, _ bool) error {
		if what == "delete file" {
			return node.Errorf(node.Refused, "nothing is deleted here")
		}
		return nil
	}
	m, stop = w.start()
	w.live()
	mirrored(t, m)
	want := files(t, w.folder())
	stop()
	if n := w.provider.count("put file"); n > 10 {
		t.Errorf("%d files were sent", n)
	}
	folder, _, err := w.restored(nil)
	if err != nil {
		t.Fatal(err)
	}
	sameFiles(t, files(t, folder), want)
}

// Objects are removed several at a time, and not for so long that what changes meanwhile waits for all of them.
func TestRemovals(t *testing.T) {
	w := newWorld(t)
	m, stop := w.start()
	w.live()
	mirrored(t, m)
	stop()
	const clutter = 1000
	w.clutter(clutter)
	w.provider = w.newProvider()
	changed := filepath.Join(w.folder(), "quarantine", "changed")
	if err := os.MkdirAll(filepath.Dir(changed), 0o700); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	now, most, removed, listed := 0, 0, 0, 0
	m = w.mirror()
	w.provider.step = func(what string, after bool) error {
		mu.Lock()
		defer mu.Unlock()
		switch {
		case what == "put list" && after && removed > 0 && listed == 0:
			listed = removed
		case what == "delete file" && !after:
			if removed++; removed == 1 {
				if err := os.WriteFile(changed, []byte("changed meanwhile"), 0o600); err != nil {
					t.Error(err)
				}
				m.Mark("quarantine/changed")
			}
			now++
			most = max(most, now)
			mu.Unlock()
			time.Sleep(time.Millisecond) // a place that takes its time
			mu.Lock()
		case what == "delete file":
			now--
		}
		return nil
	}
	w.open(m)
	stop = run(m)
	until(t, "tidied", func() bool { return w.objects() == w.names() })
	stop()
	if most < 2 {
		t.Error("one after the other")
	}
	if listed == 0 || listed > clutter/2 {
		t.Errorf("a change is listed after %d of %d removals", listed, clutter)
	}
}

// unreadable is a source one of whose files can't be read.
type unreadable struct {
	mirror.Source
	name atomic.Value
}

func (u *unreadable) Read(name string) ([]byte, error) {
	if name == u.name.Load() {
		return nil, node.Errorf(node.Transient, "cannot mirror %s: input/output error", name)
	}
	return u.Source.Read(name)
}

// A file that can't be read, and that the store hasn't changed, holds up no others, and stays on the mirror. One that the store has changed does: the list
// would be of no moment.
func TestAnUnreadableFile(t *testing.T) {
	w := newWorld(t)
	source := &unreadable{Source: mirror.Folder(w.folder())}
	w.edit = func(c *mirror.Config) { c.Source = source }
	m, stop := w.start()
	rec := w.write(w.record())[0]
	mirrored(t, m)
	stop()
	source.name.Store(string(rec.ID()))
	m, stop = w.start()
	for range 3 {
		w.live()
		m.Check()
		until(t, "mirrored, but for one", func() bool {
			s := m.Status()
			return s.Complete && s.Names == 0 && s.Error == "" && s.Unfit == 1
		})
	}
	want := files(t, w.folder())
	folder, _, err := w.restored(nil)
	if err != nil {
		t.Fatal(err)
	}
	sameFiles(t, files(t, folder), want)
	rec.Attempts++
	w.write(rec)
	for range 2 {
		until(t, "failed", func() bool { s := m.Status(); return s.Names > 0 && strings.Contains(s.Error, "input/output") })
		m.Check() // it compares anew, and knows the change all the same
	}
	if folder, _, err = w.restored(nil); err != nil {
		t.Fatal(err)
	}
	sameFiles(t, files(t, folder), want)
	source.name.Store("")
	until(t, "mirrored", func() bool { s := m.Status(); return s.Names == 0 && s.Error == "" && s.Unfit == 0 })
	want = files(t, w.folder())
	stop()
	if folder, _, err = w.restored(nil); err != nil {
		t.Fatal(err)
	}
	sameFiles(t, files(t, folder), want)
}

// A list whose sending failed may arrive later, and take the place of a newer one: what it names is still there.
func TestALateList(t *testing.T) {
	w := newWorld(t)
	w.edit = func(c *mirror.Config) { c.Doubt = time.Hour }
	m, stop := w.start()
	rec := w.write(w.record())[0]
	mirrored(t, m)
	var late atomic.Pointer[persist.Object]
	w.provider.set(func() {
		w.provider.put = func(o persist.Object) error {
			if o.Kind != "list" || !late.CompareAndSwap(nil, &o) {
				return nil
			}
			return node.Errorf(node.Transient, "the connection broke")
		}
	})
	rec.Attempts = 1
	w.write(rec, w.record())
	then := files(t, w.folder())
	until(t, "it failed", func() bool { return late.Load() != nil })
	for i := range 3 { // lists that don't have what the late one has
		rec.Attempts = 2 + i
		w.write(rec)
		m.Check()
		mirrored(t, m)
	}
	stop()
	arrivesLate(t, w, *late.Load(), then)
}

// arrivesLate puts a list into the place of a newer one: a store is restored from it as it was then.
func arrivesLate(t *testing.T, w *world, list persist.Object, then map[string]string) {
	t.Helper()
	if _, err := w.provider.Provider.PutObject(t.Context(), w.provider.Instances()[0], list); err != nil {
		t.Fatal(err)
	}
	folder, _, err := w.restored(nil)
	if err != nil {
		t.Fatal(err)
	}
	sameFiles(t, files(t, folder), then)
}

// Once no late list can arrive any more, what none names is removed.
func TestALateListIsWaitedForOnce(t *testing.T) {
	w := newWorld(t)
	w.edit = func(c *mirror.Config) { c.Doubt = 2 * time.Second }
	m, stop := w.start()
	rec := w.write(w.record())[0]
	mirrored(t, m)
	var lists, failed, removed atomic.Int64
	w.provider.set(func() {
		w.provider.put = func(o persist.Object) error {
			if o.Kind == "list" && lists.Add(1) == 1 {
				failed.Store(time.Now().UnixNano())
				return node.Errorf(node.Transient, "the connection broke")
			}
			return nil
		}
		w.provider.step = func(what string, _ bool) error {
			if what == "delete file" && failed.Load() > 0 {
				removed.CompareAndSwap(0, time.Now().UnixNano())
			}
			return nil
		}
	})
	rec.Attempts = 1
	w.write(rec)
	until(t, "failed, and written", func() bool { return lists.Load() > 1 })
	mirrored(t, m)
	until(t, "tidied", func() bool { return w.objects() == w.names() && removed.Load() > 0 })
	if after := time.Duration(removed.Load() - failed.Load()); after < 2*time.Second {
		t.Errorf("objects are removed after %s", after)
	}
	before := lists.Load()
	time.Sleep(100 * time.Millisecond) // many paces
	if n := lists.Load() - before; n > 1 {
		t.Errorf("%d lists more, of nothing new", n)
	}
	stop()
}

// Checks read the objects themselves, a part each: one that is there and damaged is found, and sent again.
func TestChecksReadObjects(t *testing.T) {
	w := newWorld(t)
	m, stop := w.start()
	defer stop()
	for range 200 {
		w.write(w.record())
	}
	mirrored(t, m)
	all, err := os.ReadDir(filepath.Join(w.root, "mirror", "file"))
	if err != nil {
		t.Fatal(err)
	}
	zeroed := filepath.Join(w.root, "mirror", "file", all[len(all)/2].Name())
	info, err := os.Stat(zeroed)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(zeroed, make([]byte, info.Size()), 0o600); err != nil {
		t.Fatal(err)
	}
	for n := 0; ; n++ {
		if n > 5 {
			t.Fatalf("not found by %d checks of %d objects", n, len(all))
		}
		before := w.provider.count("get file")
		m.Check()
		until(t, "a part is read", func() bool { return w.provider.count("get file") >= before+64 })
		mirrored(t, m)
		if text, err := os.ReadFile(zeroed); err == nil && strings.HasPrefix(string(text), "croft-object") {
			break
		}
	}
	if n := w.provider.count("get file"); n > 5*64 {
		t.Errorf("%d objects were read", n)
	}
	want := files(t, w.folder())
	folder, _, err := w.restored(nil)
	if err != nil {
		t.Fatal(err)
	}
	sameFiles(t, files(t, folder), want)
}

// While a long copy is on its way it tells how far it is, and does what it is asked for.
func TestALongCopyTells(t *testing.T) {
	w := newWorld(t)
	var told atomic.Int64
	w.edit = func(c *mirror.Config) {
		c.Changed = func(s mirror.Status) {
			if s.Names > 0 && !s.Complete && s.Error == "" {
				told.Add(1)
			}
		}
	}
	w.open(nil)
	folder := filepath.Join(w.folder(), "quarantine")
	if err := os.MkdirAll(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	for i := range 4000 {
		if err := os.WriteFile(filepath.Join(folder, fmt.Sprint(i)), fmt.Append(nil, i), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	m := w.mirror()
	var put, checked atomic.Int64
	w.provider.put = func(o persist.Object) error {
		if o.Kind == "file" && put.Add(1) == 500 {
			m.Check()
		}
		return nil
	}
	w.provider.get = func(kind persist.Kind) error {
		if kind == "key" && put.Load() > 500 && !m.Status().Complete {
			checked.Add(1)
		}
		return nil
	}
	stop := run(m)
	mirrored(t, m)
	stop()
	if told.Load() < 2 || checked.Load() == 0 {
		t.Errorf("told %d times, checked %d times meanwhile", told.Load(), checked.Load())
	}
}
