package provision_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/admit"
	"github.com/croft-edge/croft/provision/provisioner"
	"github.com/croft-edge/croft/provision/store"
)

// demandOf is a core per container, a GiB per volume, and per network a third of a user's
// limit of memory for tunnels.
func demandOf(r *workload.Reservation) (d provisioner.Demand, err error) {
	switch r.Type {
	case workload.TypeContainer:
		d.CPU = 1
	case workload.TypeVolume:
		d.SSD = workload.GiB
	case workload.TypeNetwork:
		d.Tunnels = 10 * workload.MiB
	}
	return d, nil
}

// roomFor is the node's real admission for that capacity.
func roomFor(t *testing.T, offer provisioner.Demand, policy admit.Policy) *admit.Admission {
	t.Helper()
	a, err := admit.New(admit.Config{
		Policy: policy, Demand: demandOf,
		Offer: func(context.Context) (admit.Offer, error) { return admit.Offer{Total: offer}, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func gib(n uint64) provisioner.Demand {
	return provisioner.Demand{SSD: n * workload.GiB, Tunnels: uint64(admit.TunnelMemory.Total)}
}

// After a lost store an explorer that swapped two volumes' IDs swapped their data: their
// user deleted the second volume, and the first one's data went.
func TestSwappedIDsSwapNoData(t *testing.T) {
	inWorld(t, func(w *world) { w.admission = roomFor(t, gib(10), admit.Defaults()) }, func(t *testing.T, w *world, n *incarnation) {
		one, two := w.volume(yearLong), w.volume(yearLong)
		w.answered(one, workload.StateOK)
		w.answered(two, workload.StateOK)
		first, _ := w.storage.spec(one)
		second, _ := w.storage.spec(two)
		time.Sleep(time.Hour)
		w.explorer.swap(one, two)
		lost := w.lostStore(n)
		if err := lost.AcceptOlder(); err != nil {
			t.Fatal(err)
		}
		w.explorer.change(one, func(*workload.Reservation) {})
		w.explorer.change(two, func(*workload.Reservation) {})
		w.answered(one, workload.StateError)
		w.answered(two, workload.StateError)
		w.remove(one) // whose document is the second volume's
		w.answered(one, workload.StateDeleted)
		time.Sleep(30 * day)
		if got, there := w.storage.spec(one); !there || got != first {
			t.Errorf("under %s is %+v, was %+v", one, got, first)
		}
		if got, there := w.storage.spec(two); there && got != second {
			t.Errorf("under %s is %+v, was %+v", two, got, second)
		}
	})
}

// An operator's accept-older did nothing on a node with admission: reservations refused for
// their age stayed refused.
func TestAcceptOlderTakesInResentReservations(t *testing.T) {
	inWorld(t, func(w *world) { w.admission = roomFor(t, gib(10), admit.Defaults()) }, func(t *testing.T, w *world, n *incarnation) {
		id := w.volume(yearLong)
		w.answered(id, workload.StateOK)
		time.Sleep(time.Hour)
		lost := w.lostStore(n)
		w.answered(id, workload.StateError)
		if err := lost.AcceptOlder(); err != nil {
			t.Fatal(err)
		}
		w.explorer.change(id, func(*workload.Reservation) {})
		w.answered(id, workload.StateOK)
		if w.storage.creations(id) != 1 {
			t.Fatal("it was made anew")
		}
	})
}

// Nor does accept-older bring in a reservation that its user has deleted, when an explorer
// withholds the deletion that the node has seen.
func TestAcceptOlderTakesInNothingThatWasDeleted(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *world, n *incarnation) {
		genuine := w.reserve(workload.TypeVolume, `{"size":1,"type":"SSD"}`, yearLong)
		time.Sleep(time.Hour)
		lost := w.lostStore(n)
		first := w.explorer.push(w.deleted(genuine))
		w.answered(first, workload.StateDeleted)
		if err := lost.AcceptOlder(); err != nil {
			t.Fatal(err)
		}
		w.explorer.pushAs(first, genuine)
		time.Sleep(time.Hour)
		if names := w.storage.names(); len(names) != 0 || w.told(first, workload.StateOK) {
			t.Fatalf("on the node is %v, told %s", names, w.explorer)
		}
	})
}

// A container that mounts a volume by its ID got any later volume of that ID.
func TestAnIDThatBecameAnotherVolumeIsNotMounted(t *testing.T) {
	boxes := &watchedProvisioner{}
	inWorld(t, func(w *world) {
		w.limits.Drift = time.Minute
		w.provisioners = map[workload.Type]provisioner.Provisioner{workload.TypeContainer: boxes}
	}, func(t *testing.T, w *world, _ *incarnation) {
		volume := w.volume(func(r *workload.Reservation) { r.Duration = time.Hour })
		w.answered(volume, workload.StateOK)
		data := fmt.Sprintf(`{"flist":"docker://example.com/a","network":{"network_id":"net","ips":["10.1.1.2"]},
			"capacity":{"cpu":1,"memory":64},"mounts":[{"volume_id":%q,"mountpoint":"/data"}]}`, volume)
		box := w.explorer.push(w.reserve(workload.TypeContainer, data, yearLong))
		w.answered(box, workload.StateOK)
		// The container is gone and can't be made for now: it doesn't keep the volume, which goes, its tombstone with it.
		boxes.failing(node.Errorf(node.Transient, "cannot provision %s: its module restarts", box))
		boxes.lose(box)
		time.Sleep(2 * time.Hour)
		w.until("the ID is free", func() bool { return w.forgotten(volume) })
		w.explorer.pushAs(volume, w.reserve(workload.TypeVolume, `{"size":2,"type":"SSD"}`, yearLong))
		w.until("it is another's", func() bool { rec, err := w.records.Record(volume); return err == nil && rec.Phase == store.Deployed })
		made := count(boxes.calls(), "provision")
		boxes.failing(nil)
		w.until("its user is told", func() bool {
			rec, err := w.records.Record(box)
			return err == nil && rec.Result != nil && strings.Contains(rec.Result.Error, volume+" is another reservation")
		})
		if got := count(boxes.calls(), "provision"); got != made {
			t.Fatalf("it was made again %d times with another's data", got-made)
		}
	})
}

// A deletion that came under an ID whose refusal the explorer didn't have yet was lost: the
// workload stayed, and nobody would send the deletion again.
func TestADeletionUnderARefusedUndeliveredIDCounts(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *world, n *incarnation) {
		id := w.volume(yearLong)
		w.answered(id, workload.StateOK)
		w.explorer.setDeaf(true)
		genuine := w.explorer.document(id)
		w.explorer.pushAs("5000-1", genuine)
		w.until("the replay is refused", func() bool {
			rec, err := w.records.Record("5000-1")
			return err == nil && rec.Phase == store.Dismissed && !rec.Delivered
		})
		w.explorer.pushAs("5000-1", w.deleted(genuine))
		w.until("it has ended", func() bool { return w.phase(id) == store.Ended })
		w.restart(n)
		w.explorer.setDeaf(false)
		w.answered(id, workload.StateDeleted)
		if names := w.storage.names(); len(names) != 0 {
			t.Fatalf("on the node is %v", names)
		}
	})
}

