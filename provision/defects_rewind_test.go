package provision_test

import (
	"testing"
	"time"

	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/store"
)

// A tombstone whose end only the node's uptime had proven was forgotten; an explorer that
// then set the clock back brought the deleted reservation again, and it was deployed.
func TestADeletedReservationStaysAwayWhenTheClockIsSetBack(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *world, n *incarnation) {
		w.clock.set(0, true, false) // only the explorer vouches, from the beginning
		r := w.reserve(workload.TypeVolume, `{"size":1,"type":"SSD"}`, func(r *workload.Reservation) { r.Duration = time.Hour })
		id := w.explorer.push(r)
		w.answered(id, workload.StateOK)
		w.remove(id)
		w.answered(id, workload.StateDeleted)
		time.Sleep(5 * time.Hour)
		w.clock.set(-4*time.Hour-30*time.Minute, true, false)
		w.restart(n)
		for _, as := range []string{id, "900-1"} {
			w.explorer.pushAs(as, r)
		}
		time.Sleep(10 * time.Minute)
		if names := w.storage.names(); len(names) != 0 || w.phase(id) != store.Ended {
			t.Fatalf("%s is %s, on the node is %v", id, w.phase(id), names)
		}
		w.clock.set(0, true, true) // a time that proves it
		time.Sleep(2 * time.Hour)
		w.until("the tombstone is forgotten", func() bool { recs, err := w.records.List(); return err == nil && len(recs) == 0 })
	})
}
