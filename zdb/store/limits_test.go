package store_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/zdb/store"
)

func TestMemoryLimit(t *testing.T) {
	cfg := config(t, store.V2(), false)
	used, most := 0, 60_000
	cfg.Memory = func(more int) bool {
		if used+more > most {
			return false
		}
		used += more
		return true
	}
	s := open(t, cfg)
	n := 0
	var err error
	for ; err == nil; n++ {
		_, _, err = s.Set(fmt.Appendf(nil, "key-%d", n), []byte("v"), store.SetOptions{})
	}
	if !errors.Is(err, store.ErrFull) || n < 500 {
		t.Fatalf("after %d keys: %v", n, err)
	}
	if got := s.Stats().Memory; got != uint64(used) || used > most {
		t.Errorf("the table has %d bytes, asked for were %d", got, used)
	}
	// Existing entries may still be changed and deleted.
	set(t, s, "key-1", "other", 1)
	del(t, s, "key-2")
	if err := s.Close(); err != nil || used != 0 {
		t.Errorf("closed: %v, %d bytes are not given back", err, used)
	}
}

func TestStoreOpensOnce(t *testing.T) {
	cfg := config(t, store.V2(), false)
	s := open(t, cfg)
	if _, err := store.Open(cfg); err == nil || !strings.Contains(err.Error(), "cannot open store") {
		t.Fatalf("opened twice: %v", err)
	}
	again(t, s, cfg)
}

func TestModeCannotChange(t *testing.T) {
	for _, clean := range []bool{true, false} {
		cfg := config(t, store.V2(), false)
		s := open(t, cfg)
		set(t, s, "a", "1", 1)
		if clean {
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		} else {
			s.Discard()
		}
		for _, change := range []func(*store.Config){
			func(c *store.Config) { c.Sequential = true }, func(c *store.Config) { c.Layout = store.V1() },
		} {
			other := cfg
			change(&other)
			if _, err := store.Open(other); err == nil || !strings.Contains(err.Error(), "wanted is") {
				t.Errorf("opened as another kind: %v", err)
			}
		}
		s = open(t, cfg)
		if _, found, err := s.Get([]byte("a")); !found || err != nil {
			t.Error(found, err)
		}
	}
}

func TestInvalidConfig(t *testing.T) {
	good := store.Config{Dir: t.TempDir(), Layout: store.V2()}
	for want, change := range map[string]func(*store.Config){
		"Dir is empty":     func(c *store.Config) { c.Dir = "" },
		"Layout is":        func(c *store.Config) { c.Layout.IDSize = 5 },
		"SegmentSize is 7": func(c *store.Config) { c.SegmentSize = 7 },
		"DataSize is":      func(c *store.Config) { c.DataSize = 1 << 40 },
	} {
		c := good
		change(&c)
		if _, err := store.Open(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

func TestKeyAndValueLimits(t *testing.T) {
	s := open(t, config(t, store.V2(), false))
	for _, key := range []string{"", strings.Repeat("k", 256)} {
		if _, _, err := s.Set([]byte(key), nil, store.SetOptions{}); !errors.Is(err, store.ErrKey) {
			t.Errorf("a key of %d bytes: %v", len(key), err)
		}
	}
	if _, _, err := s.Set([]byte("k"), make([]byte, 64<<20+1), store.SetOptions{}); !errors.Is(err, store.ErrValue) {
		t.Errorf("a value over 64 MiB: %v", err)
	}
	for _, n := range []int{0, 1, 255<<10 + 1023, 256 << 10, 8 << 20} {
		value := bytes.Repeat([]byte{7}, n)
		set(t, s, strings.Repeat("k", 255), string(value)+"x", 1)
		if v, found, err := s.Get([]byte(strings.Repeat("k", 255))); err != nil || !found || len(v) != n+1 || !bytes.Equal(v[:n], value) {
			t.Errorf("%d bytes: %d, %t, %v", n, len(v), found, err)
		}
	}
}

func TestDamagedSegmentIsNotCompacted(t *testing.T) {
	disk := newMemDisk()
	var said bytes.Buffer
	cfg := store.Config{
		Dir: "/data", Layout: store.V2(), SegmentSize: 8 << 10, MaxSize: 64 << 10, Background: func(f func()) { f() }, Log: zerolog.New(&said),
	}.OnDisk(disk)
	s := open(t, cfg)
	for i := range 20 {
		set(t, s, fmt.Sprintf("cold-%d", i), strings.Repeat("c", 300), 1)
	}
	f := disk.files["/data/log-0000000001"]
	f.content[bytes.Index(f.content, []byte("cold-3"))+20] ^= 1
	for i := range 3000 {
		set(t, s, fmt.Sprintf("hot-%d", i%50), strings.Repeat(fmt.Sprint(i), 80), 1)
		if i%3 == 0 && i < 60 {
			// Space in the damaged segment, so that cleaning comes by.
			_, _ = s.Delete(fmt.Appendf(nil, "cold-%d", 4+i/3%16), 1)
		}
	}
	if disk.files["/data/log-0000000001"] == nil {
		t.Fatal("the damaged segment is gone")
	}
	if disk.files["/data/log-0000000004"] != nil {
		t.Error("nothing else was cleaned")
	}
	if !strings.Contains(said.String(), "cannot compact a segment") {
		t.Errorf("it says: %s", said.String())
	}
	for i := range 4 {
		_, found, err := s.Get(fmt.Appendf(nil, "cold-%d", i))
		if i == 3 && !errors.Is(err, store.ErrDamaged) || i != 3 && (!found || err != nil) {
			t.Errorf("cold-%d: %t, %v", i, found, err)
		}
	}
}
