package store_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/croft-edge/croft/pkg/clock"
	"github.com/croft-edge/croft/pkg/explorer"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/store"
)

// A store is born once; its birth survives a restart.
func TestBirth(t *testing.T) {
	now := time.Date(2030, 1, 2, 3, 4, 5, 6, time.UTC)
	for _, newNode := range []bool{true, false} {
		root := t.TempDir()
		c := store.Config{Root: root, NewNode: newNode, Clock: fixedClock{now}}
		s := open(t, c)
		born := s.Birth()
		if len(born.ID) != 32 || !born.Time.Equal(now) {
			t.Errorf("born as %+v, want at %s", born, now)
		}
		if s.AcceptsOlder() != newNode {
			t.Errorf("new node %v: accepts older is %v", newNode, s.AcceptsOlder())
		}
		s.Close()
		c.NewNode, c.Clock = !newNode, fixedClock{now.Add(time.Hour)}
		s = open(t, c)
		if s.Birth() != born || s.AcceptsOlder() != newNode {
			t.Errorf("after a restart %+v, accepts older %v", s.Birth(), s.AcceptsOlder())
		}
		if err := s.AcceptOlder(); err != nil {
			t.Fatal(err)
		}
		s.Close()
		s = open(t, c)
		if s.Birth() != born || !s.AcceptsOlder() {
			t.Errorf("after accept-older: %+v, %v", s.Birth(), s.AcceptsOlder())
		}
	}
	a, b := open(t, store.Config{Root: t.TempDir()}), open(t, store.Config{Root: t.TempDir()})
	if a.Birth().ID == b.Birth().ID {
		t.Error("two stores have one birth")
	}
}

// A store that is born while the clock can't be trusted gets its date with the first trusted time.
func TestBirthIsDatedLater(t *testing.T) {
	root := t.TempDir()
	s := open(t, store.Config{Root: root, Clock: &switchClock{now: time.Unix(0, 0)}})
	if b := s.Birth(); b.ID == "" || !b.Time.IsZero() {
		t.Errorf("born as %+v, want no date", b)
	}
	first, second := time.Now().UTC(), time.Now().Add(time.Hour).UTC()
	early := first.Add(-365 * 24 * time.Hour)
	for _, undated := range []clock.Mark{
		{Uptime: clock.Uptime{Total: 1, BootID: "b"}},                    // no known time
		{Time: early, BootID: "b", Source: clock.Explorer},               // the explorer is the only source
		{Time: early, BootID: "b"},                                       // unknown source
		{BootID: "b", Source: clock.NTP, Uptime: clock.Uptime{Total: 2}}, // no time
	} {
		if err := s.SetMark(undated); err != nil {
			t.Fatal(err)
		}
		if b := s.Birth(); !b.Time.IsZero() {
			t.Errorf("%+v dated the birth at %s", undated, b.Time)
		}
	}
	s.Close()
	s = open(t, store.Config{Root: root, Clock: &switchClock{now: time.Unix(0, 0)}})
	for _, m := range []clock.Mark{{Time: first, BootID: "b", Source: clock.Start}, {Time: second, BootID: "b", Source: clock.NTP}} {
		if err := s.SetMark(m); err != nil {
			t.Fatal(err)
		}
	}
	s.Close()
	s = open(t, store.Config{Root: root})
	if b := s.Birth(); !b.Time.Equal(first) {
		t.Errorf("born at %s, want %s", b.Time, first)
	}
	if m := s.Mark(); !m.Time.Equal(second) || m.BootID != "b" {
		t.Errorf("mark %+v, want %s", m, second)
	}
}

