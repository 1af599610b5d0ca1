package limit_test

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/croft-edge/croft/pkg/limit"
)

// TestTurnsAreFair: whatever the others add, of two waiting keys neither is taken
// twice while the other isn't, but for its own limit; the limits hold, and every
// item that may be taken is.
func TestTurnsAreFair(t *testing.T) {
	type item struct {
		key string
		n   int
	}
	rapid.Check(t, func(t *rapid.T) {
		l := limit.Limit{Name: "turns", Per: "user", Each: rapid.Int64Range(0, 3).Draw(t, "each"), Total: rapid.Int64Range(0, 5).Draw(t, "total")}
		q := limit.NewTurns[item](l)
		waiting, held := map[string][]int{}, map[string]int64{}
		// passed counts how often others were taken while a key could have been.
		passed := map[string]map[string]int{}
		var hands []func()
		total := func() (n int64) {
			for _, h := range held {
				n += h
			}
			return n
		}
		may := func(key string) bool { return len(waiting[key]) > 0 && (l.Each == 0 || held[key] < l.Each) }
		next := func() bool {
			got, done, ok := q.Next()
			room := l.Total == 0 || total() < l.Total
			any := false
			for key := range waiting {
				any = any || may(key)
			}
			if ok != (room && any) {
				t.Fatalf("taken %t, room %t, some wait %t", ok, room, any)
			}
			if !ok {
				return false
			}
			if !may(got.key) || waiting[got.key][0] != got.n {
				t.Fatalf("%v was taken, of %v", got, waiting)
			}
			for key := range waiting {
				if key == got.key || !may(key) {
					delete(passed, key)
					continue
				}
				if passed[key] == nil {
					passed[key] = map[string]int{}
				}
				if passed[key][got.key]++; passed[key][got.key] > 1 {
					t.Fatalf("%s was taken twice while %s could have been", got.key, key)
				}
			}
			waiting[got.key] = waiting[got.key][1:]
			held[got.key]++
			hands = append(hands, func() { done(); done(); held[got.key]-- })
			return true
		}
		n := 0
		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				key := rapid.SampledFrom([]string{"greedy", "modest", "third"}).Draw(t, "key")
				for range rapid.IntRange(1, 5).Draw(t, "many") {
					n++
					q.Add(key, item{key, n})
					waiting[key] = append(waiting[key], n)
				}
			},
			"next": func(*rapid.T) { next() },
			"done": func(t *rapid.T) {
				if len(hands) > 0 {
					i := rapid.IntRange(0, len(hands)-1).Draw(t, "which")
					hands[i]()
					hands = slices.Delete(hands, i, i+1)
				}
			},
			"": func(t *rapid.T) {
				if want := len(waiting["greedy"]) + len(waiting["modest"]) + len(waiting["third"]); q.Len() != want {
					t.Fatalf("%d wait, want %d", q.Len(), want)
				}
			},
		})
	})
}

func TestOneItemBesideTenThousand(t *testing.T) {
	q := limit.NewTurns[string](limit.Limit{Name: "turns", Per: "user", Each: 2, Total: 2})
	for i := range 10000 {
		q.Add("hostile", fmt.Sprint(i))
	}
	q.Add("honest", "the one")
	for i := range 3 {
		item, done, ok := q.Next()
		if item == "the one" {
			return
		}
		if i == 2 || !ok {
			t.Fatalf("%q is taken as number %d", item, i)
		}
		done()
	}
}