// The same for a refused reservation itself: its deletion must be answered, and nothing may
// accept it later.
func TestDeletionOfRefusedReservation(t *testing.T) {
	inWorld(t, func(w *world) { w.admission = roomFor(t, gib(1), admit.Defaults()) }, func(t *testing.T, w *world, n *incarnation) {
		other := w.volume(nil)
		w.answered(other, workload.StateOK)
		w.explorer.setDeaf(true)
		id := w.volume(yearLong)
		w.until("it is refused", func() bool { rec, err := w.records.Record(id); return err == nil && rec.Phase == store.Refused })
		w.remove(id)
		w.restart(n)
		w.explorer.setDeaf(false)
		w.answered(id, workload.StateDeleted)
	})
}

// A final refusal was reversed by a redelivery: the user had reserved elsewhere by then,
// and had the workload twice.
func TestAFinalRefusalIsFinal(t *testing.T) {
	inWorld(t, func(w *world) { w.admission = roomFor(t, gib(1), admit.Defaults()) }, func(t *testing.T, w *world, n *incarnation) {
		other := w.volume(nil)
		w.answered(other, workload.StateOK)
		id := w.volume(yearLong)
		refusal := w.answered(id, workload.StateError)
		w.remove(other) // now there is room
		w.answered(other, workload.StateDeleted)
		again := func(what string) {
			t.Helper()
			time.Sleep(time.Hour)
			if got := w.explorer.result(id); got.State != workload.StateError || got.Sequence != refusal.Sequence || len(w.storage.names()) != 0 {
				t.Fatalf("%s: told %+v, on the node is %v", what, got, w.storage.names())
			}
		}
		w.explorer.change(id, func(*workload.Reservation) {})
		again("brought again")
		w.restart(n)
		w.explorer.change(id, func(*workload.Reservation) {})
		again("brought again after a restart")
		w.renew(id, w.clock.wall().Add(310*day))
		again("renewed")
		w.explorer.restoreBackup("another", func(string) bool { return true })
		w.answered(id, workload.StateError)
		again("brought by an explorer of another epoch")
	})
}

