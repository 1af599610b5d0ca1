package provision_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision"
	"github.com/croft-edge/croft/provision/admit"
	"github.com/croft-edge/croft/provision/provisioner"
	"github.com/croft-edge/croft/provision/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestARedeliveryIsAnsweredFromTheRecord(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *world, _ *incarnation) {
		id := w.volume(nil)
		first := w.answered(id, workload.StateOK)
		w.explorer.restoreBackup("another epoch", func(string) bool { return true })
		again := w.answered(id, workload.StateOK)
		if again.Sequence != first.Sequence || !again.Created.Equal(first.Created) || w.storage.creations(id) != 1 {
			t.Fatalf("answered %+v, then %+v, made %d times", first, again, w.storage.creations(id))
		}
	})
}

func TestAnExplorerFromAnOldBackupLosesNothingOfTheNode(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *world, _ *incarnation) {
		old, young := w.volume(nil), w.volume(nil)
		w.answered(old, workload.StateOK)
		w.answered(young, workload.StateOK)
		w.explorer.restoreBackup("before", func(id string) bool { return id == old })
		w.answered(old, workload.StateOK)
		time.Sleep(time.Hour)
		if names := w.storage.names(); !slices.Equal(names, []string{old, young}) || w.phase(young) != store.Deployed {
			t.Fatalf("on the node is %v", names)
		}
		// The explorer reuses the forgotten number: the reservation is refused, nothing is touched.
		w.explorer.pushAs(young, w.reserve(workload.TypeVolume, `{"size":5,"type":"HDD"}`, nil))
		last := w.volume(nil)
		w.answered(last, workload.StateOK)
		rec, err := w.records.Record(young)
		if err != nil || string(rec.Reservation.Data) != `{"size":1,"type":"SSD"}` || w.storage.creations(young) != 1 {
			t.Fatalf("%s is %+v, %v", young, rec, err)
		}
	})
}

func TestTheSameReservationUnderAnotherIDIsRefused(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *world, _ *incarnation) {
		r := w.reserve(workload.TypeVolume, `{"size":1,"type":"SSD"}`, nil)
		id := w.explorer.push(r)
		w.answered(id, workload.StateOK)
		replay := w.explorer.push(r)
		if got := w.answered(replay, workload.StateError); !strings.Contains(got.Error, id) {
			t.Fatalf("the replay is answered %q", got.Error)
		}
		w.remove(id)
		w.answered(id, workload.StateDeleted)
		late := w.explorer.push(r)
		w.answered(late, workload.StateError)
		if names := w.storage.names(); len(names) != 0 {
			t.Fatalf("on the node is %v", names)
		}
	})
}

// A deletion signs the hash: it ends the workload under whatever ID it comes, such as from
// an explorer that was restored from a backup.
func TestADeletionUnderAnotherIDEndsTheWorkload(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *world, _ *incarnation) {
		r := w.reserve(workload.TypeVolume, `{"size":1,"type":"SSD"}`, nil)
		id := w.explorer.push(r)
		w.answered(id, workload.StateOK)
		if err := r.SignDeletion(workload.Deletion{Created: w.clock.wall()}, w.user.Private()); err != nil {
			t.Fatal(err)
		}
		other := w.explorer.push(r)
		w.answered(id, workload.StateDeleted)
		w.answered(other, workload.StateError)
		if names := w.storage.names(); len(names) != 0 {
			t.Fatalf("on the node is %v", names)
		}
	})
}

func TestADeletionThatWasFirstBuriesItsReservation(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *world, _ *incarnation) {
		r := w.reserve(workload.TypeVolume, `{"size":1,"type":"SSD"}`, nil)
		if err := r.SignDeletion(workload.Deletion{Created: w.clock.wall()}, w.user.Private()); err != nil {
			t.Fatal(err)
		}
		id := w.explorer.push(r)
		w.answered(id, workload.StateDeleted)
		w.explorer.change(id, func(r *workload.Reservation) { r.Deletion = nil })
		time.Sleep(time.Minute)
		r.Deletion = nil
		replay := w.explorer.push(r)
		w.answered(replay, workload.StateError)
		if w.storage.creations(id)+w.storage.creations(replay) != 0 || w.phase(id) != store.Ended {
			t.Fatalf("it was provisioned after its deletion; phase %s", w.phase(id))
		}
	})
}

