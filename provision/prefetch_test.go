package provision_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision"
	"github.com/croft-edge/croft/provision/provisioner"
	"github.com/croft-edge/croft/provision/store"
)

// fetching is a provisioner whose workloads need a slow fetch.
type fetching struct {
	fakeProvisioner
	mu    sync.Mutex
	ready map[string]bool
	err   map[string]error
	asked map[string]int
}

func newFetching() *fetching {
	return &fetching{ready: map[string]bool{}, err: map[string]error{}, asked: map[string]int{}}
}

func (f *fetching) Prepare(_ context.Context, r *workload.Reservation) (provisioner.Progress, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked[r.ID]++
	return provisioner.Progress{Ready: f.ready[r.ID], What: "its image: 12 of 80 MiB"}, f.err[r.ID]
}

func (f *fetching) arrived(id string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ready[id] = true
}

func (f *fetching) fails(id string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err[id] = err
}

func (f *fetching) times(id string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.asked[id]
}

// lose removes a workload from the node.
func (f *fetching) lose(id string) {
	f.fakeProvisioner.mu.Lock()
	defer f.fakeProvisioner.mu.Unlock()
	delete(f.have, id)
}

func pendingOf(all []provision.WorkloadStatus, id string) string {
	for _, w := range all {
		if w.ID == id {
			return w.Pending
		}
	}
	return ""
}

// withFetching runs a node that offers containers with slow image fetches, beside volumes.
func withFetching(t *testing.T, body func(t *testing.T, w *world, f *fetching, n *incarnation)) {
	f := newFetching()
	prepare := func(w *world) {
		w.provisioners = map[workload.Type]provisioner.Provisioner{workload.TypeContainer: f}
		w.limits.Drift = 10 * time.Second
	}
	inWorld(t, prepare, func(t *testing.T, w *world, n *incarnation) { body(t, w, f, n) })
}

const aContainer = `{"flist":"docker://example.com/a","network":{"network_id":"net","ips":["10.1.1.2"]},"capacity":{"cpu":1,"memory":64}}`

func (w *world) container() string {
	return w.explorer.push(w.reserve(workload.TypeContainer, aContainer, nil))
}

func TestPrefetchBesideOtherReservations(t *testing.T) {
	withFetching(t, func(t *testing.T, w *world, f *fetching, n *incarnation) {
		slow := w.container()
		w.until("it is asked for", func() bool { return f.times(slow) > 0 })
		w.answered(w.volume(nil), workload.StateOK)
		quick := w.container()
		f.arrived(quick)
		w.answered(quick, workload.StateOK)
		if all, err := n.engine.Status(); err != nil || pendingOf(all, slow) != "its image: 12 of 80 MiB" {
			t.Fatalf("status says %+v, %v", all, err)
		}
		if calls := f.calls(); len(calls) != 1 || calls[0] != "provision "+quick {
			t.Fatalf("provisioned %v before it was there", calls)
		}
		f.arrived(slow)
		w.answered(slow, workload.StateOK)
	})
}

func TestAFetchThatFailsIsAnswered(t *testing.T) {
	withFetching(t, func(t *testing.T, w *world, f *fetching, _ *incarnation) {
		id := w.container()
		w.until("it is asked for", func() bool { return f.times(id) > 0 })
		f.fails(id, node.Errorf(node.Transient, "cannot reach the registry"))
		w.until("it is tried again", func() bool { rec, err := w.records.Record(id); return err == nil && rec.Attempts > 1 })
		f.fails(id, node.Errorf(node.Refused, "cannot use the image: it has another digest"))
		if got := w.answered(id, workload.StateError); !strings.Contains(got.Error, "digest") && w.phase(id) != store.Failed {
			w.until("it has failed", func() bool { return w.phase(id) == store.Failed })
		}
		if calls := f.calls(); !slices.Equal(calls, []string{"decommission " + id}) {
			t.Fatalf("called %v: what it may have fetched is given back, and it is never provisioned", calls)
		}
	})
}

