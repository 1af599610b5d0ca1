package zdb_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
)

// TestManyRounds leaves no descriptor open, here or in the zdb.
func TestManyRounds(t *testing.T) {
	w := newWorld(t)
	spec := w.start(one, workload.ZDBUser)
	w.attachSpec(spec)
	must(t, w.stub.Detach(t.Context(), one))
	before := descriptors(t)
	for i := range 200 {
		at := w.attachSpec(spec)
		if at.Port != w.cfg.FirstPort || at.Drift != "" {
			t.Fatalf("round %d: %+v", i, at)
		}
		must(t, ping(at.Port))
		if i%2 == 0 { // every other time it is just there
			w.attachSpec(spec)
		}
		must(t, w.stub.Detach(t.Context(), one))
		if err := ping(at.Port); err == nil {
			t.Fatalf("round %d: it still answers", i)
		}
	}
	eventually(t, func() bool { return descriptors(t) <= before }, func() any { return descriptors(t) })
	w.attachSpec(spec)
	if got := w.listeners(one); len(got) != 1 {
		t.Errorf("the zdb has %d listeners", len(got))
	}
}

// TestAllAtOnce has many callers and restarts, and a whole node in the end.
func TestAllAtOnce(t *testing.T) {
	w := newWorld(t)
	containers := []string{"zdb-a", "zdb-b", "zdb-c"}
	specs := map[string]node.ZDBServerSpec{}
	for _, id := range containers {
		specs[id] = w.start(id, workload.ZDBUser)
		w.attachSpec(specs[id])
	}
	before := descriptors(t)
	var calling sync.WaitGroup
	for i := range 12 {
		calling.Go(func() {
			random := rand.New(rand.NewPCG(1, uint64(i)))
			for range 25 {
				id := containers[random.IntN(len(containers))]
				name := fmt.Sprintf("%d-1", random.IntN(4))
				var err error
				switch random.IntN(8) {
				case 0:
					_, err = w.stub.Servers(t.Context())
				case 1:
					_, err = w.stub.List(t.Context(), "")
				case 2, 3:
					_, err = w.stub.Create(t.Context(), node.ZDBNamespaceSpec{Container: id, Name: name, Size: 1 + random.Uint64N(100), Public: random.IntN(2) == 0})
				case 4:
					err = w.stub.Delete(t.Context(), id, name)
				case 5:
					_, err = w.stub.Inspect(t.Context(), id, name)
				case 6:
					_, err = w.stub.Attach(t.Context(), specs[id])
				case 7:
					if random.IntN(3) == 0 {
						err = w.stub.Detach(t.Context(), id)
					}
				}
				switch node.KindOf(err) {
				case "", node.NotExist, node.Transient, node.NoSpace, node.Busy:
				default:
					t.Errorf("%v (%s)", err, node.KindOf(err))
				}
			}
		})
	}
	calling.Go(func() { // one that crashes again and again
		for range 5 {
			w.kill("zdb-c")
			w.start("zdb-c", workload.ZDBUser)
			<-time.After(100 * time.Millisecond)
		}
	})
	calling.Wait()
	ports := map[uint16]bool{}
	for _, id := range containers {
		at := w.attachSpec(specs[id])
		if ports[at.Port] || at.Drift != "" {
			t.Errorf("it is %+v", at)
		}
		ports[at.Port] = true
		must(t, ping(at.Port))
	}
	eventually(t, func() bool { return descriptors(t) <= before }, func() any { return fmt.Sprint(descriptors(t), " were ", before) })
}
