package inflight_test

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/inflight"
)

func conflict(a, b *inflight.Task) bool {
	if a.ID == b.ID {
		return true
	}
	for _, x := range a.Keys {
		for _, y := range b.Keys {
			if x.Name == y.Name && !(x.Shared && y.Shared) {
				return true
			}
		}
	}
	return false
}

// Conflicting effects run in the order that one thread would give them, and
// nothing that could go waits: compared with a list that is searched.
func TestOrderIsThatOfOneThread(t *testing.T) {
	types := []workload.Type{workload.TypeContainer, workload.TypeVolume}
	slots := map[workload.Type]int{workload.TypeContainer: 3, workload.TypeVolume: 1}
	rapid.Check(t, func(t *rapid.T) {
		q := inflight.New(func(kind workload.Type) int { return slots[kind] })
		var all []*inflight.Task // those that haven't ended, in the order of Add
		running := map[*inflight.Task]bool{}
		count := func(kind workload.Type) (n int) {
			for r := range running {
				if r.Type == kind {
					n++
				}
			}
			return n
		}
		clear := func(at int) bool {
			return !slices.ContainsFunc(all[:at], func(o *inflight.Task) bool { return conflict(o, all[at]) })
		}
		start := func() {
			for task := q.Next(); task != nil; task = q.Next() {
				at := slices.Index(all, task)
				if at < 0 || running[task] || !clear(at) {
					t.Fatalf("task %+v started before one that it conflicts with, or twice", task)
				}
				running[task] = true
				if n := count(task.Type); n > slots[task.Type] {
					t.Fatalf("%d of type %s run, want at most %d", n, task.Type, slots[task.Type])
				}
			}
			for at, task := range all {
				if !running[task] && clear(at) && count(task.Type) < slots[task.Type] {
					t.Fatalf("task %+v could start and doesn't", task)
				}
			}
		}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			if len(all) == 0 || rapid.Bool().Draw(t, "add") {
				task := &inflight.Task{
					ID:   fmt.Sprintf("%d-1", rapid.IntRange(1, 6).Draw(t, "id")),
					Type: rapid.SampledFrom(types).Draw(t, "type"),
					User: rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "user"),
				}
				for _, name := range []string{"net", "vol"} {
					if rapid.Bool().Draw(t, name) {
						task.Keys = append(task.Keys, inflight.Key{Name: name, Shared: rapid.Bool().Draw(t, "shared")})
					}
				}
				q.Add(task)
				all = append(all, task)
			} else {
				at := rapid.IntRange(0, len(all)-1).Draw(t, "end")
				if !q.End(all[at].Token()) {
					t.Fatal("a task that is there can't end")
				}
				delete(running, all[at])
				all = slices.Delete(all, at, at+1)
			}
			start()
		}
		if q.Len() != len(all) {
			t.Fatalf("%d tasks are left, want %d", q.Len(), len(all))
		}
	})
}

func TestUsersTakeTurns(t *testing.T) {
	q := inflight.New(func(workload.Type) int { return 1 })
	for i := range 100 {
		q.Add(&inflight.Task{ID: fmt.Sprintf("%d-1", i), Type: workload.TypeContainer, User: "greedy"})
	}
	q.Add(&inflight.Task{ID: "200-1", Type: workload.TypeContainer, User: "modest"})
	for i := range 3 {
		task := q.Next()
		if task.User == "modest" {
			return
		}
		if i == 2 {
			t.Fatal("one user's hundred go before another's first")
		}
		q.End(task.Token())
	}
}

func TestStalledTypeIsReported(t *testing.T) {
	q := inflight.New(func(workload.Type) int { return 1 })
	hung := q.Add(&inflight.Task{ID: "1-1", Type: workload.TypeVolume})
	q.Add(&inflight.Task{ID: "2-1", Type: workload.TypeContainer})
	if q.Next(); q.Stalled(workload.TypeVolume) {
		t.Fatal("stalled before it is left behind")
	}
	q.Leave(hung)
	if !q.Stalled(workload.TypeVolume) || q.Stalled(workload.TypeContainer) {
		t.Fatal("a hung task stalls its own type, and no other")
	}
	if next := q.Next(); next == nil || next.ID != "2-1" {
		t.Fatalf("next is %+v, want the other type's", next)
	}
	if q.End(hung); q.Stalled(workload.TypeVolume) {
		t.Fatal("stalled after it came back")
	}
}
