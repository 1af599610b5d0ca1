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
			"flush":         w.flush,
			"large journal": w.large,
			"no journal":    w.noJournal,
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
	b, _ := w.h.writes.begin()
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

// flush carries out what there is, if it is needed.
func (w *writes) flush(t *rapid.T) {
	if w.batch != nil {
		return
	}
	if err := w.h.writes.flush(); err != nil {
		t.Fatal(err)
	}
	w.keep()
}

// large makes the journal seem large.
func (w *writes) large(*rapid.T) {
	if j := w.h.writes.journal; j.size > 0 {
		j.size = 2 * mostJournal
	}
}

// noJournal is a change that the journal can't have when it happens.
func (w *writes) noJournal(t *rapid.T) {
	j := w.h.writes.journal
	works := j.file
	var err error
	if j.file, err = os.Open(w.path); err != nil { // for reading only
		t.Fatal(err)
	}
	w.life++
	e := work.NewEvent(fmt.Sprint(rapid.IntRange(0, 5).Draw(t, "id")), work.EventSpec{Message: fmt.Sprint(w.life)})
	if err := w.h.writes.Put(context.Background(), work.EventsType, e); err != nil {
		t.Fatal(err)
	}
	w.model[e.Metadata().ID()] = e.TypedSpec().Message
	failure := w.h.writes.keep()
	if failure == nil { // it was written anew
		_ = works.Close()
	} else {
		_ = j.file.Close()
		j.file = works
	}
	w.keep() // as with the next change
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
	if w.batch != nil || !w.h.writes.clean() || w.old == nil {
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
	if b.clean() && b.journal.size > 0 {
		t.Fatalf("the database has all, and the journal %d bytes", b.journal.size)
	}
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
		return len(p.history.writes.filed) == 200 && p.history.writes.clean()
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
