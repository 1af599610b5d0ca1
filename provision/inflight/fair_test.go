package inflight_test

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/inflight"
)

// TestOneTaskBesideTenThousand: however many tasks hostile users have queued, of whatever
// types, order and conflicts, the one task of an honest user begins at the first free
// slot of its type after each of them has had a turn. Fetches and provisions are tasks
// alike.
func TestOneTaskBesideTenThousand(t *testing.T) {
	types := []workload.Type{workload.TypeContainer, workload.TypeVolume, workload.TypeNetwork}
	rapid.Check(t, func(t *rapid.T) {
		slots := rapid.IntRange(1, 4).Draw(t, "slots")
		hostile := rapid.IntRange(1, 3).Draw(t, "hostile users")
		q := inflight.New(func(workload.Type) int { return slots })
		for i := range rapid.SampledFrom([]int{10, 100, 10000}).Draw(t, "tasks") {
			user := fmt.Sprint("hostile", i%hostile)
			task := &inflight.Task{ID: fmt.Sprintf("%d-1", i), Type: types[i/hostile%len(types)], User: user}
			if i%5 == 0 {
				task.Keys = []inflight.Key{{Name: "volume " + user, Shared: i%10 == 0}}
			}
			q.Add(task)
		}
		var running []*inflight.Task
		start := func() (honest bool) {
			for task := q.Next(); task != nil; task = q.Next() {
				honest = honest || task.User == "honest"
				running = append(running, task)
			}
			return honest
		}
		start()
		kind := rapid.SampledFrom(types).Draw(t, "type")
		q.Add(&inflight.Task{ID: "honest", Type: kind, User: "honest", Keys: []inflight.Key{{Name: "volume honest"}}})
		for ended := 0; !start(); {
			if len(running) == 0 || ended > hostile {
				t.Fatalf("%d of %s have ended, and the honest user's one hasn't begun", ended, kind)
			}
			i := rapid.IntRange(0, len(running)-1).Draw(t, "ends")
			if running[i].Type == kind {
				ended++
			}
			q.End(running[i].Token())
			running = append(running[:i:i], running[i+1:]...)
		}
	})
}
