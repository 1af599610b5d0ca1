package managed

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/pkg/node"
)

func openTable(t *testing.T, dir string) *Table {
	t.Helper()
	table, err := Open(Store{Dir: dir, Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	return table
}

func hold(t *testing.T, table *Table, id string) *Container {
	t.Helper()
	c, err := table.Hold(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func keep(t *testing.T, table *Table, r Record) {
	t.Helper()
	c := hold(t, table, r.ID)
	defer table.Release(c)
	if err := table.Keep(c, r); err != nil {
		t.Fatal(err)
	}
}

func TestRecordsSurviveTheTable(t *testing.T) {
	dir := t.TempDir()
	table := openTable(t, dir)
	keep(t, table, Record{ID: "1-1", User: "ada", Restarts: 3})
	keep(t, table, Record{ID: "1-2", User: "ada"})
	for name, text := range map[string]string{"1-3.json": "{", "1-4.json": `{"Version":1,"ID":"1-5","User":"ada"}`, "notes": "x"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	next := openTable(t, dir)
	if r, known := next.Record("1-1"); !known || r.Restarts != 3 || r.User != "ada" || next.Count() != 2 {
		t.Errorf("record %+v, %t, of %d", r, known, next.Count())
	}
	c := hold(t, next, "1-1")
	if err := next.Forget(c); err != nil {
		t.Fatal(err)
	}
	next.Release(c)
	if _, known := next.Record("1-1"); known || openTable(t, dir).Count() != 1 {
		t.Error("a forgotten record is still there")
	}
}

func TestOneChangeAtATime(t *testing.T) {
	table := openTable(t, t.TempDir())
	first := hold(t, table, "1-1")
	short, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if _, err := table.Hold(short, "1-1"); !errors.Is(err, node.Busy) {
		t.Errorf("a second change: %v", err)
	}
	table.Release(hold(t, table, "1-2"))
	table.Release(first)
	table.Release(hold(t, table, "1-1"))
	if n := len(table.containers); n != 0 {
		t.Errorf("%d containers without a record stay in the table", n)
	}
	table.Close()
	if _, err := table.Hold(t.Context(), "1-1"); !errors.Is(err, node.Transient) {
		t.Errorf("a change of a closed table: %v", err)
	}
}

func TestRestartTimers(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		table := openTable(t, dir)
		var due []string
		next := func(d time.Duration) int64 { return time.Now().Add(d).UnixNano() }
		keep(t, table, Record{ID: "early", User: "ada", Wanted: true, Next: next(time.Second)})
		table.StartTimers(func(id string) { due = append(due, id) })
		keep(t, table, Record{ID: "1-1", User: "ada", Wanted: true, Next: next(time.Second)})
		keep(t, table, Record{ID: "stopped", User: "ada", Next: next(time.Second)})
		keep(t, table, Record{ID: "runs", User: "ada", Wanted: true})
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if !slices.Equal(due, []string{"1-1"}) {
			t.Errorf("due: %v", due)
		}
		// A look sets the timers that are missing.
		due = nil
		ended := table.Unnoticed(func(id string) (runs, there bool) { return false, id != "lost" })
		synctest.Wait()
		if !slices.Equal(due, []string{"early"}) || !slices.Equal(ended, []string{"runs"}) {
			t.Errorf("due: %v, ended: %v", due, ended)
		}
		due = nil
		keep(t, table, Record{ID: "1-1", User: "ada", Wanted: true, Next: next(time.Second)})
		table.Close()
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if len(due) != 0 {
			t.Errorf("due after the end: %v", due)
		}
	})
}
