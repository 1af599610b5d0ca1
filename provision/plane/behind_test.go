package plane

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cosi-project/runtime/pkg/resource"
	"github.com/rs/zerolog"
	"go.etcd.io/bbolt"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"github.com/croft-edge/croft/pkg/resources/registry"
	"github.com/croft-edge/croft/pkg/resources/work"
)

// filed are the messages of the events that a history's file has, by ID.
func filed(t interface{ Fatal(...any) }, path string) map[string]string {
	h, err := readHistory(path, make([]byte, keyBytes), zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = h.Close() }()
	out := map[string]string{}
	err = h.writes.Load(context.Background(), func(_ resource.Type, r resource.Resource) error {
		out[r.Metadata().ID()] = r.(*work.Event).TypedSpec().Message //nolint:forcetypeassert // the file has nothing else
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestBehind: whatever is put, put again and destroyed, before, during and after transactions that are carried out or fail, and whenever the process is
// killed or an old journal comes back, the next process finds the newest of all; and what is pending is bounded by what there is.
func TestBehind(t *testing.T) {
	if err := registry.Register(); err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		dir, err := os.MkdirTemp("", "croft-behind-")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = os.RemoveAll(dir) }()
		w := &writes{T: t, path: filepath.Join(dir, "history.db"), model: map[string]string{}}
		w.open()
		defer func() { _ = w.h.Close() }()
		t.Repeat(map[string]func(*rapid.T){
			"put":           w.put,
			"destroy":       w.destroy,
			"begin":         w.begin,
			"end":           w.end,
			"fail":          w.fail,
			"kill":          w.kill,
			"lose power":    w.losePower,
			"large journal": func(*rapid.T) { w.h.writes.journal.size *= mostJournal },
			"":              w.check,
		})
	})
}

// writes is a history whose transactions and whose journal are written when the test says so.
type writes struct {
	*rapid.T
	path string
	h    *history
	life int
	// model are the events' messages by ID, as the next process must find them.
	model map[string]string
	// batch is in a transaction; nil without one.
	batch *batch
	// old is a journal of before.
	old []byte
}

func (w *writes) open() {
	h, err := readHistory(w.path, make([]byte, keyBytes), zerolog.Nop())
	if err != nil {
		w.Fatal(err)
	}
	h.writes.close()
	if err := h.writes.Load(context.Background(), func(resource.Type, resource.Resource) error { return nil }); err != nil {
		w.Fatal(err)
	}
	w.h, w.batch = h, nil
}

// keep has the journal written, as at once after each change.
func (w *writes) keep() {
	if err := w.h.writes.keep(); err != nil {
		w.Fatal(err)
	}
}

func (w *writes) put(t *rapid.T) {
	w.life++
	e := work.NewEvent(fmt.Sprint(rapid.IntRange(0, 5).Draw(t, "id")), work.EventSpec{Message: fmt.Sprint(w.life)})
	if err := w.h.writes.Put(context.Background(), work.EventsType, e); err != nil {
		t.Fatal(err)
	}
	w.model[e.Metadata().ID()] = e.TypedSpec().Message
	w.keep()
}

func (w *writes) destroy(t *rapid.T) {
	e := work.NewEvent(fmt.Sprint(rapid.IntRange(0, 5).Draw(t, "id")), work.EventSpec{})
	if err := w.h.writes.Destroy(context.Background(), work.EventsType, e.Metadata()); err != nil {
		t.Fatal(err)
	}
	delete(w.model, e.Metadata().ID())
	w.keep()
}

// begin begins a transaction, which ends later, unless there is one.
func (w *writes) begin(t *rapid.T) {
	if w.batch != nil {
		return
	}
	b := w.h.writes.begin()
	w.batch = &b
}

// end carries a transaction out, and remembers some journals of before.
func (w *writes) end(t *rapid.T) {
	if w.batch == nil {
		w.begin(t)
	}
	if rapid.Bool().Draw(t, "remember the journal") {
		raw, err := os.ReadFile(w.path + ".journal")
		if err != nil {
			t.Fatal(err)
		}
		w.old = raw
	}
	err := w.h.writes.db.Update(func(tx *bbolt.Tx) error { return w.h.writes.write(tx, *w.batch) })
	if err = errors.Join(err, w.h.writes.end(*w.batch, err)); err != nil {
		t.Fatal(err)
	}
	w.batch = nil
	w.keep()
}

func (w *writes) fail(t *rapid.T) {
	if w.batch == nil {
		w.begin(t)
	}
	_ = w.h.writes.end(*w.batch, unix.ENOSPC)
	w.batch = nil
	w.keep()
}