// Documents that came with their deletion skipped the checks of dates, version, user and
// count: 300 of 300 remained for 400 days, the last until 2146.
func TestDeletionsThatComeFirstAreJudged(t *testing.T) {
	const brought = 60
	for name, spoil := range map[string]func(w *world, r *workload.Reservation){
		"long ago":           func(_ *world, r *workload.Reservation) { r.Created, r.Duration = r.Created.Add(-500*day), day },
		"of the future":      func(_ *world, r *workload.Reservation) { r.Created = r.Created.Add(120 * 365 * day) },
		"too long":           func(_ *world, r *workload.Reservation) { r.Duration = 40 * 365 * day },
		"a user not allowed": func(w *world, r *workload.Reservation) { w.user = newKey(w.t) },
		"too many":           func(*world, *workload.Reservation) {},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.limits.Refused = 10
				policy := admit.Defaults()
				policy.Records = 20
				if strings.HasPrefix(name, "a user") {
					policy.AllowUsers = []string{w.user.ID()}
				}
				w.admission = roomFor(t, gib(10), policy)
			}, func(t *testing.T, w *world, _ *incarnation) {
				var last string
				for range brought {
					r := &workload.Reservation{
						NodeID: w.key.ID(), Type: workload.TypeVolume, Data: []byte(`{"size":1,"type":"SSD"}`), Created: w.clock.wall(), Duration: day,
					}
					spoil(w, r)
					if err := r.Sign(w.user.Private()); err != nil {
						t.Fatal(err)
					}
					last = w.explorer.push(w.deleted(r))
				}
				w.answered(last, workload.StateDeleted)
				time.Sleep(10 * time.Minute)
				recs, err := w.records.List()
				if err != nil {
					t.Fatal(err)
				}
				most := 10
				if name == "too many" {
					most += 20
				}
				if len(recs) > most {
					t.Errorf("%d of %d remain, may be %d", len(recs), brought, most)
				}
				for _, rec := range recs {
					if len(rec.Reservation.Data) != 0 || len(rec.Reservation.Signature) != 0 || rec.Reservation.Deletion != nil {
						t.Fatalf("a tombstone keeps %+v", rec.Reservation)
					}
				}
				if len(w.storage.names()) != 0 {
					t.Fatal("something was made")
				}
			})
		})
	}
}

// Every tombstone keeps hash, name key and end, and no data.
func TestATombstoneIsSmall(t *testing.T) {
	withNetworks(t, func(t *testing.T, w *world, _ *incarnation, nets *namedNetworks) {
		nets.fails("2-1", node.Errorf(node.Invalid, "cannot provision: the port is taken"))
		ended := w.explorer.push(w.netOf("one", monthLong))
		failed := w.explorer.push(w.netOf("two", monthLong))
		refused := w.explorer.push(w.netOf("three", tooLong))
		w.answered(ended, workload.StateOK)
		w.remove(ended)
		w.answered(ended, workload.StateDeleted)
		w.answered(failed, workload.StateError)
		w.answered(refused, workload.StateError)
		for id, phase := range map[string]store.Phase{ended: store.Ended, failed: store.Failed, refused: store.Refused} {
			rec, doc := w.record(id), w.explorer.document(id)
			hash, err := doc.Hash()
			key, _ := store.KeyOf(doc)
			r := rec.Reservation
			if err != nil || rec.Phase != phase || rec.Hash != hash || rec.Name != key || !r.Expires().Equal(doc.Expires()) {
				t.Errorf("%s: %+v", id, rec)
			}
			if len(r.Data) != 0 || len(r.Signature) != 0 || r.Deletion != nil || len(rec.Bound) != 0 || rec.Pending != nil {
				t.Errorf("%s keeps %+v", id, r)
			}
		}
		if got := nets.calls(); slices.Contains(got, "provision "+refused) {
			t.Errorf("calls %v", got)
		}
	})
}