func TestOnlyTheUserDeletes(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *world, _ *incarnation) {
		id := w.volume(nil)
		w.answered(id, workload.StateOK)
		for name, edit := range map[string]func(r *workload.Reservation){
			"unsigned": func(r *workload.Reservation) { r.ToDelete = true },
			"by another": func(r *workload.Reservation) {
				hash, err := r.Hash()
				if err != nil {
					t.Fatal(err)
				}
				d := workload.Deletion{Created: w.clock.wall()}
				message, err := d.SigningBytes(hash)
				if err != nil {
					t.Fatal(err)
				}
				d.Signature = w.key.Sign(message)
				r.ToDelete, r.Deletion = true, &d
			},
			"empty": func(r *workload.Reservation) { r.Deletion = &workload.Deletion{} },
		} {
			w.explorer.change(id, edit)
			time.Sleep(time.Minute)
			if w.phase(id) != store.Deployed || len(w.storage.names()) != 1 {
				t.Fatalf("%s: phase is %s", name, w.phase(id))
			}
		}
		w.remove(id)
		w.answered(id, workload.StateDeleted)
	})
}

func TestABusyWorkloadsDeletionWaitsVisibly(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *world, n *incarnation) {
		id := w.volume(nil)
		w.answered(id, workload.StateOK)
		w.storage.failing("release "+id, slices.Repeat([]error{node.Errorf(node.Busy, "cannot release: a container mounts it")}, 6)...)
		w.remove(id)
		w.until("it waits", func() bool { return w.phase(id) == store.Blocked })
		w.restart(n) // the wait survives
		w.until("attempts are counted", func() bool {
			status, err := n.engine.Status()
			return err == nil && status[0].Attempts > 2 && strings.HasPrefix(status[0].Pending, "decommission") && strings.Contains(status[0].Error, "mounts it")
		})
		w.answered(id, workload.StateDeleted)
		if len(w.storage.names()) != 0 {
			t.Fatalf("on the node is %v", w.storage.names())
		}
	})
}

func TestARenewalMovesTheEndAndKeepsTheData(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *world, n *incarnation) {
		start := w.clock.wall()
		id := w.volume(func(r *workload.Reservation) { r.Duration = time.Hour })
		first := w.answered(id, workload.StateOK)
		w.renew(id, start.Add(3*time.Hour))
		w.until("the user hears of it", func() bool { return w.explorer.result(id).Sequence > first.Sequence })
		w.renew(id, start.Add(2*time.Hour)) // a renewal never shortens
		w.explorer.change(id, func(r *workload.Reservation) { r.Renewal.Expires = start.Add(9 * time.Hour) })
		w.explorer.change(id, func(r *workload.Reservation) { r.Renewal = nil }) // an old explorer
		w.renew(id, start.Add(2*365*24*time.Hour))                               // beyond what the node accepts
		w.restart(n)
		time.Sleep(150 * time.Minute)
		if w.phase(id) != store.Deployed || w.storage.creations(id) != 1 {
			t.Fatalf("after 2.5 h it is %s, made %d times", w.phase(id), w.storage.creations(id))
		}
		time.Sleep(29 * time.Minute)
		w.answered(id, workload.StateExpired)
		if took := w.clock.wall().Sub(start); took < 3*time.Hour || took > 3*time.Hour+time.Minute {
			t.Fatalf("ended after %s, want 3h", took)
		}
	})
}

