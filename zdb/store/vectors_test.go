package store_test

import (
	"encoding/hex"
	"errors"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/zdb/store"
)

// The numbers in this file are those that 0-db itself answered: the recorded
// suites user-scan, user-history, seq-basic, rotate-user, rotate-seq and index-data, and layout.

func open(t *testing.T, cfg store.Config) *store.Store {
	t.Helper()
	s, err := store.Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Discard)
	return s
}

func again(t *testing.T, s *store.Store, cfg store.Config) *store.Store {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return open(t, cfg)
}

func config(t *testing.T, l store.Layout, sequential bool) store.Config {
	t.Helper()
	return store.Config{Dir: t.TempDir(), Layout: l, Sequential: sequential, Log: zerolog.Nop()}
}

func set(t *testing.T, s *store.Store, key, value string, at uint32) string {
	t.Helper()
	id, wrote, err := s.Set([]byte(key), []byte(value), store.SetOptions{At: at})
	if err != nil || !wrote {
		t.Fatalf("Set(%q): %t, %v", key, wrote, err)
	}
	out := string(id)
	if err := s.Flush(); err != nil {
		t.Fatal(err)
	}
	return out
}

func del(t *testing.T, s *store.Store, key string) {
	t.Helper()
	if ok, err := s.Delete([]byte(key), 1580000003); !ok || err != nil {
		t.Fatalf("Delete(%q): %t, %v", key, ok, err)
	}
	if err := s.Flush(); err != nil {
		t.Fatal(err)
	}
}

func id(n byte) string { return string([]byte{n, 0, 0, 0, 0, 0, 0, 0}) }

// at checks where a key's entry is, and what else its cursor shows.
func at(t *testing.T, s *store.Store, key string, file, offset, length, crc uint32) {
	t.Helper()
	e, found, err := s.Lookup([]byte(key))
	if err != nil || !found {
		t.Fatalf("Lookup(%q): %t, %v", key, found, err)
	}
	if e.Position != (store.Position{File: file, Offset: offset}) || e.Length != length || e.CRC != crc {
		t.Errorf("%q is at %v, %d bytes, crc %#x; want %d/%#x, %d, %#x", key, e.Position, e.Length, e.CRC, file, offset, length, crc)
	}
}

func walk(t *testing.T, s *store.Store) (forward, backward string) {
	t.Helper()
	var out [2][]string
	for e, ok, err := s.First(); ok || err != nil; e, ok, err = s.Next(e) {
		if err != nil {
			t.Fatal(err)
		}
		out[0] = append(out[0], strings.TrimRight(string(e.Key), "\x00"))
	}
	for e, ok, err := s.Last(); ok || err != nil; e, ok, err = s.Prev(e) {
		if err != nil {
			t.Fatal(err)
		}
		out[1] = append(out[1], strings.TrimRight(string(e.Key), "\x00"))
	}
	return strings.Join(out[0], " "), strings.Join(out[1], " ")
}

func TestScanPositionsMatch0db(t *testing.T) {
	cfg := config(t, store.V2(), false)
	s := open(t, cfg)
	for i, k := range []string{"k1", "k2", "k3", "k4", "k5"} {
		set(t, s, k, "value-"+k[1:], 1580000001+uint32(i))
	}
	at(t, s, "k1", 0, 0x1d, 7, 0x904b9197)
	at(t, s, "k5", 0, 0xad, 7, 0x57d10688)
	del(t, s, "k2")
	set(t, s, "k3", "value-3-new", 1580000033)
	if f, b := walk(t, s); f != "k1 k4 k5 k3" || b != "k3 k5 k4 k1" {
		t.Errorf("forward %s, backward %s", f, b)
	}
	at(t, s, "k4", 0, 0x89, 7, 0xa5ba858b)
	at(t, s, "k3", 0, 0xd1, 11, 0x784f6567)
	del(t, s, "k1")
	// The cursor of a deleted key stays usable.
	e, found, err := s.At(store.Position{Offset: 0x1d})
	if err != nil || !found || !e.Deleted || string(e.Key) != "k1" {
		t.Fatalf("the deleted k1: %+v, %t, %v", e, found, err)
	}
	if e, found, err = s.Next(e); err != nil || !found || string(e.Key) != "k4" {
		t.Errorf("after the deleted k1: %+v, %t, %v", e, found, err)
	}
	if err := s.Rotate(); err != nil {
		t.Fatal(err)
	}
	set(t, s, "k6", "value-6", 1580000006)
	at(t, s, "k6", 1, 0x1d, 7, 0x4481f57c)
	for range 2 {
		if f, b := walk(t, s); f != "k4 k5 k3 k6" || b != "k6 k3 k5 k4" {
			t.Errorf("forward %s, backward %s", f, b)
		}
		s = again(t, s, cfg)
	}
	if got := s.Stats(); got.Next != 7 || got.DataBytes != 32 || got.Entries != 4 || got.File != 1 || got.DataOffset != 55 {
		t.Errorf("after a restart: %+v", got)
	}
}

