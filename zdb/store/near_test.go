package store_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/zdb/store"
)

// Of many entries most are deleted, and their slots go. From each of their
// positions the walk goes on as if they were there.
func TestNearDiscardedPosition(t *testing.T) {
	for _, sequential := range []bool{false, true} {
		now := time.Unix(1580000000, 0)
		cfg := store.Config{
			Dir: "/data", Layout: store.V2(), DataSize: 3000, SegmentSize: 4096, Sequential: sequential, Background: func(f func()) { f() }, Log: zerolog.Nop(),
		}.WithChunks(7).AtTime(func() time.Time { return now }).OnDisk(newMemDisk())
		s, err := store.Open(cfg)
		if err != nil {
			t.Fatal(err)
		}
		type place struct {
			id   string
			at   store.Position
			live bool
		}
		var places []place
		for n := range 200 {
			key := []byte(fmt.Sprintf("key %03d", n))
			if sequential {
				key = nil
			}
			id, _, err := s.Set(key, []byte("some value"), store.SetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			e, _, err := s.Lookup(id)
			if err != nil {
				t.Fatal(err)
			}
			places = append(places, place{id: string(e.Key), at: e.Position, live: n%10 == 5 || n >= 190})
		}
		for _, p := range places {
			if !p.live {
				if ok, err := s.Delete([]byte(p.id), 0); !ok || err != nil {
					t.Fatal(ok, err)
				}
			}
		}
		churn(t, s, places[199].id, &now)
		gone := 0
		for i, p := range places[:199] {
			e, kept, err := s.At(p.at)
			if err != nil {
				t.Fatal(err)
			}
			if !kept {
				gone++
				var near bool
				if e, near, err = s.Near(p.at); !near || err != nil {
					t.Fatalf("nothing near %v: %v", p.at, err)
				}
			}
			walks := func(way string, got store.Entry, found bool, err error, step int) {
				want := i + step
				for want >= 0 && want < 199 && !places[want].live {
					want += step
				}
				if err != nil || want >= 0 && want < 199 && (!found || string(got.Key) != places[want].id) || want < 0 && found {
					t.Errorf("sequential %v, %s of %d: %q, %v, %v, want place %d", sequential, way, i, got.Key, found, err, want)
				}
			}
			next, found, err := s.Next(e)
			walks("next", next, found, err, 1)
			if prev, found, err := s.Prev(e); i > 0 {
				walks("prev", prev, found, err, -1)
			}
		}
		if gone < 50 {
			t.Errorf("only %d of 200 positions are no longer kept: that shows little", gone)
		}
		for _, p := range []store.Position{{}, {Offset: 1}, {File: 1000, Offset: 29}, {File: s.Stats().File, Offset: s.Stats().IndexOffset}, {File: places[193].at.File, Offset: places[193].at.Offset + 1}} {
			if _, near, err := s.Near(p); near || err != nil {
				t.Errorf("sequential %v: there is something near %v: %v, %v", sequential, p, near, err)
			}
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// churn overwrites a value until space is needed, so that old versions are removed.
func churn(t *testing.T, s *store.Store, id string, now *time.Time) {
	t.Helper()
	for n := range 300 {
		if _, _, err := s.Set([]byte(id), []byte(strings.Repeat(fmt.Sprint(n, " "), 100)), store.SetOptions{}); err != nil {
			t.Fatal(err)
		}
		if err := s.Flush(); err != nil {
			t.Fatal(err)
		}
		*now = now.Add(time.Second)
		if _, err := s.Work(*now, 1<<20); err != nil {
			t.Fatal(err)
		}
	}
}
