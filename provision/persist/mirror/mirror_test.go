package mirror_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/provision/persist/mirror"
	"github.com/croft-edge/croft/provision/persist/seal"
	"github.com/croft-edge/croft/provision/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// What a store changes is on its mirror soon, sealed, and comes back as it was, reborn.
func TestMirrorAndRestore(t *testing.T) {
	w := newWorld(t)
	m, stop := w.start()
	for range 5 {
		w.live()
	}
	mirrored(t, m)
	want, birth := files(t, w.folder()), w.records.Birth().ID
	stop()
	folder, report, err := w.restored(nil)
	if err != nil {
		t.Fatal(err)
	}
	sameFiles(t, files(t, folder), want)
	if !report.Complete || report.Files != len(want)+2 || len(report.Missing)+len(report.Damaged) > 0 || time.Since(report.Written) > time.Hour || report.Number == 0 {
		t.Errorf("%+v", report)
	}
	s, err := store.Open(store.Config{Root: folder})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if s.Birth().ID == birth || s.AcceptsOlder() || s.Cursor().Change != 0 || !slices.Contains(s.Ancestors(), birth) || len(s.Quarantined()) > 0 {
		t.Errorf("the birth is %s of %v, it accepts older: %t, the cursor is %+v, quarantined %v", s.Birth().ID, s.Ancestors(), s.AcceptsOlder(), s.Cursor(), s.Quarantined())
	}
	err = filepath.WalkDir(filepath.Join(w.root, "mirror"), func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, shown := range []string{"SSD", "deployed", "meta", birth} {
			if bytes.Contains(text, []byte(shown)) || strings.Contains(path[len(w.root):], shown) {
				t.Errorf("%s shows %q", path, shown)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// After a restart only differences are sent, and what is gone is removed.
func TestRestartSendsDifferences(t *testing.T) {
	w := newWorld(t)
	m, stop := w.start()
	for range 10 {
		w.write(w.record())
	}
	mirrored(t, m)
	stop()
	puts := w.provider.count("put file")

	m, stop = w.start() // nothing has changed but the store's block of numbers
	mirrored(t, m)
	stop()
	if again := w.provider.count("put file"); again > puts+1 {
		t.Errorf("%d files were sent at first, %d after a restart without changes", puts, again-puts)
	}

	w.open(nil) // changes that no mirror is told
	w.write(w.record())
	if err := w.records.Remove("3-1"); err != nil {
		t.Fatal(err)
	}
	want := files(t, w.folder())
	if err := w.records.Close(); err != nil {
		t.Fatal(err)
	}
	puts = w.provider.count("put file")
	m, stop = w.start()
	mirrored(t, m)
	stop()
	if n := w.provider.count("put file") - puts; n < 1 || n > 2 {
		t.Errorf("%d files were sent for one new", n)
	}
	folder, report, err := w.restored(nil)
	if err != nil {
		t.Fatal(err)
	}
	sameFiles(t, files(t, folder), want)
	until(t, "removed", func() bool {
		all, err := os.ReadDir(filepath.Join(w.root, "mirror", "file"))
		return err == nil && len(all) == report.Files
	})
}

// While the instance is down nobody waits, the lag tells, and of a name its newest content alone is sent.
func TestDown(t *testing.T) {
	w := newWorld(t)
	m, stop := w.start()
	defer stop()
	w.write(w.record())
	mirrored(t, m)
	away := filepath.Join(w.root, "away")
	if err := os.Rename(filepath.Join(w.root, "mirror"), away); err != nil {
		t.Fatal(err)
	}
	rec := w.record()
	before := time.Now()
	for i := range 50 {
		rec.Attempts = i
		w.write(rec)
	}
	until(t, "it is down", func() bool { s := m.Status(); return !s.Up && s.Error != "" })
	if s := m.Status(); s.Names == 0 || s.Oldest.Before(before) || s.Oldest.After(time.Now()) || s.Since.Before(before) || s.Held != "" {
		t.Errorf("%+v", s)
	}
	puts := w.provider.count("put file")
	// An empty folder comes in its place: what is mounted there is still away.
	if err := os.Mkdir(filepath.Join(w.root, "mirror"), 0o700); err != nil {
		t.Fatal(err)
	}
	until(t, "it is seen", func() bool { return strings.Contains(m.Status().Error, "isn't the folder") })
	if err := os.Remove(filepath.Join(w.root, "mirror")); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(away, filepath.Join(w.root, "mirror")); err != nil {
		t.Fatal(err)
	}
	mirrored(t, m)
	if n := w.provider.count("put file") - puts; n > 3 {
		t.Errorf("%d files were sent for one name", n)
	}
	folder, _, err := w.restored(nil)
	if err != nil {
		t.Fatal(err)
	}
	sameFiles(t, files(t, folder), files(t, w.folder()))
}

// A provider that hangs holds up the mirror, not who marks.
func TestHangs(t *testing.T) {
	w := newWorld(t)
	free := make(chan struct{})
	w.provider.step = func(string, bool) error { <-free; return nil }
	m, stop := w.start()
	began := time.Now()
	for range 20 {
		w.live()
	}
	if took := time.Since(began); took > time.Minute {
		t.Errorf("20 lives beside a mirror that hangs take %s", took)
	}
	if s := m.Status(); s.Names < 20 {
		t.Errorf("%+v", s)
	}
	close(free)
	mirrored(t, m)
	stop()
}

// A store that was made after a disk was lost never takes the place of what the mirror has, until the operator says so; a restored one goes on.
func TestALostDisk(t *testing.T) {
	w := newWorld(t)
	m, stop := w.start()
	for range 3 {
		w.live()
	}
	mirrored(t, m)
	want := files(t, w.folder())
	stop()
	if err := os.RemoveAll(w.folder()); err != nil {
		t.Fatal(err)
	}
	for range 2 { // also when it starts again and again
		m, stop = w.start()
		w.write(w.record())
		until(t, "held", func() bool { return m.Status().Held != "" })
		m.Check()
		until(t, "held", func() bool { return m.Status().Held != "" && m.Status().Names > 0 })
		stop()
	}
	if _, _, err := w.restored(func(c *mirror.RestoreConfig) { c.Folder = w.folder() }); node.KindOf(err) != node.Refused || !strings.Contains(err.Error(), "move the folder away") {
		t.Errorf("over a store: %v", err)
	}
	lost := w.folder() + ".lost"
	if err := os.Rename(w.folder(), lost); err != nil {
		t.Fatal(err)
	}
	if _, _, err := w.restored(func(c *mirror.RestoreConfig) { c.Folder = w.folder() }); err != nil {
		t.Fatal(err)
	}
	sameFiles(t, files(t, w.folder()), want)
	m, stop = w.start()
	w.live()
	mirrored(t, m)
	want = files(t, w.folder())
	stop()
	folder, _, err := w.restored(nil)
	if err != nil {
		t.Fatal(err)
	}
	sameFiles(t, files(t, folder), want)

	if err := os.RemoveAll(w.folder()); err != nil {
		t.Fatal(err)
	}
	m, stop = w.start()
	w.live()
	until(t, "held", func() bool { return m.Status().Held != "" })
	if err := m.Replace(t.Context()); err != nil {
		t.Fatal(err)
	}
	mirrored(t, m)
	if err := m.Replace(t.Context()); node.KindOf(err) != node.Refused {
		t.Errorf("a mirror that isn't held: %v", err)
	}
	want = files(t, w.folder())
	stop()
	folder, _, err = w.restored(nil)
	if err != nil {
		t.Fatal(err)
	}
	sameFiles(t, files(t, folder), want)
}

// The recovery key opens the mirror and gives the node's key; another key, and an earlier recovery key, don't.
func TestRecoveryKey(t *testing.T) {
	w := newWorld(t)
	old, recovery := key(t), key(t)
	for _, k := range []string{old.ID(), recovery.ID()} {
		w.recovery = k
		m, stop := w.start()
		w.live()
		mirrored(t, m)
		stop()
	}
	folder, report, err := w.restored(func(c *mirror.RestoreConfig) { c.Key = recovery })
	if err != nil || report.Node.ID() != w.own.ID() {
		t.Fatalf("%v, %v", report.Node.ID(), err)
	}
	sameFiles(t, files(t, folder), files(t, w.folder()))
	for what, k := range map[string]struct {
		use  func(c *mirror.RestoreConfig)
		kind node.Kind
	}{
		"the earlier recovery key": {func(c *mirror.RestoreConfig) { c.Key = old }, node.Refused},
		"another key":              {func(c *mirror.RestoreConfig) { c.Key = key(t) }, node.Refused},
		"another machine":          {func(c *mirror.RestoreConfig) { c.Machine = "other" }, node.Refused},
	} {
		if folder, _, err := w.restored(k.use); node.KindOf(err) != k.kind {
			t.Errorf("%s: %v", what, err)
		} else if _, err := os.Lstat(folder); err == nil {
			t.Errorf("%s: there is a folder", what)
		}
	}
	c := w.config()
	c.Recovery = "11111111111111111111111111111111"
	if _, err := mirror.New(c); node.KindOf(err) != node.Invalid {
		t.Errorf("a weak key: %v", err)
	}
}

// Files that can't be mirrored hold up no others, and are counted.
func TestUnfit(t *testing.T) {
	w := newWorld(t)
	m, stop := w.start()
	w.write(w.record())
	mirrored(t, m)
	huge := filepath.Join(w.folder(), "quarantine", "huge")
	if err := os.MkdirAll(filepath.Dir(huge), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(huge, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(huge, seal.MaxBody+1); err != nil {
		t.Fatal(err)
	}
	m.Mark("quarantine/huge", "../store/1-1", "lock", ".tmp-1-1", "a/b/c", "")
	w.write(w.record())
	until(t, "told", func() bool { return m.Status().Unfit == 6 && m.Status().Names == 0 })
	stop()
	folder, _, err := w.restored(nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(huge); err != nil {
		t.Fatal(err)
	}
	sameFiles(t, files(t, folder), files(t, w.folder()))
}

// A mirror that lost its list or its data key is made whole again, from a store that has records.
func TestDamagedMirror(t *testing.T) {
	for _, kind := range []string{"list", "key", "file"} {
		for _, hurt := range []func(path string) error{
			os.Remove,
			func(path string) error { return os.WriteFile(path, []byte("junk"), 0o600) },
		} {
			w := newWorld(t)
			m, stop := w.start()
			w.live()
			mirrored(t, m)
			all, err := os.ReadDir(filepath.Join(w.root, "mirror", kind))
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range all {
				if err := hurt(filepath.Join(w.root, "mirror", kind, e.Name())); err != nil {
					t.Fatal(err)
				}
			}
			m.Check()
			w.live()
			until(t, kind+" again", func() bool {
				s := m.Status()
				return s.Complete && s.Names == 0 && s.Error == ""
			})
			stop()
			want := files(t, w.folder())
			folder, _, err := w.restored(nil)
			if err != nil {
				t.Fatalf("%s: %v", kind, err)
			}
			sameFiles(t, files(t, folder), want)
		}
	}
}

// A failing provider is tried again with growing waits, and the log isn't flooded.
func TestFailures(t *testing.T) {
	w := newWorld(t)
	var failures atomic.Int64
	fail := node.Errorf(node.NoSpace, "cannot put: no space")
	w.provider.step = func(string, bool) error {
		if failures.Add(1) > 40 {
			return nil
		}
		return fail
	}
	var log bytes.Buffer
	c := w.config()
	c.Log = c.Log.Output(&log)
	m, err := mirror.New(c)
	if err != nil {
		t.Fatal(err)
	}
	w.open(m)
	stop := run(m)
	w.live()
	mirrored(t, m)
	stop()
	if n := bytes.Count(log.Bytes(), []byte("\n")); n > 4 {
		t.Errorf("%d lines: %s", n, &log)
	}
}

func TestConfig(t *testing.T) {
	w := newWorld(t)
	for field, change := range map[string]func(c *mirror.Config){
		"Provider": func(c *mirror.Config) { c.Provider = nil }, "Instance": func(c *mirror.Config) { c.Instance = "" }, "Source": func(c *mirror.Config) { c.Source = nil },
		"Birth": func(c *mirror.Config) { c.Birth = nil }, "Key": func(c *mirror.Config) { c.Key = mirror.Config{}.Key },
	} {
		c := w.config()
		change(&c)
		if _, err := mirror.New(c); node.KindOf(err) != node.Invalid || !strings.Contains(fmt.Sprint(err), field) {
			t.Errorf("%s: %v", field, err)
		}
	}
}

// A list tells of the store at one moment: while a part of the changes waits, what can be restored is the store as it was before them.
func TestAListIsOfOneMoment(t *testing.T) {
	w := newWorld(t)
	m, stop := w.start()
	w.live()
	mirrored(t, m)
	want := files(t, w.folder())
	var mu sync.Mutex
	left := 0
	w.provider.step = func(what string, after bool) error {
		mu.Lock()
		defer mu.Unlock()
		if what == "put file" && !after {
			if left--; left < 0 {
				return node.Errorf(node.Transient, "the server is gone")
			}
		}
		return nil
	}
	for range 300 {
		w.write(w.record())
	}
	mu.Lock()
	left = 100
	mu.Unlock()
	until(t, "a part was sent", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return left < 0
	})
	stop()
	folder, _, err := w.restored(nil)
	if err != nil {
		t.Fatal(err)
	}
	sameFiles(t, files(t, folder), want)
	w.provider.step = nil
	m, stop = w.start()
	mirrored(t, m)
	want = files(t, w.folder())
	stop()
	if folder, _, err = w.restored(nil); err != nil {
		t.Fatal(err)
	}
	sameFiles(t, files(t, folder), want)
}
