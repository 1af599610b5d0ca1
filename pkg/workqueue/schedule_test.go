package workqueue_test

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/croft-edge/croft/pkg/backoff"
	"github.com/croft-edge/croft/pkg/workqueue"
)

func TestUsersAreTakenBeforeTheirParts(t *testing.T) {
	s := workqueue.NewSchedule[string](strings.Compare)
	for key, rank := range map[string]int{"net": 1, "vol": 2, "box": 3} {
		s.Set(key, rank, 5)
	}
	s.Set("old box", 3, 4)
	s.Set("tomorrow", 3, 7)
	if got := s.Take(3); len(got) != 0 {
		t.Errorf("%v are taken before their time", got)
	}
	if got := s.Take(6); !slices.Equal(got, []string{"old box", "box", "vol", "net"}) {
		t.Errorf("takes %v", got)
	}
	if at, ok := s.Next(); at != 7 || !ok || s.Len() != 1 {
		t.Errorf("next is %d, %t; holds %d", at, ok, s.Len())
	}
}

func TestAKeyCanBeMoved(t *testing.T) {
	s := workqueue.NewSchedule[string](strings.Compare)
	if _, ok := s.Next(); ok {
		t.Error("an empty one has a next time")
	}
	s.Set("late", 1, 3600)
	s.Set("moved", 1, 60)
	s.Set("gone", 1, 1)
	s.Remove("gone")
	s.Remove("never there")
	s.Set("moved", 1, math.MaxInt64)
	s.Set("sooner", 1, math.MinInt64)
	if got := s.Take(3600); !slices.Equal(got, []string{"sooner", "late"}) {
		t.Errorf("takes %v", got)
	}
	if got := s.Take(math.MaxInt64); !slices.Equal(got, []string{"moved"}) || s.Len() != 0 {
		t.Errorf("takes %v, holds %d", got, s.Len())
	}
}

func TestKeysWithoutAnOrderComeAsTheyWereSet(t *testing.T) {
	s := workqueue.NewSchedule[string](nil)
	want := []string{"z", "a", "m", "b"}
	for _, key := range append([]string{"b"}, want...) {
		s.Set(key, 0, 1)
	}
	var first []string
	for key, ok := s.First(1); ok; key, ok = s.First(1) {
		first = append(first, key)
	}
	for _, key := range want {
		s.Set(key, 0, 1)
	}
	if got := s.Take(1); !slices.Equal(got, want) || !slices.Equal(first, want) {
		t.Errorf("they come as %v, one by one as %v; they were set as %v", got, first, want)
	}
}

func TestFailuresAreCountedUntilTheyAreForgotten(t *testing.T) {
	s := workqueue.NewSchedule[string](nil)
	b := backoff.Backoff{Base: 100, Max: 800}
	for i, most := range []time.Duration{100, 200, 400, 800, 800} {
		wait := s.Retry("x", 1000, b)
		at, ok := s.At("x")
		if wait < most/2 || wait > most || !ok || at != 1000+int64(wait) || s.Failures("x") != i+1 {
			t.Errorf("failure %d waits %d of %d, due at %d, %t; counts %d", i+1, wait, most, at, ok, s.Failures("x"))
		}
	}
	s.Remove("x")
	if s.Failures("x") != 5 || s.Failing() != 1 {
		t.Error("a key that is not due any more lost its failures")
	}
	s.Set("x", 0, 1)
	s.Forget("x")
	if _, due := s.At("x"); !due || s.Failures("x") != 0 || s.Failing() != 0 {
		t.Error("a forgotten failure is remembered, or the key isn't due any more")
	}
	s.Fail("y")
	s.Set("z", 0, 1)
	s.Drop("x")
	s.DropUnless(func(key string) bool { return key == "z" })
	if s.Len() != 1 || s.Failing() != 0 {
		t.Errorf("%d keys and %d failures are left", s.Len(), s.Failing())
	}
}

// model is a schedule that searches all its keys each time.
type model struct {
	keys   map[string]modelKey
	failed map[string]int
}

type modelKey struct {
	key  string
	rank int
	at   int64
}

func (m model) next() (at int64, ok bool) {
	at = math.MaxInt64
	for _, k := range m.keys {
		at = min(at, k.at)
	}
	return at, len(m.keys) > 0
}

func (m model) take(now int64) []string {
	var due []modelKey
	for key, k := range m.keys {
		if k.at <= now {
			due = append(due, k)
			delete(m.keys, key)
		}
	}
	slices.SortFunc(due, func(a, b modelKey) int {
		return cmp.Or(b.rank-a.rank, cmp.Compare(a.at, b.at), cmp.Compare(a.key, b.key))
	})
	var keys []string
	for _, k := range due {
		keys = append(keys, k.key)
	}
	return keys
}

func TestAScheduleIsAsItsModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, m := workqueue.NewSchedule[string](strings.Compare), model{map[string]modelKey{}, map[string]int{}}
		key := rapid.StringMatching(`[a-j]`)
		at := rapid.Int64Range(-20, 100)
		t.Repeat(map[string]func(*rapid.T){
			"set": func(t *rapid.T) {
				k := modelKey{key.Draw(t, "key"), rapid.IntRange(1, 6).Draw(t, "rank"), at.Draw(t, "at")}
				s.Set(k.key, k.rank, k.at)
				m.keys[k.key] = k
			},
			"remove": func(t *rapid.T) {
				gone := key.Draw(t, "key")
				s.Remove(gone)
				delete(m.keys, gone)
			},
			"fail": func(t *rapid.T) {
				k, now := key.Draw(t, "key"), at.Draw(t, "now")
				m.failed[k]++
				wait := s.Retry(k, now, backoff.Backoff{Base: 1, Max: 1})
				m.keys[k] = modelKey{key: k, at: now + int64(wait)}
			},
			"forget": func(t *rapid.T) {
				k := key.Draw(t, "key")
				s.Forget(k)
				delete(m.failed, k)
			},
			"drop": func(t *rapid.T) {
				k := key.Draw(t, "first kept")
				s.DropUnless(func(key string) bool { return key >= k })
				for key := range m.keys {
					if key < k {
						delete(m.keys, key)
					}
				}
				for key := range m.failed {
					if key < k {
						delete(m.failed, key)
					}
				}
			},
			"take": func(t *rapid.T) {
				now := at.Draw(t, "now")
				if got, want := s.Take(now), m.take(now); !slices.Equal(got, want) {
					t.Fatalf("takes %v, want %v", got, want)
				}
			},
			"": func(t *rapid.T) {
				got, ok := s.Next()
				want, wanted := m.next()
				if ok != wanted || ok && got != want || s.Len() != len(m.keys) || s.Failing() != len(m.failed) {
					t.Fatalf("next is %d, %t, want %d, %t; holds %d, want %d; failing %d, want %d", got, ok, want, wanted, s.Len(), len(m.keys), s.Failing(), len(m.failed))
				}
				for k, n := range m.failed {
					if s.Failures(k) != n {
						t.Fatalf("%s has failed %d times, want %d", k, s.Failures(k), n)
					}
				}
			},
		})
	})
}