func TestHistoryMatches0db(t *testing.T) {
	s := open(t, config(t, store.V2(), false))
	for i, v := range []string{"rev-0", "rev-1", "rev-2"} {
		set(t, s, "h", v, 1580000000+uint32(i))
	}
	e, _, err := s.Lookup([]byte("h"))
	for _, want := range []struct {
		offset uint32
		value  string
	}{{0x40, "rev-1"}, {0x1d, "rev-0"}} {
		if err != nil {
			t.Fatal(err)
		}
		var found bool
		if e, found, err = s.Parent(e); err != nil || !found || e.Position.Offset != want.offset {
			t.Fatalf("parent: %+v, %t, %v; want %#x", e, found, err, want.offset)
		}
		if v, err := s.Value(e); err != nil || string(v) != want.value {
			t.Fatalf("value %q, %v; want %q", v, err, want.value)
		}
	}
	if _, found, err := s.Parent(e); found || err != nil {
		t.Errorf("the first has a parent: %v", err)
	}
	del(t, s, "h")
	set(t, s, "h", "after-del", 1580000020)
	e, _, _ = s.Lookup([]byte("h"))
	if _, found, _ := s.Parent(e); found {
		t.Error("after a deletion the chain must begin anew")
	}
}

func TestSequentialModeMatches0db(t *testing.T) {
	for _, v := range []struct {
		layout               store.Layout
		one, parent, dataEnd uint32
	}{{store.V2(), 0x47, 0xc5, 289}, {store.V1(), 0x3d, 0xa3, 0}} {
		cfg := config(t, v.layout, true)
		s := open(t, cfg)
		key := func(n byte) string { return id(n)[:v.layout.IDSize] }
		for i := range byte(4) {
			if got := set(t, s, "", "payload-"+string('0'+i), 1580000000); got != key(i) {
				t.Fatalf("id %x, want %d", got, i)
			}
		}
		for _, k := range []string{"userkey", key(0x63), key(4), "abc", key(0) + "x"} {
			if _, _, err := s.Set([]byte(k), []byte("v"), store.SetOptions{}); !errors.Is(err, store.ErrUnknownID) {
				t.Errorf("Set(%x): %v, want ErrUnknownID", k, err)
			}
		}
		set(t, s, key(1), "payload-1-new", 1580000050)
		if got := set(t, s, "", "next", 1580000051); got != key(5) {
			t.Fatalf("an update uses up one id: got %x, want 5", got)
		}
		if _, found, err := s.Get([]byte(key(4))); found || err != nil {
			t.Errorf("the id that the update used up: %t, %v", found, err)
		}
		del(t, s, key(2))
		if _, _, err := s.Set([]byte(key(2)), []byte("revive"), store.SetOptions{}); !errors.Is(err, store.ErrUnknownID) {
			t.Errorf("a deleted id: %v", err)
		}
		set(t, s, "", "", 1580000060)
		at(t, s, key(1), 0, v.one, 13, 0x5af49b20)
		e, _, _ := s.Lookup([]byte(key(1)))
		if p, found, err := s.Parent(e); err != nil || !found || p.Position.Offset != v.parent {
			t.Errorf("parent %+v, %t, %v; want %#x", p, found, err, v.parent)
		}
		st := s.Stats()
		if st.Entries != 5 || st.DataBytes != 35 || st.Next != 7 || v.dataEnd > 0 && st.DataOffset != v.dataEnd {
			t.Errorf("%+v", st)
		}
		s = again(t, s, cfg)
		if got := set(t, s, "", "after-restart", 1580000070); got != key(7) {
			t.Errorf("after a restart the id is %x, want 7", got)
		}
	}
}

func TestRotationMatches0db(t *testing.T) {
	cfg := config(t, store.V2(), false)
	cfg.DataSize = 524288
	s := open(t, cfg)
	for i := range byte(7) {
		set(t, s, "big"+string('0'+i), strings.Repeat(string('A'+i), 200000), 1580000000+uint32(i))
	}
	at(t, s, "big6", 3, 0x1d, 200000, 0xd75617de)
	at(t, s, "big0", 0, 0x1d, 200000, 0xc5177ac8)
	del(t, s, "big1")
	set(t, s, "big0", "small", 1580000100)
	at(t, s, "big0", 3, 0x43, 5, 0x3baf8f7c)
	if got := s.Stats(); got.Next != 7 || got.DataBytes != 1000005 || got.File != 3 || got.DataOffset != 200099 {
		t.Errorf("%+v", got)
	}
	s = again(t, s, cfg)
	// A value larger than a file still goes into one.
	set(t, s, "toobig-for-file", strings.Repeat("Z", 600000), 1580000200)
	if got := s.Stats(); got.Next != 9 || got.DataBytes != 1600005 || got.File != 4 || got.DataOffset != 600061 {
		t.Errorf("%+v", got)
	}
}

