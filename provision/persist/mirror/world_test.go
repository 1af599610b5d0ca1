package mirror_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/pkg/atomicfile"
	"github.com/croft-edge/croft/pkg/backoff"
	"github.com/croft-edge/croft/pkg/clock"
	"github.com/croft-edge/croft/pkg/explorer"
	"github.com/croft-edge/croft/pkg/sign"
	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/persist"
	"github.com/croft-edge/croft/provision/persist/fs"
	"github.com/croft-edge/croft/provision/persist/mirror"
	"github.com/croft-edge/croft/provision/store"
)

// watched is a provider whose calls are counted, and can be stopped before and after each change.
type watched struct {
	persist.Provider
	mu sync.Mutex
	// calls counts the changes, by "put KIND" and "delete KIND".
	calls map[string]int
	// step, when set, is called before and after each change.
	step func(what string, after bool) error
	// put, get and keys, when set, are called before an object is put or read, and change what is listed.
	put  func(o persist.Object) error
	get  func(kind persist.Kind) error
	keys func(all []persist.Key, err error) ([]persist.Key, error)
}

func (w *watched) around(what string, do func() error) error {
	w.mu.Lock()
	w.calls[what]++
	step := w.step
	w.mu.Unlock()
	if step == nil {
		return do()
	}
	if err := step(what, false); err != nil {
		return err
	}
	if err := do(); err != nil {
		return err
	}
	return step(what, true)
}

func (w *watched) PutObject(ctx context.Context, at string, o persist.Object) (key persist.Key, err error) {
	err = w.around("put "+string(o.Kind), func() error {
		w.mu.Lock()
		put := w.put
		w.mu.Unlock()
		if put != nil {
			if err := put(o); err != nil {
				return err
			}
		}
		key, err = w.Provider.PutObject(ctx, at, o)
		return err
	})
	return key, err
}

func (w *watched) DeleteObject(ctx context.Context, at string, kind persist.Kind, key persist.Key) error {
	return w.around("delete "+string(kind), func() error { return w.Provider.DeleteObject(ctx, at, kind, key) })
}

func (w *watched) GetObject(ctx context.Context, at string, kind persist.Kind, key persist.Key) (persist.Object, error) {
	w.mu.Lock()
	w.calls["get "+string(kind)]++
	get := w.get
	w.mu.Unlock()
	if get != nil {
		if err := get(kind); err != nil {
			return persist.Object{}, err
		}
	}
	return w.Provider.GetObject(ctx, at, kind, key)
}

func (w *watched) Keys(ctx context.Context, at string, kind persist.Kind) ([]persist.Key, error) {
	w.mu.Lock()
	keys := w.keys
	w.mu.Unlock()
	all, err := w.Provider.Keys(ctx, at, kind)
	if keys != nil {
		return keys(all, err)
	}
	return all, err
}

// set changes the hooks while a mirror runs.
func (w *watched) set(change func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change()
}

func (w *watched) count(what string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.calls[what]
}

// world is a node's key, its store, and a folder for mirrors.
type world struct {
	t testing.TB
	// root has the store in "store" and the mirror in "mirror".
	root     string
	own      sign.KeyPair
	recovery string
	records  *store.FSStore
	provider *watched
	pace     time.Duration
	made     int
	hook     atomicfile.Hook
	// changed, when set, is told what the mirror is told, before it, and edit changes the mirror's configuration.
	changed func(names ...string)
	edit    func(c *mirror.Config)
}

func key(t testing.TB) sign.KeyPair {
	t.Helper()
	k, err := sign.Generate()
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func newWorld(t testing.TB) *world {
	t.Helper()
	root, err := os.MkdirTemp("/dev/shm", "croft-mirror-")
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, root: root, own: key(t), pace: time.Millisecond}
	w.provider = w.newProvider()
	t.Cleanup(func() {
		if w.records != nil {
			_ = w.records.Close()
		}
		_ = os.RemoveAll(root)
	})
	return w
}

func (w *world) newProvider() *watched {
	w.t.Helper()
	p, err := fs.New(fs.Config{Instances: []fs.Settings{{Folder: filepath.Join(w.root, "mirror")}}})
	if err != nil {
		w.t.Fatal(err)
	}
	return &watched{Provider: p, calls: map[string]int{}}
}

func (w *world) machine() persist.MachineID { return persist.MachineID(w.own.ID()) }

func (w *world) folder() string { return filepath.Join(w.root, "store") }

// open opens the store, whose changes m is told; m may be nil.
func (w *world) open(m *mirror.Mirror) {
	w.t.Helper()
	c := store.Config{Root: w.folder(), Hook: w.hook}
	if m != nil {
		c.OnBegin = m.Begin
		c.OnChange = func(names ...string) {
			if w.changed != nil {
				w.changed(names...)
			}
			m.Mark(names...)
		}
	}
	s, err := store.Open(c)
	if err != nil {
		w.t.Fatal(err)
	}
	w.records = s
}

func (w *world) births() (string, []string) { return w.records.Birth().ID, w.records.Ancestors() }