// Anything fetched for a reservation that never began is given back.
func TestDeletionDuringFetch(t *testing.T) {
	withFetching(t, func(t *testing.T, w *world, f *fetching, _ *incarnation) {
		id := w.container()
		w.until("it is asked for", func() bool { return f.times(id) > 0 })
		w.remove(id)
		w.answered(id, workload.StateDeleted)
		if calls := f.calls(); len(calls) != 1 || calls[0] != "decommission "+id {
			t.Fatalf("called %v", calls)
		}
		asked := f.times(id)
		time.Sleep(time.Hour)
		if f.times(id) != asked {
			t.Fatal("it is still asked for")
		}
	})
}

func TestAFetchGoesOnAfterARestart(t *testing.T) {
	withFetching(t, func(t *testing.T, w *world, f *fetching, n *incarnation) {
		id := w.container()
		w.until("it is asked for", func() bool { return f.times(id) > 0 })
		w.restart(n)
		before := f.times(id)
		w.until("it is asked for again", func() bool { return f.times(id) > before })
		f.arrived(id)
		w.answered(id, workload.StateOK)
	})
}

// A deployed workload that is gone, and whose image is gone too, keeps its result while the
// image is fetched again.
func TestDeployedContainerWaitsForItsImage(t *testing.T) {
	withFetching(t, func(t *testing.T, w *world, f *fetching, _ *incarnation) {
		id := w.container()
		f.arrived(id)
		w.answered(id, workload.StateOK)
		f.mu.Lock()
		f.ready[id] = false
		f.mu.Unlock()
		asked := f.times(id)
		f.lose(id)
		w.until("it is asked for", func() bool { return f.times(id) > asked+2 })
		if rec, err := w.records.Record(id); err != nil || rec.Deployed.IsZero() || rec.Result.State != workload.StateOK {
			t.Fatalf("record is %+v, %v", rec, err)
		}
		f.arrived(id)
		w.until("it is back", func() bool { return w.phase(id) == store.Deployed })
	})
}

// TestAModuleThatStartsWithTheNode: a fetch whose module doesn't answer yet isn't a failed attempt, boot after boot, and no user is told of it. One
// whose module still doesn't answer long after the node's start has failed.
func TestAModuleThatStartsWithTheNode(t *testing.T) {
	var silent atomic.Bool
	withSilent := func(t *testing.T, body func(t *testing.T, w *world, n *incarnation, id string)) {
		silent.Store(true)
		inWorld(t, func(w *world) {
			h := newHanging(1)
			h.fetch = func(ctx context.Context) error {
				if silent.Load() {
					return untilCancelled(ctx)
				}
				return nil
			}
			w.provisioners = map[workload.Type]provisioner.Provisioner{workload.TypeContainer: h}
		}, func(t *testing.T, w *world, n *incarnation) { body(t, w, n, w.container()) })
	}
	t.Run("it comes after several boots", func(t *testing.T) {
		withSilent(t, func(t *testing.T, w *world, n *incarnation, id string) {
			for range 12 {
				time.Sleep(time.Minute)
				if all, err := n.engine.Status(); err != nil || !strings.Contains(pendingOf(all, id), "doesn't answer yet: context deadline exceeded") {
					t.Fatalf("status says %+v, %v", all, err)
				}
				w.restart(n)
			}
			time.Sleep(time.Minute)
			silent.Store(false)
			w.within(10*time.Second, time.Now(), id, workload.StateOK)
			if all := w.explorer.all(id); len(all) != 1 {
				t.Errorf("its results are %+v", all)
			}
		})
	})
	t.Run("it never comes", func(t *testing.T) {
		withSilent(t, func(t *testing.T, w *world, _ *incarnation, id string) {
			began := time.Now()
			if got := w.answered(id, workload.StateError); !strings.Contains(got.Error, "tried again") || time.Since(began) < 2*time.Minute {
				t.Errorf("its result is %+v, after %s", got, time.Since(began))
			}
		})
	})
}
