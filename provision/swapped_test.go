package provision_test

import (
	"testing"
	"time"

	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/admit"
)

// TestTwoUsersSwappedIDsSwapNoData: an explorer that swaps the IDs of two users' volumes,
// before or after their node has lost its records, gives neither the other's data, and a
// deletion that one of them signs removes nothing of the other's.
func TestTwoUsersSwappedIDsSwapNoData(t *testing.T) {
	for name, lost := range map[string]bool{"the node knows them": false, "the node has lost its records": true} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.admission = roomFor(t, gib(10), admit.Defaults())
				w.limits.Look, w.poll = time.Hour, time.Hour // for thirty days
			}, func(t *testing.T, w *world, n *incarnation) {
				honest, hostile := w.user, newKey(t)
				mine := w.volume(yearLong)
				w.user = hostile
				theirs := w.volume(yearLong)
				w.user = honest
				w.answered(mine, workload.StateOK)
				w.answered(theirs, workload.StateOK)
				first, _ := w.storage.spec(mine)
				second, _ := w.storage.spec(theirs)
				if first.Hash == "" || first.Hash == second.Hash {
					t.Fatalf("their labels have the hashes %q and %q", first.Hash, second.Hash)
				}
				time.Sleep(time.Hour)
				w.explorer.swap(mine, theirs)
				if lost {
					if err := w.lostStore(n).AcceptOlder(); err != nil {
						t.Fatal(err)
					}
					w.explorer.change(mine, func(*workload.Reservation) {})
					w.explorer.change(theirs, func(*workload.Reservation) {})
					w.answered(mine, workload.StateError)
					w.answered(theirs, workload.StateError)
				} else {
					time.Sleep(time.Hour)
				}
				w.user = hostile
				w.remove(mine) // which is the hostile user's document now
				w.user = honest
				time.Sleep(30 * day)
				if got, there := w.storage.spec(mine); !there || got != first {
					t.Errorf("the honest user's data under %s is %+v, was %+v", mine, got, first)
				}
				if got, there := w.storage.spec(theirs); there && got != second {
					t.Errorf("under %s is %+v, was %+v", theirs, got, second)
				}
			})
		})
	}
}
