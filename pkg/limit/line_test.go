package limit

import (
	"context"
	"errors"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// A user who asks for a hundred slots waits no less than one who asks for one.
func TestUsersTakeTurns(t *testing.T) {
	all := NewLine(Limit{Name: "test", Per: "user", Each: 2, Total: 3})
	var busy []*Ticket
	for range 100 {
		busy = append(busy, all.Ask("busy", true))
	}
	if !busy[1].Has() || busy[2].Has() {
		t.Error("a user has another number of slots than 2")
	}
	other := []*Ticket{all.Ask("other", true), all.Ask("other", true)}
	third := all.Ask("third", true)
	if !other[0].Has() || other[1].Has() || third.Has() {
		t.Error("not all three slots are out, or more")
	}
	order := ""
	waiting := map[string]*Ticket{"other": other[1], "third": third, "busy": busy[2]}
	for _, ends := range []*Ticket{busy[0], busy[1], other[0]} {
		ends.End()
		ends.End()
		for name, w := range waiting {
			if w.Has() {
				order += name + " "
				delete(waiting, name)
			}
		}
	}
	// busy was out of the ring while it had two, and came behind the others.
	if order != "other third busy " {
		t.Errorf("the order is %q", order)
	}
}

// TestSlotsGoRoundRobin expects a single request to wait for one slot of each other
// user, however many those ask for and however many users ask later.
func TestSlotsGoRoundRobin(t *testing.T) {
	q := NewLine(Limit{Name: "sample", Per: "user", Each: 1, Total: 1})
	give, err := q.Take(t.Context(), "busy", true)
	if err != nil {
		t.Fatal(err)
	}
	waiting := map[string][]*Ticket{}
	for _, user := range []string{"busy", "other", "busy", "other", "busy", "other", "honest", "new1", "new2"} {
		waiting[user] = append(waiting[user], q.Ask(user, true))
	}
	give()
	var order []string
	for len(waiting) > 0 {
		for user, tickets := range waiting {
			if !tickets[0].Has() {
				continue
			}
			order = append(order, user)
			if waiting[user] = tickets[1:]; len(tickets) == 1 {
				delete(waiting, user)
			}
			tickets[0].End()
		}
	}
	if i := slices.Index(order, "honest"); i > 2 || len(order) != 9 {
		t.Errorf("served in the order %v, want honest behind one of each user before", order)
	}
}

func TestAPlaceIsKeptForFirstTurns(t *testing.T) {
	q := NewLine(Limit{Name: "sample", Per: "user", Each: 1, Total: 2, Kept: 1})
	ended, end := context.WithCancel(t.Context())
	end()
	take := func(user string, first bool) func() {
		back, err := q.Take(ended, user, first)
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
	if q.Wanted("a", false) {
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

// A key that can have no slot, since all its own are in use, doesn't take another's.
func TestHolderOfAllSlotsIsNotWaiting(t *testing.T) {
	q := NewLine(Limit{Name: "sample", Per: "user", Each: 1, Total: 2})
	defer q.Ask("a", true).End()
	defer q.Ask("b", true).End()
	second := q.Ask("b", true)
	if q.Wanted("a", true) || !q.Wanted("b", true) || q.Wanted("b", false) {
		t.Error("b has its slot: another of it is no reason for a to make room, and is one for b itself")
	}
	second.End()
	if q.Wanted("b", true) {
		t.Error("who has gone still waits")
	}
}

// TestSlotsKeepTheirLimits checks random histories of taken and abandoned slots against
// recomputed counts.
func TestSlotsKeepTheirLimits(t *testing.T) {
	ended, end := context.WithCancel(context.Background())
	end()
	rapid.Check(t, func(t *rapid.T) {
		l := drawLimit(t)
		q := NewLine(l)
		type held struct {
			user  string
			first bool
			back  func()
		}
		var all []held
		t.Repeat(map[string]func(*rapid.T){
			"take": func(t *rapid.T) {
				h := held{user: drawUser(t), first: rapid.Bool().Draw(t, "first")}
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
				back, err := q.Take(ended, h.user, h.first)
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
				if q.total != int64(len(all)) || len(q.ring) > 0 || len(q.keys) > len(all) {
					t.Fatalf("%d are held, the line has %+v", len(all), q)
				}
			},
		})
	})
}

// TestTurnsAreWithinTheirLimit checks random histories of requests against the limit:
// all slots that may be in use are, and no more.
func TestTurnsAreWithinTheirLimit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := drawLimit(t)
		all := NewLine(l)
		var asked []*Ticket
		t.Repeat(map[string]func(*rapid.T){
			"ask": func(t *rapid.T) {
				asked = append(asked, all.Ask(drawUser(t), rapid.Bool().Draw(t, "known")))
			},
			"end": func(t *rapid.T) {
				if len(asked) > 0 {
					i := rapid.IntRange(0, len(asked)-1).Draw(t, "which")
					asked[i].End()
					asked = append(asked[:i:i], asked[i+1:]...)
				}
			},
			"": func(t *rapid.T) { checkLine(t, all, l, asked) },
		})
	})
}

func checkLine(t *rapid.T, all *Line, l Limit, asked []*Ticket) {
	out, strange, of := int64(0), int64(0), map[string]int64{}
	for _, a := range asked {
		if !a.Has() {
			continue
		}
		out++
		if !a.known {
			strange++
		}
		of[a.of.key]++
	}
	for _, a := range asked {
		if !a.Has() && of[a.of.key] < l.Each && out < l.Total && (a.known || strange < l.Total-l.Kept) {
			t.Fatalf("%d of %d are out, and %s waits", out, l.Total, a.of.key)
		}
	}
	if out > l.Total || strange > l.Total-l.Kept {
		t.Fatalf("%d of %d are out, %d to strangers", out, l.Total, strange)
	}
	for user, n := range of {
		if n > l.Each {
			t.Fatalf("%s has %d", user, n)
		}
	}
	if len(asked) == 0 && len(all.keys)+len(all.ring) > 0 {
		t.Fatal("it remembers users who have nothing")
	}
}

func drawUser(t *rapid.T) string {
	return rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "user")
}

func drawLimit(t *rapid.T) Limit {
	l := Limit{Name: "sample", Per: "user", Each: rapid.Int64Range(1, 3).Draw(t, "each"), Total: rapid.Int64Range(1, 5).Draw(t, "total")}
	l.Kept = rapid.Int64Range(0, l.Total-1).Draw(t, "kept")
	return l
}
