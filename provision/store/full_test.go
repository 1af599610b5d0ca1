package store_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/pkg/explorer"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/store"
)

// tinyDisk mounts a real file system of that size.
func tinyDisk(t *testing.T, size string) string {
	t.Helper()
	at := t.TempDir()
	if err := unix.Mount("croft-test", at, "tmpfs", 0, "size="+size); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(at, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return at
}

// fill takes all space left but free bytes.
func fill(t *testing.T, at string, free int64) {
	t.Helper()
	f, err := os.Create(filepath.Join(at, "filler"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var size int64
	for {
		n, err := f.Write(make([]byte, 4096))
		size += int64(n)
		if err != nil {
			break
		}
	}
	if err := f.Truncate(size - free); err != nil {
		t.Fatal(err)
	}
}

// A full disk, a real one: a write that doesn't fit is NoSpace and changes nothing, on the
// disk or in memory; with space again the store goes on.
func TestFullDisk(t *testing.T) {
	at := tinyDisk(t, "512k")
	root := filepath.Join(at, "store")
	s := open(t, store.Config{Root: root, NewNode: true})
	first := finish(t, s, answered(record(volume("1-1", time.Now(), time.Hour), store.Intent), store.Deployed, workload.StateOK))
	fill(t, at, 0)

	second := record(volume("2-1", time.Now(), time.Hour), store.Intent)
	leaving := first.Clone()
	leaving.Phase = store.Leaving
	_, finished := one(s, answered(first, store.Deployed, workload.StateOK))
	for what, err := range map[string]error{
		"begin": put(s, second), "begin to leave": put(s, leaving), "finish": finished,
		"acknowledge": s.Acknowledge(store.Receipt{ID: "1-1", Sequence: first.Result.Sequence}),
		"cursor":      s.SetCursor(explorer.Cursor{Epoch: "e", Change: 1}),
		"add":         s.Add(volume("3-1", time.Now(), time.Hour)),
	} {
		wantKind(t, what, err, node.NoSpace)
	}
	check := func(when string, s *store.FSStore) {
		t.Helper()
		got, err := s.Record("1-1")
		if err != nil || !equalJSON(t, got, first) {
			t.Errorf("%s: the record is %+v, %v", when, got, err)
		}
		if all, _ := s.List(); ids(all) != "1-1" || s.Cursor().Change != 0 {
			t.Errorf("%s: records %s, cursor %v", when, ids(all), s.Cursor())
		}
	}
	check("full", s)
	for _, name := range listing(t, root) {
		if strings.Contains(name, ".tmp-") {
			t.Errorf("%s is left", name)
		}
	}
	s.Close()
	s = open(t, store.Config{Root: root}) // a full disk doesn't keep the node from starting
	check("restarted, full", s)

	if err := os.Remove(filepath.Join(at, "filler")); err != nil {
		t.Fatal(err)
	}
	if err := put(s, second); err != nil {
		t.Errorf("with space again: %v", err)
	}
	if err := s.Acknowledge(store.Receipt{ID: "1-1", Sequence: first.Result.Sequence}); err != nil {
		t.Errorf("with space again: %v", err)
	}
}

// The disk fills up while the store is in use: each write is whole or nothing.
func TestDiskFillsUp(t *testing.T) {
	at := tinyDisk(t, "1m")
	root := filepath.Join(at, "store")
	s := open(t, store.Config{Root: root})
	begun := map[string]bool{}
	for i := 1; len(begun) < 2000; i++ {
		r := reservation(workload.TypeContainer, fmt.Sprintf("%d-1", i), fmt.Sprintf(`{"x":%q}`, strings.Repeat("y", 700*(i%9))), time.Now(), time.Hour)
		err := put(s, record(r, store.Intent))
		if err != nil {
			wantKind(t, "begin", err, node.NoSpace)
			break
		}
		begun[r.ID] = true
	}
	if len(begun) < 10 || len(begun) == 2000 {
		t.Fatalf("%d records fit into 1 MiB", len(begun))
	}
	s.Close()
	s = open(t, store.Config{Root: root})
	all, err := s.List()
	if err != nil || len(all) != len(begun) || len(s.Quarantined()) != 0 {
		t.Errorf("%d records, want %d; set aside %v; %v", len(all), len(begun), s.Quarantined(), err)
	}
	for _, r := range all {
		if !begun[r.ID()] || workload.Verify(r.Reservation) != nil {
			t.Errorf("%s isn't what was begun", r.ID())
		}
	}
	// Removing needs no space: so an operator can free the disk.
	if err := put(s, record(all[0].Reservation, store.Ended)); err == nil {
		if err := s.Bury(all[0].ID()); err != nil {
			t.Errorf("burying on a full disk: %v", err)
		}
	}
}