// kill ends the process as it is.
func (w *writes) kill(t *rapid.T) {
	if err := w.h.Close(); err != nil {
		t.Fatal(err)
	}
	if got := filed(t, w.path); !maps.Equal(got, w.model) {
		t.Fatalf("after a kill there is %v, want %v", got, w.model)
	}
	w.open()
}

// losePower has the file system forget what a journal became since before a transaction. When the database has all, that changes nothing.
func (w *writes) losePower(t *rapid.T) {
	if w.batch != nil || len(w.h.writes.pending) > 0 || w.old == nil {
		return
	}
	if err := os.WriteFile(w.path+".journal", w.old, 0o600); err != nil {
		t.Fatal(err)
	}
	w.kill(t)
}

func (w *writes) check(t *rapid.T) {
	b := w.h.writes
	b.mu.Lock()
	defer b.mu.Unlock()
	for at := range b.pending {
		if _, is := w.model[at.id]; !is && !b.filed[at] {
			t.Fatalf("%v is pending, and nowhere", at)
		}
	}
	if b.writing == nil && len(b.pending) == 0 && b.journal.size > 0 {
		t.Fatalf("the database has all, and the journal %d bytes", b.journal.size)
	}
}

// TestADatabaseThatCannotBeWritten: what comes and goes meanwhile leaves nothing behind, and what is there is shown by the next process.
func TestADatabaseThatCannotBeWritten(t *testing.T) {
	if err := registry.Register(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "history.db")
	h, err := readHistory(path, make([]byte, keyBytes), zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	h.writes.close()
	for i := range 1000 {
		e := work.NewEvent(fmt.Sprint(i), work.EventSpec{Message: "words"})
		if err := h.writes.Put(t.Context(), work.EventsType, e); err != nil {
			t.Fatal(err)
		}
		if err := h.writes.end(h.writes.begin(), unix.EIO); err == nil {
			t.Fatal("it was written")
		}
		if i >= 10 {
			gone := work.NewEvent(fmt.Sprint(i-10), work.EventSpec{})
			if err := h.writes.Destroy(t.Context(), work.EventsType, gone.Metadata()); err != nil {
				t.Fatal(err)
			}
			if err := h.writes.end(h.writes.begin(), unix.EIO); err == nil {
				t.Fatal("it was written")
			}
		}
		if err := h.writes.keep(); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(h.writes.pending); n != 10 {
		t.Errorf("%d are pending", n)
	}
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	if got := filed(t, path); len(got) != 10 || got["999"] != "words" {
		t.Errorf("there is %v", got)
	}
}

// TestAJournalThatCannotBeWrittenToTheDatabase: a process that can't write what an earlier one has left shows it all the same.
func TestAJournalThatCannotBeWrittenToTheDatabase(t *testing.T) {
	if err := registry.Register(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "history.db")
	h, err := readHistory(path, make([]byte, keyBytes), zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	put := func(id, message string) {
		t.Helper()
		if err := h.writes.Put(t.Context(), work.EventsType, work.NewEvent(id, work.EventSpec{Message: message})); err != nil {
			t.Fatal(err)
		}
	}
	put("1", "first")
	put("2", "removed")
	h.writes.close()
	put("1", "second")
	put("3", "third")
	if err := h.writes.Destroy(t.Context(), work.EventsType, work.NewEvent("2", work.EventSpec{}).Metadata()); err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	err = h.writes.Load(t.Context(), func(_ resource.Type, r resource.Resource) error {
		got[r.Metadata().ID()] = r.(*work.Event).TypedSpec().Message //nolint:forcetypeassert // the file has nothing else
		return nil
	})
	if want := map[string]string{"1": "second", "3": "third"}; err != nil || !maps.Equal(got, want) {
		t.Errorf("it shows %v, %v, want %v", got, err, want)
	}
	_ = h.Close()
}

// TestFullDisk: events that the disk has no room for are shown, and written when it has.
func TestFullDisk(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("croft", dir, "tmpfs", 0, "size=1m"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	path := filepath.Join(dir, "history.db")
	failed := make(chan struct{})
	tell := sync.OnceFunc(func() { close(failed) })
	p, err := Open(Config{History: path, Key: make([]byte, keyBytes), Log: zerolog.New(io.Discard).Hook(zerolog.HookFunc(
		func(_ *zerolog.Event, _ zerolog.Level, text string) {
			if strings.Contains(text, "cannot write events") {
				tell()
			}
		}))})
	if err != nil {
		t.Fatal(err)
	}
	engine := newEngine()
	p.Add(engine, Past{Log: zerolog.Nop()})
	stop := run(t, p)
	fill, err := os.Create(filepath.Join(dir, "fill"))
	if err != nil {
		t.Fatal(err)
	}
	for err == nil {
		_, err = fill.Write(bytes.Repeat([]byte("x"), 4096))
	}
	const many = 300
	var ids []string
	for i := range many {
		id := fmt.Sprint("volume/", i)
		ids = append(ids, id)
		engine.Event(work.EventSpec{Reason: work.ReasonCreated, Object: id, Message: string(bytes.Repeat([]byte("words "), 40)), Last: time.Now()})
	}
	until(t, "they are shown", func() bool { return len(events(t, p.State())) == many })
	select {
	case <-failed:
	case <-time.After(time.Minute):
		t.Fatal("the disk has room for all of them")
	}
	if err := fill.Truncate(0); err != nil {
		t.Fatal(err)
	}
	_ = fill.Close()
	stop()
	second := open(t, Config{History: path, Key: make([]byte, keyBytes)})
	defer second.Close()
	var got []string
	for _, e := range events(t, second.State()) {
		got = append(got, e.Object)
	}
	slices.Sort(got)
	slices.Sort(ids)
	if !slices.Equal(got, ids) {
		t.Errorf("%d of %d events are there", len(got), many)
	}
	if engine.Dropped() != 0 {
		t.Errorf("%d events were dropped", engine.Dropped())
	}
}

// TestNoFileForTheHistory: where there can't be a file, the plane works with a history in memory, and a file that another process has stays as it is.
func TestNoFileForTheHistory(t *testing.T) {
	works := func(t *testing.T, path string) {
		t.Helper()
		p := open(t, Config{History: path, Key: make([]byte, keyBytes)})
		engine := newEngine()
		p.Add(engine, Past{Lost: p.Lost(), Log: zerolog.Nop()})
		stop := run(t, p)
		defer stop()
		engine.Event(work.EventSpec{Reason: work.ReasonCreated, Object: "volume/1-1", Last: time.Now()})
		until(t, "there are events, and that the history isn't kept is one", func() bool { return len(events(t, p.State())) == 2 })
	}
	t.Run("another process has it", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "history.db")
		first := open(t, Config{History: path, Key: make([]byte, keyBytes)})
		works(t, path)
		e := work.NewEvent("1", work.EventSpec{Message: "kept"})
		if err := first.State().Create(t.Context(), e); err != nil {
			t.Fatal(err)
		}
		if err := first.Close(); err != nil {
			t.Fatal(err)
		}
		if got := filed(t, path); len(got) != 1 || got["1"] != "kept" {
			t.Errorf("its file has %v", got)
		}
	})
	t.Run("there is no folder", func(t *testing.T) { works(t, filepath.Join(t.TempDir(), "no", "history.db")) })
	t.Run("the disk is full", func(t *testing.T) {
		dir := t.TempDir()
		if err := unix.Mount("croft", dir, "tmpfs", 0, "size=16k"); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
				t.Error(err)
			}
		})
		if err := os.WriteFile(filepath.Join(dir, "fill"), make([]byte, 8<<10), 0o600); err != nil {
			t.Fatal(err)
		}
		works(t, filepath.Join(dir, "history.db"))
	})
}

