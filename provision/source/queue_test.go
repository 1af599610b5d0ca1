package source_test

import (
	"cmp"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/source"
)

func TestDueTakesUsersBeforeTheirParts(t *testing.T) {
	d := source.NewDue()
	for id, of := range map[string]workload.Type{"net": workload.TypeNetwork, "vol": workload.TypeVolume, "box": workload.TypeContainer} {
		d.Set(id, source.Rank(of), 5)
	}
	d.Set("old box", source.Rank(workload.TypeContainer), 4)
	d.Set("tomorrow", source.Rank(workload.TypeContainer), 7)
	if got := d.Take(3); len(got) != 0 {
		t.Errorf("%v are taken before their time", got)
	}
	if got := d.Take(6); !slices.Equal(got, []string{"old box", "box", "vol", "net"}) {
		t.Errorf("takes %v", got)
	}
	if at, ok := d.Next(); at != 7 || !ok || d.Len() != 1 {
		t.Errorf("next is %d, %t; holds %d", at, ok, d.Len())
	}
}

func TestDueCanBeMoved(t *testing.T) {
	d := source.NewDue()
	if _, ok := d.Next(); ok {
		t.Error("an empty one has a next time")
	}
	d.Set("late", 1, 3600)
	d.Set("moved", 1, 60)
	d.Set("gone", 1, 1)
	d.Remove("gone")
	d.Remove("never there")
	d.Set("moved", 1, math.MaxInt64)
	d.Set("sooner", 1, math.MinInt64)
	if got := d.Take(3600); !slices.Equal(got, []string{"sooner", "late"}) {
		t.Errorf("takes %v", got)
	}
	if got := d.Take(math.MaxInt64); !slices.Equal(got, []string{"moved"}) || d.Len() != 0 {
		t.Errorf("takes %v, holds %d", got, d.Len())
	}
}

// model is a Due that searches all its entries each time.
type model map[string]modelDue

type modelDue struct {
	id   string
	rank int
	at   int64
}

func (m model) next() (at int64, ok bool) {
	at = math.MaxInt64
	for _, e := range m {
		at = min(at, e.at)
	}
	return at, len(m) > 0
}

func (m model) take(now int64) []string {
	var due []modelDue
	for id, e := range m {
		if e.at <= now {
			due = append(due, e)
			delete(m, id)
		}
	}
	slices.SortFunc(due, func(a, b modelDue) int {
		return cmp.Or(b.rank-a.rank, cmp.Compare(a.at, b.at), cmp.Compare(a.id, b.id))
	})
	var ids []string
	for _, e := range due {
		ids = append(ids, e.id)
	}
	return ids
}

func TestDueIsAsItsModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d, m := source.NewDue(), model{}
		id := rapid.StringMatching(`[a-j]`)
		at := rapid.Int64Range(-20, 100)
		t.Repeat(map[string]func(*rapid.T){
			"set": func(t *rapid.T) {
				e := modelDue{id.Draw(t, "id"), rapid.IntRange(1, 6).Draw(t, "rank"), at.Draw(t, "at")}
				d.Set(e.id, e.rank, e.at)
				m[e.id] = e
			},
			"remove": func(t *rapid.T) {
				gone := id.Draw(t, "id")
				d.Remove(gone)
				delete(m, gone)
			},
			"take": func(t *rapid.T) {
				now := at.Draw(t, "now")
				if got, want := d.Take(now), m.take(now); !slices.Equal(got, want) {
					t.Fatalf("takes %v, want %v", got, want)
				}
			},
			"": func(t *rapid.T) {
				got, ok := d.Next()
				want, wanted := m.next()
				if ok != wanted || ok && got != want || d.Len() != len(m) {
					t.Fatalf("next is %d, %t, want %d, %t; holds %d, want %d", got, ok, want, wanted, d.Len(), len(m))
				}
			},
		})
	})
}
