package store_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/zdb/store"
)

// history is the operations on a store, with the newest value of each key; "" is none.
type history struct {
	cfg    store.Config
	disk   *memDisk
	newest map[string]string
	now    time.Time
	clean  bool // it was closed
}

// tell runs a random history and ends it, cleanly or not.
func tell(t *testing.T, r *rand.Rand) *history {
	h := &history{disk: newMemDisk(), newest: map[string]string{}, now: time.Unix(1580000000, 0)}
	h.cfg = store.Config{
		Dir: "/data", Layout: store.V2(), Sequential: r.IntN(2) == 0, SegmentSize: 4096 << r.IntN(5),
		MaxSize: []uint64{0, 20000}[r.IntN(2)], Background: func(f func()) { f() }, Log: zerolog.New(io.Discard),
	}.WithChunks(64).AtTime(func() time.Time { return h.now }).OnDisk(h.disk)
	s := open(t, h.cfg)
	checkpoints := r.IntN(3) > 0
	var keys []string
	for i := range 20 + r.IntN(150) {
		key := fmt.Sprint("key-", r.IntN(15))
		if h.cfg.Sequential {
			if key = ""; len(keys) > 0 && r.IntN(4) > 0 {
				key = keys[r.IntN(len(keys))]
			}
		}
		value := strings.Repeat(fmt.Sprint(i, ","), 1+r.IntN(60))
		if r.IntN(5) == 0 && key != "" {
			if _, err := s.Delete([]byte(key), 1); err != nil {
				t.Fatal(err)
			}
			h.newest[key] = ""
			keys = slices.DeleteFunc(keys, func(k string) bool { return k == key })
		} else {
			id, _, err := s.Set([]byte(key), []byte(value), store.SetOptions{At: 1})
			if errors.Is(err, store.ErrNoSpace) {
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			if key == "" {
				keys = append(keys, string(id))
			}
			h.newest[string(id)] = value
		}
		if err := s.Flush(); err != nil {
			t.Fatal(err)
		}
		if checkpoints && r.IntN(10) == 0 {
			h.now = h.now.Add(70 * time.Second)
			if _, err := s.Work(h.now, 1<<20); err != nil {
				t.Fatal(err)
			}
		}
	}
	if h.clean = r.IntN(2) == 0; h.clean {
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	s.Discard()
	return h
}

// A bit that flips anywhere in the files, whatever came before, gives the newest value or an error: never an older one,
// nor one that was deleted, and nobody is told that there is none.
func TestFlippedBitNeverAnswersAnOlderValue(t *testing.T) {
	reads, failed, refused := 0, 0, 0
	for seed := range uint64(75) {
		r := rand.New(rand.NewPCG(seed, 13))
		h := tell(t, r)
		for range 40 {
			flips := 1 + r.IntN(3)*r.IntN(2)
			d := h.disk.crash()
			what := flip(d, r, flips)
			if h.clean && flips == 1 {
				d.boot++ // the machine started since
			}
			cfg := h.cfg.OnDisk(d)
			for range 2 { // it is opened twice
				s, err := store.Open(cfg)
				if err != nil {
					refused++
					break
				}
				for key, want := range h.newest {
					v, found, err := s.Get([]byte(key))
					reads++
					if err != nil {
						failed++
						continue
					}
					if found != (want != "") || string(v) != want {
						t.Fatalf("seed %d, %s: Get(%q) is %.20q, %t; want %.20q", seed, what, key, v, found, want)
					}
				}
				if r.IntN(2) == 0 {
					_ = s.Close()
				}
				s.Discard()
				if r.IntN(2) == 0 {
					d.boot++
				}
			}
		}
	}
	t.Logf("%d reads, %d of them errors; %d of 6000 openings refused", reads, failed, refused)
	if failed > reads/20 {
		t.Errorf("%d of %d reads are refused", failed, reads)
	}
}

func flip(d *memDisk, r *rand.Rand, n int) string {
	what := ""
	for range n {
		paths := slices.DeleteFunc(slices.Sorted(maps.Keys(d.files)), func(p string) bool { return len(d.files[p].content) == 0 })
		path := paths[r.IntN(len(paths))]
		f := d.files[path]
		at, bit := r.IntN(len(f.content)), r.IntN(8)
		f.content[at] ^= 1 << bit
		what += fmt.Sprintf("bit %d of byte %d of %d of %s; ", bit, at, len(f.content), path)
	}
	return what
}

// When a record is unreadable, entries older than it are refused, newer ones aren't, and those set again are good.
func TestLostRecordMakesOlderEntriesSuspect(t *testing.T) {
	for _, sequential := range []bool{false, true} {
		d := newMemDisk()
		cfg := store.Config{Dir: "/data", Layout: store.V2(), Sequential: sequential, Log: zerolog.New(io.Discard), Background: func(f func()) { f() }}.OnDisk(d)
		s := open(t, cfg)
		name := func(i int) string {
			if sequential {
				return string([]byte{byte(i), 0, 0, 0, 0, 0, 0, 0})
			}
			return fmt.Sprint("key-", i)
		}
		for i := range 3 {
			key := name(i)
			if sequential {
				key = ""
			}
			set(t, s, key, "first", 1)
		}
		set(t, s, name(1), "the lost one", 2)
		set(t, s, name(2), "second", 2)
		s.Discard()
		content := d.files["/data/log-0000000001"].content
		at := bytes.Index(content, []byte("the lost one"))
		copy(content[at-30:], "all of this was overwritten")
		for range 3 {
			s = open(t, cfg)
			for i, want := range []string{"", "", "second"} {
				v, found, err := s.Get([]byte(name(i)))
				if want == "" && !errors.Is(err, store.ErrDamaged) || want != "" && string(v) != want {
					t.Errorf("sequential %t: key %d is %q, %t, %v", sequential, i, v, found, err)
				}
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			d.boot++ // the machine starts again
		}
		s = open(t, cfg)
		set(t, s, name(1), "first", 3) // the same as the older one
		if v, _, err := s.Get([]byte(name(1))); err != nil || string(v) != "first" {
			t.Errorf("sequential %t: set again it is %q, %v", sequential, v, err)
		}
		n := 0
		for e, ok, err := s.First(); ok; e, ok, err = s.Next(e) {
			if n++; err != nil || string(e.Key) == name(0) {
				t.Errorf("walking finds %q, %v", e.Key, err)
			}
		}
		if n != 2 {
			t.Errorf("walking finds %d, want 2", n)
		}
		s.Discard()
	}
}