func TestRotationInSequentialModeMatches0db(t *testing.T) {
	cfg := config(t, store.V2(), true)
	cfg.DataSize = 524288
	s := open(t, cfg)
	for i := range byte(7) {
		set(t, s, "", strings.Repeat(string('A'+i), 200000), 1580000000+uint32(i))
	}
	set(t, s, id(0), "updated", 1580000100)
	del(t, s, id(1))
	at(t, s, id(0), 0, 0x1d, 7, 0x83671030)
	at(t, s, id(6), 3, 0x1d, 200000, 0xd75617de)
	s = again(t, s, cfg)
	if got := set(t, s, "", "tail", 1580000101); got != id(8) {
		t.Errorf("id %x, want 8", got)
	}
	if got := s.Stats(); got.Entries != 7 || got.DataBytes != 1000011 || got.Next != 9 || got.File != 3 || got.DataOffset != 200143 {
		t.Errorf("%+v", got)
	}
}

func TestDirtyAndRawMatch0db(t *testing.T) {
	s := open(t, config(t, store.V2(), false))
	set(t, s, "a", "1", 1580000000)
	set(t, s, "b", "two", 1580000001)
	if d := s.Dirty(); len(d) != 0 {
		t.Errorf("appending makes %v dirty", d)
	}
	set(t, s, "a", "changed", 1580000002)
	if d := s.Dirty(); len(d) != 1 || d[0] != 0 {
		t.Errorf("dirty %v, want 0", d)
	}
	s.ResetDirty()
	del(t, s, "b")
	if d := s.Dirty(); len(d) != 1 {
		t.Errorf("dirty %v, want 0", d)
	}
	for _, want := range []struct {
		offset, previous, crc uint32
		key, value            string
	}{{28, 0, 0xc288cab2, "a", "1"}, {48, 28, 0x32bc10d9, "b", "two"}} {
		r, err := s.Raw(0, want.offset)
		if err != nil || string(r.Key) != want.key || string(r.Value) != want.value || r.Previous != want.previous || r.CRC != want.crc || r.Deleted {
			t.Errorf("Raw(%d): %+v, %v", want.offset, r, err)
		}
	}
	if r, err := s.Raw(0, 96); err != nil || !r.Deleted || string(r.Key) != "b" || len(r.Value) != 0 || r.Previous != 70 {
		t.Errorf("the deletion: %+v, %v", r, err)
	}
	for _, bad := range []struct {
		file, offset uint32
		want         error
	}{{0, 99999, store.ErrEOF}, {0, 29, store.ErrOffset}, {7, 28, store.ErrOffset}} {
		if _, err := s.Raw(bad.file, bad.offset); !errors.Is(err, bad.want) {
			t.Errorf("Raw(%d, %d): %v, want %v", bad.file, bad.offset, err, bad.want)
		}
	}
	if got := s.Stats(); got.DataOffset != 115 || got.Next != 2 {
		t.Errorf("%+v", got)
	}
}

func TestChecksumMatches0db(t *testing.T) {
	want, _ := hex.DecodeString("4af01193")
	got := store.PayloadCRC([]byte("one"))
	if [4]byte(want) != [4]byte{byte(got >> 24), byte(got >> 16), byte(got >> 8), byte(got)} {
		t.Errorf("crc of one is %#x", got)
	}
}

func TestLimitCountsLivePayload(t *testing.T) {
	cfg := config(t, store.V2(), false)
	cfg.MaxSize = 10
	s := open(t, cfg)
	refused := func(key, value string) {
		t.Helper()
		if _, _, err := s.Set([]byte(key), []byte(value), store.SetOptions{}); !errors.Is(err, store.ErrNoSpace) {
			t.Errorf("Set(%s, %s): %v, want ErrNoSpace", key, value, err)
		}
	}
	set(t, s, "k", "12345", 1)
	set(t, s, "l", "12345", 1)
	refused("m", "1")
	set(t, s, "m", "", 1)
	refused("k", "123456")
	set(t, s, "k", "54321", 1)
	if got := s.Stats(); got.DataOffset != 119 || got.Next != 3 {
		t.Errorf("%+v", got)
	}
	del(t, s, "l")
	set(t, s, "q", "1", 1)
	s.SetMaxSize(3)
	refused("r", "zzzz")
	set(t, s, "k", "1", 1)
	s.SetMaxSize(0)
	set(t, s, "r", "zzzz", 1)
	if _, _, err := s.Set([]byte("k"), []byte("1"), store.SetOptions{Worm: true}); !errors.Is(err, store.ErrWorm) {
		t.Errorf("worm: %v", err)
	}
}