// The operator may refuse older reservations again, durably; not while the birth has no date.
func TestOlderOnesAreRefusedAgain(t *testing.T) {
	c := store.Config{Root: t.TempDir(), NewNode: true, Clock: &switchClock{now: time.Unix(0, 0)}}
	s := open(t, c)
	if err := s.RefuseOlder(); node.KindOf(err) != node.Refused || !s.AcceptsOlder() {
		t.Fatalf("without a date: %v, accepts older %v", err, s.AcceptsOlder())
	}
	if err := s.SetMark(clock.Mark{Time: time.Now(), BootID: "b", Source: clock.NTP}); err != nil {
		t.Fatal(err)
	}
	born := s.Birth()
	if err := s.RefuseOlder(); err != nil {
		t.Fatal(err)
	}
	s.Close()
	s = open(t, c)
	if s.AcceptsOlder() || s.Birth().ID != born.ID || !s.Birth().Time.Equal(born.Time) {
		t.Errorf("after a restart %+v, was %+v; accepts older %v", s.Birth(), born, s.AcceptsOlder())
	}
}

// Every source that vouches for a time dates a birth, and the mark is read back whole.
func TestBirthDates(t *testing.T) {
	at := time.Date(2030, 1, 2, 3, 4, 5, 6, time.UTC)
	for _, source := range []clock.Source{clock.Start, clock.NTP, clock.TrustedExplorer} {
		root := t.TempDir()
		s := open(t, store.Config{Root: root, Clock: &switchClock{now: time.Unix(0, 0)}})
		m := clock.Mark{
			Time: at, Boot: 5, BootID: "b", Source: source, Confirmed: 4, Floor: at.Add(-time.Hour),
			Uptime: clock.Uptime{Total: 7, Boot: 6, BootID: "c"},
		}
		if err := s.SetMark(m); err != nil {
			t.Fatal(err)
		}
		if b := s.Birth(); !b.Time.Equal(at) {
			t.Errorf("%s: born at %s, want %s", source, b.Time, at)
		}
		s.Close()
		if s = open(t, store.Config{Root: root}); s.Mark() != m {
			t.Errorf("%s: the mark is %+v, want %+v", source, s.Mark(), m)
		}
	}
}

// BirthClock, where given, dates the birth instead of the clock that expires workloads.
func TestRebirthIsDatedByItsClock(t *testing.T) {
	now := time.Date(2030, 1, 2, 3, 4, 5, 6, time.UTC)
	untrusted := &switchClock{now: time.Unix(0, 0)}
	s := open(t, store.Config{Root: t.TempDir(), Clock: fixedClock{now}, BirthClock: untrusted})
	if err := s.Rebirth(); err != nil || !s.Birth().Time.IsZero() {
		t.Errorf("reborn at %s, %v", s.Birth().Time, err)
	}
	s = open(t, store.Config{Root: t.TempDir(), Clock: untrusted, BirthClock: fixedClock{now}})
	if err := s.Rebirth(); err != nil || !s.Birth().Time.Equal(now) {
		t.Errorf("reborn at %s, %v", s.Birth().Time, err)
	}
}

// A mark from before the rebirth may be another machine's: its boots aren't this machine's,
// whatever their IDs, so that no uptime is counted twice.
func TestAMarkOfAnotherBirth(t *testing.T) {
	root := t.TempDir()
	s := open(t, store.Config{Root: root, NewNode: true})
	m := clock.Mark{Time: time.Now().UTC(), BootID: "b", Source: clock.Start, Uptime: clock.Uptime{Total: time.Hour, BootID: "b"}}
	if err := s.SetMark(m); err != nil {
		t.Fatal(err)
	}
	if err := s.Rebirth(); err != nil {
		t.Fatal(err)
	}
	nameless := m
	nameless.BootID, nameless.Uptime.BootID = "", ""
	for range 2 {
		if got := s.Mark(); got != nameless {
			t.Errorf("the mark is %+v, want %+v", got, nameless)
		}
		s.Close()
		s = open(t, store.Config{Root: root})
	}
	if err := s.SetMark(m); err != nil || s.Mark() != m {
		t.Errorf("the mark is %+v, want %+v; %v", s.Mark(), m, err)
	}
}