func TestPollOrderByNeeds(t *testing.T) {
	var order callOrder
	types := []workload.Type{workload.TypeNetwork, workload.TypeContainer}
	inWorld(t, func(w *world) {
		w.provisioners = map[workload.Type]provisioner.Provisioner{}
		for _, kind := range types {
			w.provisioners[kind] = &fakeProvisioner{order: &order}
		}
		w.explorer.push(w.reserve(workload.TypeContainer, containerData, nil))
		w.explorer.push(w.reserve(workload.TypeNetwork, w.networkData("net1"), nil))
	}, func(t *testing.T, w *world, n *incarnation) {
		w.answered("1-1", workload.StateOK)
		n.stop(t)
		w.remove("2-1")
		w.remove("1-1")
		*n = *w.start(newStepper(""))
		w.answered("2-1", workload.StateDeleted)
		want := []string{"provision 2-1", "provision 1-1", "decommission 1-1", "decommission 2-1"}
		if got := order.all(); !slices.Equal(got, want) {
			t.Fatalf("order is %v, want %v", got, want)
		}
	})
}

const containerData = `{"flist":"https://hub.example/x.flist","flist_storage":"zdb://hub.example:9900","env":{},"entrypoint":"/bin/sh",
	"interactive":false,"mounts":[],"network":{"network_id":"net1","ips":["10.1.1.10"]},"capacity":{"cpu":1,"memory":64}}`

func TestAStuckModuleCostsOneReservationItsDeadline(t *testing.T) {
	release := make(chan struct{})
	prov := &fakeProvisioner{}
	inWorld(t, func(w *world) {
		release = make(chan struct{})
		stuck := release
		prov.answer = func(_ context.Context, r *workload.Reservation) (json.RawMessage, error) {
			if r.ID == "1-1" {
				<-stuck // ignoring its context
			}
			return nil, nil
		}
		w.limits.Provision = 10 * time.Second
		w.provisioners = map[workload.Type]provisioner.Provisioner{workload.TypeContainer: prov}
	}, func(t *testing.T, w *world, _ *incarnation) {
		bad := w.explorer.push(w.reserve(workload.TypeContainer, containerData, nil))
		synctest.Wait()
		good := w.volume(nil)
		start := time.Now()
		w.answered(good, workload.StateOK)
		if took := time.Since(start); took > 15*time.Second {
			t.Fatalf("the other waited %s", took)
		}
		time.Sleep(5 * time.Minute)
		if calls := prov.calls(); len(calls) != 1 {
			t.Fatalf("asked %v while the first hasn't come back", calls)
		}
		close(release)
		w.answered(bad, workload.StateOK)
	})
}

func TestAPanicIsAnErrorAndIsTriedAgain(t *testing.T) {
	prov := &fakeProvisioner{}
	panics := 2
	prov.answer = func(context.Context, *workload.Reservation) (json.RawMessage, error) {
		if panics--; panics >= 0 {
			panic("nil map")
		}
		return nil, nil
	}
	prov.decommission = func(context.Context, *workload.Reservation) error {
		if panics--; panics >= -2 {
			panic("nil map again")
		}
		return nil
	}
	inWorld(t, func(w *world) {
		w.provisioners = map[workload.Type]provisioner.Provisioner{workload.TypeContainer: prov}
	}, func(t *testing.T, w *world, _ *incarnation) {
		id := w.explorer.push(w.reserve(workload.TypeContainer, containerData, nil))
		if r := w.answered(id, workload.StateError); strings.Contains(r.Error, "nil map") {
			t.Fatalf("the user is told %q", r.Error)
		}
		w.answered(id, workload.StateOK)
		w.remove(id)
		w.answered(id, workload.StateDeleted)
	})
}

