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

// TestBehind: whatever is put, put again and destroyed, and whichever transactions fail, the file has the newest of all after the next one that
// doesn't, and what is pending is bounded by what there is.
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
		path := filepath.Join(dir, "history.db")
		model, life := map[string]string{}, 0
		open := func() *history {
			h, err := readHistory(path, make([]byte, keyBytes), zerolog.Nop())
			if err != nil {
				t.Fatal(err)
			}
			h.writes.close() // the test says when it writes
			if err := h.writes.Load(context.Background(), func(resource.Type, resource.Resource) error { return nil }); err != nil {
				t.Fatal(err)
			}
			return h
		}
		h := open()
		defer func() { _ = h.Close() }()
		t.Repeat(map[string]func(*rapid.T){
			"put": func(t *rapid.T) {
				life++
				e := work.NewEvent(fmt.Sprint(rapid.IntRange(0, 5).Draw(t, "id")), work.EventSpec{Message: fmt.Sprint(life)})
				if err := h.writes.Put(context.Background(), work.EventsType, e); err != nil {
					t.Fatal(err)
				}
				model[e.Metadata().ID()] = e.TypedSpec().Message
			},
			"destroy": func(t *rapid.T) {
				e := work.NewEvent(fmt.Sprint(rapid.IntRange(0, 5).Draw(t, "id")), work.EventSpec{})
				if err := h.writes.Destroy(context.Background(), work.EventsType, e.Metadata()); err != nil {
					t.Fatal(err)
				}
				delete(model, e.Metadata().ID())
			},
			"flush": func(t *rapid.T) {
				if err := h.writes.flush(); err != nil {
					t.Fatal(err)
				}
			},
			"kill": func(t *rapid.T) {
				if err := h.Close(); err != nil { // without what is pending
					t.Fatal(err)
				}
				if got := filed(t, path); !maps.Equal(got, model) {
					t.Fatalf("after a kill the file has %v, want %v", got, model)
				}
				h = open()
			},
			"fail": func(t *rapid.T) {
				// A bucket of no name is refused.
				name := h.writes.namespace
				h.writes.namespace = ""
				_ = h.writes.flush()
				h.writes.namespace = name
			},
			"restart": func(t *rapid.T) {
				if err := errors.Join(h.writes.flush(), h.Close()); err != nil {
					t.Fatal(err)
				}
				if got := filed(t, path); !maps.Equal(got, model) {
					t.Fatalf("the file has %v, want %v", got, model)
				}
				h = open()
			},
			"": func(t *rapid.T) {
				h.writes.mu.Lock()
				defer h.writes.mu.Unlock()
				for at := range h.writes.pending {
					if _, is := model[at.id]; !is && !h.writes.filed[at] {
						t.Fatalf("%v is pending, and nowhere", at)
					}
				}
			},
		})
	})
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
		return len(p.history.writes.filed) == 200 && p.history.writes.journal.size == 0 // and no transaction runs, which would write a whole file again
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
