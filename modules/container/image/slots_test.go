package image

import (
	"context"
	"errors"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/croft-edge/croft/pkg/limit"
)

// TestSlotsGoRoundRobin wants one who asks once to wait for one slot of each other
// user, however many those ask for and however many users ask later.
func TestSlotsGoRoundRobin(t *testing.T) {
	q := newQueue(limit.Limit{Name: "sample", Per: "user", Each: 1, Total: 1})
	give, err := q.take(t.Context(), "busy", true)
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan string)
	ask := func(user string) {
		before := q.waits()
		go func() {
			back, err := q.take(context.Background(), user, true)
			if err == nil {
				served <- user
				back()
			}
		}()
		for q.waits() == before {
		}
	}
	for range 3 {
		ask("busy")
		ask("other")
	}
	ask("honest")
	for _, user := range []string{"new1", "new2"} {
		ask(user)
	}
	give()
	var order []string
	for range 9 {
		order = append(order, <-served)
	}
	if i := slices.Index(order, "honest"); i > 2 {
		t.Errorf("served in the order %v, want honest behind one of each user before", order)
	}
}

// waits is how many wait.
func (q *queue) waits() (n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, w := range q.waiting {
		n += len(w)
	}
	return n
}

func TestAPlaceIsKeptForFirstTurns(t *testing.T) {
	q := newQueue(limit.Limit{Name: "sample", Per: "user", Each: 1, Total: 2, Kept: 1})
	ended, end := context.WithCancel(t.Context())
	end()
	take := func(user string, first bool) func() {
		back, err := q.take(ended, user, first)
		if err != nil {
			return nil
		}
		return back
	}
	if take("a", false) == nil {
		t.Error("a late one gets none of two places")
	}
	if take("b", false) != nil {
		t.Error("a second late one gets the place that is kept")
	}
	if q.wanted("a", false) {
		t.Error("one that has gone still waits")
	}
	back := take("c", true)
	if back == nil {
		t.Fatal("a first one doesn't get the place that is kept")
	}
	if take("d", true) != nil {
		t.Error("there are more places than two")
	}
	back()
	back()
	if take("d", true) == nil {
		t.Error("what was given back isn't there")
	}
}

// TestSlotsKeepTheirLimits holds random histories against counts made anew.
func TestSlotsKeepTheirLimits(t *testing.T) {
	ended, end := context.WithCancel(context.Background())
	end()
	rapid.Check(t, func(t *rapid.T) {
		l := limit.Limit{Name: "sample", Per: "user", Each: rapid.Int64Range(1, 3).Draw(t, "each"), Total: rapid.Int64Range(1, 5).Draw(t, "total")}
		l.Kept = rapid.Int64Range(0, l.Total-1).Draw(t, "kept")
		q := newQueue(l)
		type held struct {
			user  string
			first bool
			back  func()
		}
		var all []held
		t.Repeat(map[string]func(*rapid.T){
			"take": func(t *rapid.T) {
				h := held{user: rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "user"), first: rapid.Bool().Draw(t, "first")}
				var own, late int64
				for _, o := range all {
					if o.user == h.user {
						own++
					}
					if !o.first {
						late++
					}
				}
				fits := own < l.Each && int64(len(all)) < l.Total && (h.first || late < l.Total-l.Kept)
				back, err := q.take(ended, h.user, h.first)
				if (err == nil) != fits || err != nil && !errors.Is(err, context.Canceled) {
					t.Fatalf("taking answers %v, fits is %t", err, fits)
				}
				if h.back = back; err == nil {
					all = append(all, h)
				}
			},
			"give": func(*rapid.T) {
				if len(all) > 0 {
					all[0].back()
					all = all[1:]
				}
			},
			"": func(t *rapid.T) {
				if q.total != int64(len(all)) || len(q.users) > 0 || len(q.waiting) > 0 || len(q.held) > len(all) {
					t.Fatalf("%d are held, the queue has %+v", len(all), q)
				}
			},
		})
	})
}
