package provision_test

import (
	"testing"
	"time"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/admit"
)

// TestVersionOneMayBeSentAgain after a refusal: equal requests of version 1 have one hash,
// and one refused for want of room used to be refused for ever.
func TestVersionOneMayBeSentAgain(t *testing.T) {
	v1 := func(r *workload.Reservation) { r.Version, r.Duration = workload.V1, 300*day }
	accepting := func(w *world) {
		w.acceptV1 = true
		w.admission = roomFor(t, gib(1), admit.Defaults())
	}
	t.Run("refused", func(t *testing.T) {
		inWorld(t, accepting, func(t *testing.T, w *world, n *incarnation) {
			other := w.volume(yearLong)
			w.answered(other, workload.StateOK)
			first := w.volume(v1)
			w.answered(first, workload.StateError)
			w.remove(other)
			w.answered(other, workload.StateDeleted)
			time.Sleep(time.Hour)
			second := w.volume(v1)
			w.answered(second, workload.StateOK)
			if !w.forgotten(first) {
				t.Error("the first one is remembered beside it")
			}
			w.restart(n)
			time.Sleep(time.Hour)
			third := w.volume(v1)
			w.answered(third, workload.StateError) // the second is there
			if w.storage.creations(second) != 1 || w.storage.creations(third) != 0 {
				t.Error("equal requests are on the node twice")
			}
		})
	})
	t.Run("failed", func(t *testing.T) {
		inWorld(t, accepting, func(t *testing.T, w *world, _ *incarnation) {
			w.storage.failing("create 1-1", node.Errorf(node.Invalid, "cannot make it"))
			first := w.volume(v1)
			w.answered(first, workload.StateError)
			time.Sleep(time.Hour)
			w.answered(w.volume(v1), workload.StateOK)
		})
	})
	t.Run("deleted", func(t *testing.T) {
		inWorld(t, accepting, func(t *testing.T, w *world, _ *incarnation) {
			first := w.volume(v1)
			w.answered(first, workload.StateOK)
			w.remove(first)
			w.answered(first, workload.StateDeleted)
			time.Sleep(time.Hour)
			w.answered(w.volume(v1), workload.StateError)
			if w.storage.creations(first) != 1 || len(w.storage.names()) != 0 {
				t.Error("what was deleted has come back")
			}
		})
	})
	t.Run("refused and deleted", func(t *testing.T) {
		inWorld(t, accepting, func(t *testing.T, w *world, _ *incarnation) {
			other := w.volume(yearLong)
			w.answered(other, workload.StateOK)
			first := w.volume(v1)
			w.answered(first, workload.StateError)
			w.remove(first)
			w.answered(first, workload.StateDeleted)
			w.remove(other)
			w.answered(other, workload.StateDeleted)
			time.Sleep(time.Hour)
			w.answered(w.volume(v1), workload.StateError)
		})
	})
}
