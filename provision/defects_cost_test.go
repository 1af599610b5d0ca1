package provision_test

import (
	"context"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/admit"
	"github.com/croft-edge/croft/provision/provisioner"
	"github.com/croft-edge/croft/provision/store"
)

// countedRecords counts how often all records are listed.
type countedRecords struct {
	*steppedRecords
	lists atomic.Int64
}

func (c *countedRecords) List() ([]store.Record, error) {
	c.lists.Add(1)
	return c.steppedRecords.List()
}

func (c *countedRecords) OfType(t workload.Type) ([]store.Record, error) {
	c.lists.Add(1)
	return c.steppedRecords.OfType(t)
}

// Each arrival, expiry and counter listed all records: an arrival cost 0.5 ms at
// 100 records and 18 ms at 10,000.
func TestNothingThatComesListsAllRecords(t *testing.T) {
	var records *countedRecords
	nets := newNamedNetworks()
	inWorld(t, func(w *world) {
		w.limits.Drift, w.limits.Look = 1000*time.Hour, time.Minute
		w.admission = roomFor(t, provisioner.Demand{Tunnels: uint64(admit.TunnelMemory.Total), CPU: 100, SSD: 30 * workload.GiB}, admit.Defaults())
		w.provisioners = map[workload.Type]provisioner.Provisioner{workload.TypeNetwork: nets}
		w.wrap = func(r *steppedRecords) store.Records {
			records = &countedRecords{steppedRecords: r}
			return records
		}
	}, func(t *testing.T, w *world, n *incarnation) {
		w.answered(w.volume(yearLong), workload.StateOK)
		time.Sleep(time.Minute)
		records.lists.Store(0)

		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		counters := n.engine.Counters(ctx)
		var kept, short []string
		for range 10 {
			kept = append(kept, w.volume(yearLong))
			short = append(short, w.volume(func(r *workload.Reservation) { r.Duration = time.Hour }))
		}
		refused := w.explorer.push(w.reserve(workload.TypeVolume, `{"size":0,"type":"SSD"}`, nil))
		first := w.explorer.push(w.netOf("net", monthLong))
		w.handledFor(append(append([]string{refused, first}, kept...), short...))
		time.Sleep(time.Minute)
		second := w.explorer.push(w.netOf("net", monthLong))
		w.answered(second, workload.StateOK)
		w.explorer.pushAs("5000-1", w.explorer.document(kept[0])) // a replay
		w.remove(kept[1])
		w.answered(kept[1], workload.StateDeleted)
		w.renew(kept[2], w.clock.wall().Add(310*day))
		w.remove(second)
		w.answered(first, workload.StateDeleted)
		if err := n.engine.Evict(context.Background(), kept[3]); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		for _, id := range short {
			w.answered(id, workload.StateExpired)
		}
		for range 10 {
			<-counters
		}
		if lists := records.lists.Load(); lists != 0 {
			t.Errorf("all records were listed %d times", lists)
		}
	})
}

// Counting 10,000 networks read 10,000 documents.
func TestACountOfManyNetworksReadsNone(t *testing.T) {
	w := newWorld(t)
	defer func() { _ = w.records.Close() }()
	const networks = 1000
	var batch []store.Record
	for i := range networks {
		r := w.netOf("net"+string(rune('a'+i%26))+time.Duration(i).String(), monthLong)
		r.ID = workload.ID{N: uint64(i + 1), M: 1}.String()
		hash, err := r.Hash()
		if err != nil {
			t.Fatal(err)
		}
		key, _ := store.KeyOf(r)
		batch = append(batch, store.Record{Reservation: r, Hash: hash, Name: key, Phase: store.Deployed, Admitted: true, Begun: true})
	}
	if _, err := w.records.Write(batch...); err != nil {
		t.Fatal(err)
	}
	if got := w.records.Counters().Network; got != networks {
		t.Fatalf("%d networks", got)
	}
	if made := testing.AllocsPerRun(100, func() { w.records.Counters() }); made > 10 {
		t.Errorf("a count of %d networks makes %.0f objects", networks, made)
	}
}

// An arrival's allocations tell how much it walks through: they are the same on a node that
// remembers 100 reservations and on one that remembers 1,500.
func TestAnArrivalCostsTheSameOnAFullNode(t *testing.T) {
	cost := func(remembered int) (made float64) {
		const arrivals = 100
		inWorld(t, func(w *world) {
			w.limits.Drift = 1000 * time.Hour
			w.admission = roomFor(t, provisioner.Demand{Tunnels: uint64(admit.TunnelMemory.Total), CPU: 1 << 20, SSD: 1000 * workload.GiB}, admit.Policy{})
			if _, err := w.records.Write(w.manyDeployed(remembered)...); err != nil {
				t.Fatal(err)
			}
			w.explorer.number = uint64(remembered)
		}, func(t *testing.T, w *world, _ *incarnation) {
			w.answered(w.volume(nil), workload.StateOK)
			var documents []*workload.Reservation
			for range arrivals {
				documents = append(documents, w.reserve(workload.TypeVolume, `{"size":1,"type":"SSD"}`, nil))
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			for _, r := range documents {
				id := w.explorer.push(r)
				synctest.Wait()
				if w.explorer.result(id) == nil {
					w.answered(id, workload.StateOK)
				}
			}
			runtime.ReadMemStats(&after)
			made = float64(after.Mallocs-before.Mallocs) / arrivals
		})
		return made
	}
	few, many := cost(100), cost(1500)
	t.Logf("%.0f objects an arrival at 100 records, %.0f at 1,500", few, many)
	if many > few*1.2 {
		t.Errorf("%.0f objects an arrival at 100 records, %.0f at 1,500", few, many)
	}
}

// manyDeployed makes records of deployed containers, for a node that asks no module about them.
func (w *world) manyDeployed(n int) []store.Record {
	w.t.Helper()
	var out []store.Record
	for i := range n {
		r := w.reserve(workload.TypeContainer, aContainer, monthLong)
		r.ID = workload.ID{N: uint64(i + 1), M: 1}.String()
		hash, err := r.Hash()
		if err != nil {
			w.t.Fatal(err)
		}
		out = append(out, store.Record{Reservation: r, Hash: hash, Phase: store.Deployed, Admitted: true, Begun: true, Deployed: r.Created})
	}
	return out
}