func TestNotEnoughSpaceIsFinalAndSaysSo(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *world, _ *incarnation) {
		w.storage.failing("create 1-1", node.Errorf(node.NoSpace, "cannot create 1-1: it needs 1 GiB, 0.3 GiB is free"))
		id := w.volume(nil)
		r := w.answered(id, workload.StateError)
		time.Sleep(time.Hour)
		if !strings.Contains(r.Error, "0.3 GiB is free") || strings.Contains(r.Error, "again") || w.phase(id) != store.Failed || w.storage.creations(id) != 0 {
			t.Fatalf("told %q, phase %s", r.Error, w.phase(id))
		}
		w.remove(id)
		w.answered(id, workload.StateDeleted)
	})
}

// full is an admission set by hand.
type full struct{ free int }

func (f *full) Demand(*workload.Reservation) provisioner.Demand { return provisioner.Demand{} }

func (f *full) Offer(context.Context) (admit.Offer, error) { return admit.Offer{}, nil }

func (f *full) Wait(*workload.Reservation, store.Usage, store.Usage) error { return nil }

func (f *full) Admit(r *workload.Reservation, _, all store.Usage, _ admit.Offer) error {
	if all.Workloads >= f.free {
		return node.Errorf(node.NoSpace, "cannot admit %s: need 1 of %d, 0 free", r.ID, f.free)
	}
	return nil
}

func TestAdmissionIsAskedBeforeAnythingIsDone(t *testing.T) {
	inWorld(t, func(w *world) { w.admission = &full{free: 1} }, func(t *testing.T, w *world, _ *incarnation) {
		w.answered(w.volume(nil), workload.StateOK)
		id := w.volume(nil)
		if r := w.answered(id, workload.StateError); !strings.Contains(r.Error, "0 free") {
			t.Fatalf("told %q", r.Error)
		}
		for _, point := range w.last.steps.all() {
			if strings.Contains(point, "create "+id) || strings.Contains(point, id+" intent") {
				t.Fatalf("done for what isn't admitted: %s", point)
			}
		}
	})
}

func TestRunTwiceAtOnceIsRefused(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *world, n *incarnation) {
		w.answered(w.volume(nil), workload.StateOK)
		if err := n.engine.Run(context.Background()); err == nil {
			t.Fatal("a second thread runs")
		}
	})
}

func TestAnEngineNeedsItsParts(t *testing.T) {
	w := newWorld(t)
	for name, spoil := range map[string]func(c *provision.Config){
		"Records":      func(c *provision.Config) { c.Records = nil },
		"Sources":      func(c *provision.Config) { c.Sources = nil },
		"Policy":       func(c *provision.Config) { c.Policy = nil },
		"Feedback":     func(c *provision.Config) { c.Feedback = nil },
		"Clock":        func(c *provision.Config) { c.Clock = nil },
		"limit":        func(c *provision.Config) { c.Limits.Grace = -1 },
		"Refused":      func(c *provision.Config) { c.Limits.Refused = -1 },
		"provisioner":  func(c *provision.Config) { c.Provisioners[workload.TypeZDB] = nil },
		"provisioner ": func(c *provision.Config) { c.Provisioners["spaceship"] = &fakeProvisioner{} },
	} {
		c := w.config(newStepper(""))
		spoil(&c)
		if _, err := provision.NewEngine(c); err == nil || !strings.Contains(err.Error(), strings.TrimSpace(name)) {
			t.Errorf("without a good %s: %v", name, err)
		}
	}
}

// Work in hand when the node is stopped is finished, and its result is sent: feedback ends
// after the engine's thread.
func TestShutdownSendsPendingAnswer(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *world, n *incarnation) {
		begun := make(chan struct{})
		w.storage.hooked(func(call string) {
			if strings.HasPrefix(call, "create ") {
				close(begun)
				time.Sleep(3 * time.Second)
			}
		})
		id := w.volume(nil)
		<-begun
		n.stop(t)
		told := w.explorer.all(id)
		w.storage.hooked(nil)
		*n = *w.start(newStepper(""))
		if len(told) != 1 || told[0].State != workload.StateOK {
			t.Fatalf("told at the end: %v", told)
		}
	})
}