// A restored store has another birth, and asks for everything again.
func TestRebirth(t *testing.T) {
	root := t.TempDir()
	s := open(t, store.Config{Root: root, NewNode: true})
	if err := s.SetCursor(explorer.Cursor{Epoch: "e", Change: 5}); err != nil {
		t.Fatal(err)
	}
	born := s.Birth()
	if err := s.Rebirth(); err != nil {
		t.Fatal(err)
	}
	s.Close()
	s = open(t, store.Config{Root: root, NewNode: true})
	if b := s.Birth(); b.ID == born.ID || !b.Time.After(born.Time) || s.AcceptsOlder() || s.Cursor() != (explorer.Cursor{}) {
		t.Errorf("reborn as %+v, accepts older %v, cursor %v", b, s.AcceptsOlder(), s.Cursor())
	}
}

// A restored store answers anew what the explorer asks for again: the explorer keeps the answer of the birth that it has seen last, and that may be of the
// store that was used meanwhile.
func TestRebirthAnswersAnew(t *testing.T) {
	root := t.TempDir()
	s := open(t, store.Config{Root: root, NewNode: true})
	rec := record(volume("1-1", time.Now(), time.Hour), store.Intent)
	if err := put(s, rec); err != nil {
		t.Fatal(err)
	}
	first := finish(t, s, answered(rec, store.Deployed, workload.StateOK))
	if err := s.Acknowledge(store.ReceiptFor(first)); err != nil {
		t.Fatal(err)
	}
	if err := s.Rebirth(); err != nil {
		t.Fatal(err)
	}
	if owed, err := s.Undelivered(); err != nil || len(owed) > 0 {
		t.Errorf("nobody has asked, and it owes %s, %v", ids(owed), err)
	}
	for range 2 { // the second time it is of this birth already
		if err := s.Resend("1-1"); err != nil {
			t.Fatal(err)
		}
		owed, err := s.Undelivered()
		if err != nil || ids(owed) != "1-1" {
			t.Fatalf("it owes %s, %v", ids(owed), err)
		}
		r := owed[0].Result
		if r.Birth != s.Birth().ID || r.Sequence != first.Result.Sequence+1 || r.State != workload.StateOK || r.Signature != nil || !bytes.Equal(r.Data, first.Result.Data) {
			t.Errorf("the answer is %+v, was %+v", r, first.Result)
		}
		s.Close()
		s = open(t, store.Config{Root: root})
	}
}

// A copy of a store, such as a restored backup, is recognized as a copy.
func TestACopyIsRebornByItself(t *testing.T) {
	root := filepath.Join(t.TempDir(), "store")
	s := open(t, store.Config{Root: root, NewNode: true})
	born := s.Birth().ID
	s.Close()

	copied := filepath.Join(filepath.Dir(root), "copy")
	if err := os.CopyFS(copied, os.DirFS(root)); err != nil {
		t.Fatal(err)
	}
	c := open(t, store.Config{Root: copied, NewNode: true})
	if c.Birth().ID == born || c.AcceptsOlder() {
		t.Errorf("the copy has birth %s, accepts older %v", c.Birth().ID, c.AcceptsOlder())
	}
	again := c.Birth()
	c.Close()
	if c = open(t, store.Config{Root: copied}); c.Birth() != again {
		t.Error("the copy is reborn at each start")
	}

	moved := filepath.Join(filepath.Dir(root), "moved")
	if err := os.Rename(root, moved); err != nil {
		t.Fatal(err)
	}
	if m := open(t, store.Config{Root: moved}); m.Birth().ID != born || !m.AcceptsOlder() {
		t.Error("a store that was only moved is reborn")
	}
}

// Two processes can't share a store, and the second one's error names the first.
func TestLock(t *testing.T) {
	root := t.TempDir()
	s := open(t, store.Config{Root: root})
	before := listing(t, root)
	_, err := store.Open(store.Config{Root: root})
	wantKind(t, "opening twice", err, node.Busy)
	t.Log(err)
	if after := listing(t, root); len(after) != len(before) {
		t.Errorf("the second one has changed the folder: %v, was %v", after, before)
	}
	if err := put(s, record(volume("1-1", time.Now(), time.Hour), store.Intent)); err != nil {
		t.Errorf("the first one, after that: %v", err)
	}
	s.Close()
	open(t, store.Config{Root: root})
	_, err = store.Open(store.Config{})
	wantKind(t, "no folder", err, node.Invalid)
}
