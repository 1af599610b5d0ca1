package plane

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"testing"

	"github.com/cosi-project/runtime/pkg/resource"
	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"github.com/croft-edge/croft/pkg/resources/registry"
	"github.com/croft-edge/croft/pkg/resources/work"
)

// TestJournal: wherever a line was cut short, by a kill or a full disk, all other entries are there, in their order, and those that are left after it was
// written anew.
func TestJournal(t *testing.T) {
	dir := t.TempDir()
	n := 0
	rapid.Check(t, func(t *rapid.T) {
		n++
		path := filepath.Join(dir, fmt.Sprint(n))
		j, _, err := openJournal(path)
		if err != nil {
			t.Fatal(err)
		}
		var model []entry
		next := 0
		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				next++
				e := entry{uint64(next), "Events.croft", fmt.Sprint(next), rapid.SliceOfN(rapid.Byte(), 0, 40).Draw(t, "sealed")}
				if len(e.Sealed) == 0 {
					e.Sealed = nil
				}
				if err := j.add(e); err != nil {
					t.Fatal(err)
				}
				model = append(model, e)
			},
			"torn": func(t *rapid.T) {
				if _, err := j.file.WriteString("\n{\"kind\":\"Events.croft\",\"id\":\"torn\",\"sea"); err != nil {
					t.Fatal(err)
				}
			},
			"replace": func(t *rapid.T) {
				model = model[rapid.IntRange(0, len(model)).Draw(t, "gone"):]
				if err := j.replace(model...); err != nil {
					t.Fatal(err)
				}
			},
			"restart": func(t *rapid.T) {
				_ = j.file.Close()
				var left []entry
				if j, left, err = openJournal(path); err != nil {
					t.Fatal(err)
				}
				if fmt.Sprint(left) != fmt.Sprint(model) {
					t.Fatalf("it has %v, want %v", left, model)
				}
				if info, err := os.Stat(path); err != nil || info.Size() != int64(j.size) {
					t.Fatalf("its size is %d, %v", j.size, err)
				}
				if _, err := os.Stat(path + ".new"); err == nil {
					t.Fatal("there is another file")
				}
			},
		})
		_ = j.file.Close()
	})
}

// read opens a history.
func read(t *testing.T, path string) *history {
	t.Helper()
	if err := registry.Register(); err != nil {
		t.Fatal(err)
	}
	h, err := readHistory(path, make([]byte, keyBytes), zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func putEvent(t *testing.T, h *history, id, message string) {
	t.Helper()
	if err := h.writes.Put(t.Context(), work.EventsType, work.NewEvent(id, work.EventSpec{Message: message})); err != nil {
		t.Fatal(err)
	}
}

// begun is a transaction.
func begun(h *history) batch {
	some, _ := h.writes.begin()
	return some
}

// TestADatabaseThatCannotBeWritten: what comes and goes meanwhile leaves nothing behind, and what is there is shown by the next process.
func TestADatabaseThatCannotBeWritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "history.db")
	h := read(t, path)
	h.writes.close()
	for i := range 1000 {
		putEvent(t, h, fmt.Sprint(i), "words")
		if err := h.writes.end(begun(h), unix.EIO); err == nil {
			t.Fatal("it was written")
		}
		if i >= 10 {
			gone := work.NewEvent(fmt.Sprint(i-10), work.EventSpec{})
			if err := h.writes.Destroy(t.Context(), work.EventsType, gone.Metadata()); err != nil {
				t.Fatal(err)
			}
			if err := h.writes.end(begun(h), unix.EIO); err == nil {
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

// TestWhatWaitsIsLoaded: what isn't in the database yet is shown as if it were.
func TestWhatWaitsIsLoaded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "history.db")
	h := read(t, path)
	putEvent(t, h, "1", "first")
	putEvent(t, h, "2", "removed")
	h.writes.close()
	putEvent(t, h, "1", "second")
	putEvent(t, h, "3", "third")
	if err := h.writes.Destroy(t.Context(), work.EventsType, work.NewEvent("2", work.EventSpec{}).Metadata()); err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	err := h.writes.Load(t.Context(), func(_ resource.Type, r resource.Resource) error {
		got[r.Metadata().ID()] = r.(*work.Event).TypedSpec().Message //nolint:forcetypeassert // the file has nothing else
		return nil
	})
	if want := map[string]string{"1": "second", "3": "third"}; err != nil || !maps.Equal(got, want) {
		t.Errorf("it shows %v, %v, want %v", got, err, want)
	}
	_ = h.Close()
}

// TestAJournalThatCannotBeOpened: what a later process finds in it again isn't taken for newer than what was written meanwhile.
func TestAJournalThatCannotBeOpened(t *testing.T) {
	path := filepath.Join(t.TempDir(), "history.db")
	journal := path + ".journal"
	h := read(t, path)
	h.writes.close()
	for i := range 5 {
		putEvent(t, h, "1", fmt.Sprint(i))
		if err := h.writes.keep(); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(h.Close(), os.Rename(journal, journal+".away"), os.Mkdir(journal, 0o700)); err != nil {
		t.Fatal(err)
	}
	h = read(t, path)
	putEvent(t, h, "1", "newest")
	if err := errors.Join(h.Close(), os.Remove(journal), os.Rename(journal+".away", journal)); err != nil {
		t.Fatal(err)
	}
	if got := filed(t, path); got["1"] != "newest" {
		t.Errorf("there is %v", got)
	}
}