// TestDamagedWhileOpen: a file that is cut while the node has it open stops neither the events nor the node's end.
func TestDamagedWhileOpen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "history.db")
	p := open(t, Config{History: path, Key: make([]byte, keyBytes)})
	engine := newEngine()
	p.Add(engine, Past{Log: zerolog.Nop()})
	stop := run(t, p)
	add := func(n int) {
		for i := range n {
			engine.Event(work.EventSpec{Reason: work.ReasonCreated, Object: fmt.Sprintf("volume/%d-%d", n, i), Message: string(bytes.Repeat([]byte("words "), 40)), Last: time.Now()})
		}
	}
	add(200)
	until(t, "they are shown", func() bool { return len(events(t, p.State())) == 200 })
	until(t, "they are in the file", func() bool {
		p.history.writes.mu.Lock()
		defer p.history.writes.mu.Unlock()
		// A transaction that runs would write a whole file again.
		return len(p.history.writes.filed) == 200 && len(p.history.writes.pending) == 0 && p.history.writes.writing == nil
	})
	if err := os.Truncate(path, 0); err != nil {
		t.Fatal(err)
	}
	add(100)
	until(t, "events go on", func() bool { return len(events(t, p.State())) == 300 })
	until(t, "the file isn't used any more", func() bool { return !p.history.writes.usable() })
	add(50)
	until(t, "events go on after that", func() bool { return len(events(t, p.State())) == 350 })
	stop()
}