func (w *world) config() mirror.Config {
	return mirror.Config{
		Provider: w.provider, Instance: w.provider.Instances()[0], Source: mirror.Folder(w.folder()), Birth: w.births,
		Key: w.own, Recovery: w.recovery, Pace: w.pace, Doubt: time.Millisecond, Backoff: backoff.Backoff{Base: time.Millisecond, Max: 20 * time.Millisecond}, Log: zerolog.Nop(),
	}
}

func (w *world) mirror() *mirror.Mirror {
	w.t.Helper()
	c := w.config()
	if w.edit != nil {
		w.edit(&c)
	}
	m, err := mirror.New(c)
	if err != nil {
		w.t.Fatal(err)
	}
	return m
}

// run runs a mirror until stop is called.
func run(m *mirror.Mirror) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = m.Run(ctx)
	}()
	return func() {
		cancel()
		<-done
	}
}

// start opens the store with a mirror, and runs that.
func (w *world) start() (*mirror.Mirror, func()) {
	w.t.Helper()
	m := w.mirror()
	w.open(m)
	stop := run(m)
	return m, func() {
		stop()
		_ = w.records.Close()
		w.records = nil
	}
}

// until waits until ok holds.
func until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(3 * time.Minute); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not so after 3 minutes", what)
		}
	}
}

// mirrored waits until the mirror has everything.
func mirrored(t testing.TB, m *mirror.Mirror) {
	t.Helper()
	defer func() {
		if t.Failed() {
			t.Logf("%+v", m.Status())
		}
	}()
	until(t, "mirrored", func() bool {
		s := m.Status()
		return s.Complete && s.Names == 0 && s.Error == ""
	})
}

// record makes a new record.
func (w *world) record() store.Record {
	w.t.Helper()
	w.made++
	r := &workload.Reservation{
		ID: fmt.Sprintf("%d-1", w.made), NodeID: w.own.ID(), Type: workload.TypeVolume, Data: json.RawMessage(`{"size":1,"type":"SSD"}`),
		Created: time.Date(2026, 1, 1, 0, 0, w.made, 0, time.UTC), Duration: time.Hour,
	}
	if err := r.Sign(w.own.Private()); err != nil {
		w.t.Fatal(err)
	}
	rec, err := store.Adopted(r, r.Created)
	if err != nil {
		w.t.Fatal(err)
	}
	return rec
}

func (w *world) write(recs ...store.Record) []store.Record {
	w.t.Helper()
	out, err := w.records.Write(recs...)
	if err != nil {
		w.t.Fatal(err)
	}
	return out
}

// live changes every kind of file that a store has.
func (w *world) live() {
	w.t.Helper()
	one, other := w.record(), w.record()
	w.write(one, other)
	other.Result = &workload.Result{State: workload.StateOK, Created: other.Accepted}
	other = w.write(other)[0]
	if err := w.records.Acknowledge(store.ReceiptFor(other)); err != nil {
		w.t.Fatal(err)
	}
	if err := w.records.SetCursor(explorer.Cursor{Epoch: "e", Change: uint64(w.made)}); err != nil {
		w.t.Fatal(err)
	}
	if err := w.records.SetMark(clock.Mark{Time: other.Accepted, BootID: fmt.Sprint(w.made)}); err != nil {
		w.t.Fatal(err)
	}
	if err := w.records.Remove(one.ID()); err != nil {
		w.t.Fatal(err)
	}
}

// files are the contents of a store's folder, less what a rebirth changes.
func files(t testing.TB, root string) map[string]string {
	t.Helper()
	source := mirror.Folder(root)
	names, err := source.Names()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, name := range names {
		if slices.Contains([]string{"meta/birth", "meta/cursor", "meta/restored"}, name) {
			continue
		}
		body, err := source.Read(name)
		if err != nil {
			t.Fatal(err)
		}
		out[name] = string(body)
	}
	return out
}

// restored restores into a new folder, and returns that.
func (w *world) restored(edit func(c *mirror.RestoreConfig)) (string, mirror.Report, error) {
	w.t.Helper()
	w.made++
	c := mirror.RestoreConfig{
		Provider: w.newProvider(), Machine: w.machine(), Key: w.own, Folder: filepath.Join(w.root, fmt.Sprint("restored-", w.made)), Rebirth: rebirth(nil),
	}
	c.Instance = c.Provider.Instances()[0]
	if edit != nil {
		edit(&c)
	}
	report, err := mirror.Restore(context.Background(), c)
	return c.Folder, report, err
}

// rebirth is what `croftd store restored` does.
func rebirth(hook atomicfile.Hook) func(folder string) error {
	return func(folder string) error {
		s, err := store.Open(store.Config{Root: folder, Hook: hook})
		if err != nil {
			return err
		}
		defer s.Close()
		return s.Rebirth()
	}
}

// sameFiles compares two stores.
func sameFiles(t testing.TB, got, want map[string]string) {
	t.Helper()
	for name, body := range want {
		if got[name] != body {
			t.Errorf("%s is %.80q, want %.80q", name, got[name], body)
		}
	}
	for name := range got {
		if _, wanted := want[name]; !wanted && !strings.HasPrefix(name, "quarantine/") {
			t.Errorf("%s is there too", name)
		}
	}
}
