package provision_test

import (
	"slices"
	"testing"
	"time"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/store"
)

// An event for a record that waited for its next attempt or look dropped its plan: nothing
// more was done until a restart.
func TestEventsDuringPlannedAttempt(t *testing.T) {
	t.Run("a renewal while it is provisioned again", func(t *testing.T) {
		inWorld(t, nil, func(t *testing.T, w *world, _ *incarnation) {
			w.storage.failing("create 1-1", slices.Repeat([]error{node.Errorf(node.Transient, "cannot create: it restarts")}, 6)...)
			id := w.volume(nil)
			w.until("it waits", func() bool { rec, err := w.records.Record(id); return err == nil && rec.Attempts > 4 })
			w.renew(id, w.clock.wall().Add(10*day))
			w.answered(id, workload.StateOK)
		})
	})
	t.Run("a deletion while it can't be judged", func(t *testing.T) {
		inWorld(t, nil, func(t *testing.T, w *world, _ *incarnation) {
			w.clock.set(-30*365*day, false, false)
			id := w.explorer.push(w.reserve(workload.TypeVolume, `{"size":1,"type":"SSD"}`, func(r *workload.Reservation) { r.Created = time.Now() }))
			w.until("it waits", func() bool { rec, err := w.records.Record(id); return err == nil && rec.Phase == store.Waiting })
			w.remove(id)
			w.answered(id, workload.StateDeleted)
			w.clock.byNTP()
			w.until("it is judged", func() bool { return w.phase(id) == store.Ended })
		})
	})
	t.Run("a deletion while it is decommissioned again", func(t *testing.T) {
		inWorld(t, nil, func(t *testing.T, w *world, _ *incarnation) {
			id := w.volume(nil)
			w.answered(id, workload.StateOK)
			w.storage.failing("release "+id, slices.Repeat([]error{node.Errorf(node.Unknown, "cannot release: no answer")}, 6)...)
			time.Sleep(day)
			w.until("it waits", func() bool { return w.record(id).Attempts > 4 })
			w.remove(id)
			w.answered(id, workload.StateDeleted)
		})
	})
	t.Run("a renewal that is kept while it is held", func(t *testing.T) {
		inWorld(t, func(w *world) { w.limits.Look = time.Hour }, func(t *testing.T, w *world, _ *incarnation) {
			id := w.explorer.push(w.reserve(workload.TypeVolume, `{"size":1,"type":"SSD"}`, monthLong))
			w.answered(id, workload.StateOK)
			w.clock.byWord(31 * day)
			time.Sleep(2 * time.Hour)
			if w.phase(id) != store.Held {
				t.Fatalf("it is %s", w.phase(id))
			}
			w.renew(id, w.clock.began.Add(400*day)) // the explorer's time alone can't refuse it
			w.handled()
			w.clock.byNTP() // neither expired nor renewable so far
			time.Sleep(2 * time.Hour)
			if rec := w.record(id); rec.Phase != store.Deployed || rec.Pending != nil {
				t.Fatalf("it is %s, pending %v", rec.Phase, rec.Pending)
			}
		})
	})
}
