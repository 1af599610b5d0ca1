package provision_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision"
	"github.com/croft-edge/croft/provision/provisioner"
	"github.com/croft-edge/croft/provision/store"
)

const (
	day   = 24 * time.Hour
	grace = 7 * day
)

func yearLong(r *workload.Reservation) { r.Duration = 300 * day }

func TestEvictKeepsTheDataForTheGracePeriod(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *world, n *incarnation) {
		id := w.volume(yearLong)
		w.answered(id, workload.StateOK)
		if err := n.engine.Evict(context.Background(), id); err != nil {
			t.Fatal(err)
		}
		if r := w.answered(id, workload.StateEvicted); !strings.Contains(r.Error, "node's owner") {
			t.Fatalf("the user is told %q", r.Error)
		}
		counters, cancel := context.WithCancel(context.Background())
		defer cancel()
		if got := <-n.engine.Counters(counters); got.Volume != 0 {
			t.Fatalf("counters are %+v", got)
		}
		for range 6 { // whatever the node does meanwhile
			time.Sleep(day)
			w.restart(n)
		}
		if len(w.storage.names()) != 1 || w.phase(id) != store.Held {
			t.Fatalf("after 6 days: %v, %s", w.storage.names(), w.phase(id))
		}
		time.Sleep(day)
		w.until("its grace is over", func() bool { return len(w.storage.names()) == 0 && w.phase(id) == store.Ended })
		if all := w.explorer.all(id); all[len(all)-1].State != workload.StateEvicted || len(all) != 2 {
			t.Fatalf("the user was told %+v", all)
		}
		for wrong, kind := range map[string]node.Kind{id: node.Refused, "9-9": node.NotExist, "../x": node.Invalid} {
			if err := n.engine.Evict(context.Background(), wrong); node.KindOf(err) != kind {
				t.Errorf("evict %s gives %v, want %s", wrong, err, kind)
			}
		}
	})
}

// A grace period is elapsed time: no clock, right or wrong, begins or ends it early.
func TestAGracePeriodIsProvenByPassedTime(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *world, n *incarnation) {
		id := w.volume(yearLong)
		w.answered(id, workload.StateOK)
		w.clock.set(-30*365*day, true, false) // the explorer says that it is 1970
		if err := n.engine.Evict(context.Background(), id); err != nil {
			t.Fatal(err)
		}
		w.answered(id, workload.StateEvicted)
		w.clock.set(0, true, true) // NTP says the right time: 30 years later
		time.Sleep(day)
		w.clock.set(100*day, true, false)
		time.Sleep(5 * day)
		w.clock.set(0, false, false)
		if time.Sleep(23 * time.Hour); len(w.storage.names()) != 1 {
			t.Fatal("removed before seven days have passed")
		}
		time.Sleep(2 * time.Hour)
		w.until("seven days have passed, whatever any clock says", func() bool { return len(w.storage.names()) == 0 })
	})
}

func TestUserDeletesEvictedWorkload(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *world, n *incarnation) {
		id := w.volume(yearLong)
		w.answered(id, workload.StateOK)
		if err := n.engine.Evict(context.Background(), id); err != nil {
			t.Fatal(err)
		}
		w.remove(id)
		w.answered(id, workload.StateDeleted)
		if len(w.storage.names()) != 0 {
			t.Fatal("its data is kept against its user's word")
		}
	})
}

func TestEvictionWithoutDataIsImmediate(t *testing.T) {
	prov := &fakeProvisioner{}
	inWorld(t, func(w *world) {
		w.provisioners = map[workload.Type]provisioner.Provisioner{workload.TypeContainer: prov}
	}, func(t *testing.T, w *world, n *incarnation) {
		id := w.explorer.push(w.reserve(workload.TypeContainer, containerData, nil))
		w.answered(id, workload.StateOK)
		if err := n.engine.Evict(context.Background(), id); err != nil {
			t.Fatal(err)
		}
		w.answered(id, workload.StateEvicted)
		if got := prov.calls(); !slices.Equal(got, []string{"provision 1-1", "decommission 1-1"}) || w.phase(id) != store.Ended {
			t.Fatalf("calls %v, phase %s", got, w.phase(id))
		}
	})
}

// A volume waits for its container for so long that its pauses are minutes.
func TestWaitingForAnothersEnd(t *testing.T) {
	boxes, volumes := &fakeProvisioner{}, &fakeProvisioner{}
	volumes.decommission = func(ctx context.Context, r *workload.Reservation) error {
		if used, err := boxes.List(ctx); err != nil || len(used) > 0 {
			return node.Errorf(node.Busy, "cannot decommission %s: container %v mounts it (%v)", r.ID, used, err)
		}
		return nil
	}
	inWorld(t, func(w *world) {
		w.provisioners = map[workload.Type]provisioner.Provisioner{workload.TypeContainer: boxes, workload.TypeVolume: volumes}
	}, func(t *testing.T, w *world, n *incarnation) {
		volume := w.volume(yearLong)
		mounts := strings.Replace(containerData, `"mounts":[]`, `"mounts":[{"volume_id":"`+volume+`","mountpoint":"/data"}]`, 1)
		box := w.explorer.push(w.reserve(workload.TypeContainer, mounts, yearLong))
		other := w.explorer.push(w.reserve(workload.TypeContainer, mounts, yearLong))
		for _, id := range []string{box, other, volume} {
			w.answered(id, workload.StateOK)
		}
		w.remove(volume)
		time.Sleep(2 * time.Hour)
		rec, err := w.records.Record(volume)
		if err != nil || rec.Phase != store.Blocked || !strings.Contains(rec.Cause, "in use by container/2-1, container/3-1") {
			t.Fatalf("the volume is %+v, %v", rec, err)
		}
		tries := rec.Attempts
		w.remove(other) // not the last user of the volume: its removal is tried, and goes on waiting
		w.answered(other, workload.StateDeleted)
		time.Sleep(time.Second)
		if rec, err := w.records.Record(volume); err != nil || rec.Phase != store.Blocked || rec.Attempts <= tries {
			t.Fatalf("once another one has left the volume is %+v, %v, was tried %d times", rec, err, tries)
		}
		w.remove(box)
		w.answered(box, workload.StateDeleted)
		left := time.Now()
		w.answered(volume, workload.StateDeleted)
		if took := time.Since(left); took > time.Second {
			t.Errorf("the volume left %s after what used it", took)
		}
	})
}

func TestEvictWithoutAnEngineSaysSo(t *testing.T) {
	w := newWorld(t)
	engine, err := provision.NewEngine(w.config(newStepper("")))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	if err := engine.Evict(ctx, "1-1"); node.KindOf(err) != node.Transient {
		t.Fatalf("gives %v", err)
	}
}

// machine is a fake type that runs and holds data.
type machine struct {
	fakeProvisioner
}

func (m *machine) HoldsData() bool { return true }

func (m *machine) Stop(_ context.Context, r *workload.Reservation) error {
	m.note("stop " + r.ID)
	return nil
}

func TestTheExplorersWordAloneStopsButRemovesNothing(t *testing.T) {
	vm := &machine{}
	inWorld(t, func(w *world) {
		w.provisioners = map[workload.Type]provisioner.Provisioner{workload.TypeContainer: vm}
	}, func(t *testing.T, w *world, n *incarnation) {
		id := w.explorer.push(w.reserve(workload.TypeContainer, containerData, nil))
		disk := w.volume(nil)
		w.answered(id, workload.StateOK)
		w.answered(disk, workload.StateOK)

		w.clock.set(2*day, true, false) // the explorer says that two days have passed
		w.until("both are held", func() bool { return w.phase(id) == store.Held && w.phase(disk) == store.Held })
		time.Sleep(time.Hour)
		w.restart(n)
		time.Sleep(time.Hour)
		if got := vm.calls(); !slices.Equal(got, []string{"provision 1-1", "stop 1-1"}) || len(w.storage.names()) != 1 {
			t.Fatalf("calls %v, volumes %v", got, w.storage.names())
		}
		if w.explorer.result(disk).State != workload.StateOK {
			t.Fatal("told that it has ended, while it may not have")
		}

		w.clock.set(0, true, true) // it was wrong
		w.until("both are back", func() bool { return w.phase(id) == store.Deployed && w.phase(disk) == store.Deployed })
		if w.storage.creations(disk) != 1 {
			t.Fatal("the volume was made anew")
		}
		w.clock.set(2*day, true, true) // now it is right
		w.answered(id, workload.StateExpired)
		w.answered(disk, workload.StateExpired)
		if len(w.storage.names()) != 0 {
			t.Fatalf("volumes %v", w.storage.names())
		}
	})
}

func TestOrphansAreReportedThenRemovedAfterTheirGrace(t *testing.T) {
	inWorld(t, func(w *world) {
		for _, name := range []string{"77-1", "log", "not ours"} {
			w.storage.disk.Put(node.Filesystem{Name: name})
		}
	}, func(t *testing.T, w *world, n *incarnation) {
		kept := w.volume(yearLong)
		w.answered(kept, workload.StateOK)
		if got := n.engine.Orphans(); len(got) != 1 || got[0].ID != "77-1" || got[0].Type != workload.TypeVolume || got[0].Since.IsZero() {
			t.Fatalf("orphans are %+v", got)
		}
		for range 6 {
			time.Sleep(day)
			w.restart(n) // which doesn't begin the grace anew
		}
		if !slices.Contains(w.storage.names(), "77-1") {
			t.Fatal("removed before its grace was over")
		}
		w.clock.set(30*day, true, false)
		time.Sleep(12 * time.Hour)
		if !slices.Contains(w.storage.names(), "77-1") {
			t.Fatal("removed on the explorer's word alone")
		}
		w.clock.set(0, false, false)
		time.Sleep(day) // seven and a half days have passed, whatever the clocks say
		if names := w.storage.names(); !slices.Equal(names, []string{kept, "log", "not ours"}) || len(n.engine.Orphans()) != 0 {
			t.Fatalf("on the node is %v, orphans %v", names, n.engine.Orphans())
		}
	})
}

// The node is cut off for longer than the grace, and one record's file is torn: its volume
// has no known end.
func TestADamagedRecordsDataOutlivesTheGrace(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *world, n *incarnation) {
		torn := w.volume(yearLong)
		w.answered(torn, workload.StateOK)
		n.stop(t)
		if err := w.records.Close(); err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(filepath.Join(w.dir, torn), 40); err != nil {
			t.Fatal(err)
		}
		w.explorer.setAway(true)
		w.storage.disk.Put(node.Filesystem{Name: "77-1"})
		w.records = openStore(t, w.dir)
		*n = *w.start(newStepper(""))
		for range 10 {
			time.Sleep(day)
			w.restart(n)
		}
		time.Sleep(time.Hour)
		if names := w.storage.names(); !slices.Equal(names, []string{torn}) {
			t.Fatalf("on the node is %v, want only %s", names, torn)
		}
		if got := n.engine.Orphans(); len(got) != 1 || got[0].ID != torn {
			t.Fatalf("orphans are %+v", got)
		}
		w.explorer.setAway(false)
		w.until("it is known again", func() bool {
			rec, err := w.records.Record(torn)
			return err == nil && rec.Phase == store.Deployed
		})
		if made := w.storage.creations(torn); made != 1 || len(n.engine.Orphans()) != 0 {
			t.Fatalf("made %d times, orphans %v", made, n.engine.Orphans())
		}
	})
}

func TestAnUpdatedNetworkIsOneNetwork(t *testing.T) {
	prov := &fakeProvisioner{}
	inWorld(t, func(w *world) {
		w.provisioners = map[workload.Type]provisioner.Provisioner{workload.TypeNetwork: prov}
	}, func(t *testing.T, w *world, n *incarnation) {
		network := func(duration, age time.Duration) string {
			return w.explorer.push(w.reserve(workload.TypeNetwork, w.networkData("net1"), func(r *workload.Reservation) {
				r.Duration, r.Created = duration, r.Created.Add(-age)
			}))
		}
		first := network(2*time.Hour, time.Minute)
		w.answered(first, workload.StateOK)
		second := network(day, 0)
		w.answered(second, workload.StateOK)
		older := network(day, 30*time.Second)
		if r := w.answered(older, workload.StateError); !strings.Contains(r.Error, second) {
			t.Fatalf("an older one is answered %q", r.Error)
		}
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		if got := <-n.engine.Counters(ctx); got.Network != 1 {
			t.Fatalf("counters are %+v, want one network", got)
		}

		time.Sleep(2 * time.Hour) // the first reservation's end doesn't end the network
		w.answered(first, workload.StateExpired)
		third := network(day, 0)
		w.answered(third, workload.StateOK)
		for _, call := range prov.calls() {
			if strings.HasPrefix(call, "decommission") {
				t.Fatalf("calls are %v", prov.calls())
			}
		}

		w.remove(third) // the newest reservation's end does; the network doesn't fall back to an older one
		w.answered(third, workload.StateDeleted)
		w.until("the second has ended with it", func() bool { return w.phase(second) == store.Ended })
		before := len(prov.calls())
		w.restart(n)
		time.Sleep(2 * time.Hour)
		if calls := prov.calls(); len(calls) != before || calls[before-1] != "decommission "+third {
			t.Fatalf("calls are %v", calls)
		}
		back := network(day, 3*time.Hour)
		w.answered(back, workload.StateError)
	})
}

func TestADeployedWorkloadIsNeverGivenUp(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *world, n *incarnation) {
		id := w.volume(yearLong)
		w.answered(id, workload.StateOK)
		w.storage.lose(id)
		w.storage.failing("create "+id, slices.Repeat([]error{node.Errorf(node.NoSpace, "cannot create: the pool is broken")}, 8)...)
		w.restart(n)
		w.answered(id, workload.StateError)
		w.answered(id, workload.StateOK)
		if w.phase(id) != store.Deployed || len(w.storage.names()) != 1 {
			t.Fatalf("phase %s, volumes %v", w.phase(id), w.storage.names())
		}
	})
}

func TestVanishedWorkloadIsRecreated(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *world, _ *incarnation) {
		id := w.volume(yearLong)
		w.answered(id, workload.StateOK)
		w.storage.lose(id)
		time.Sleep(2 * time.Hour)
		if len(w.storage.names()) != 1 || len(w.explorer.all(id)) != 1 {
			t.Fatalf("volumes %v, told %d times", w.storage.names(), len(w.explorer.all(id)))
		}
	})
}

func TestARecordWhoseSignatureFailsIsLeftAlone(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *world, n *incarnation) {
		id := w.volume(yearLong)
		w.answered(id, workload.StateOK)
		rec, err := w.records.Record(id)
		if err != nil {
			t.Fatal(err)
		}
		tampered := *rec.Reservation
		tampered.Data = json.RawMessage(`{"size":100,"type":"SSD"}`)
		rec.Reservation = &tampered
		if _, err := w.records.Write(rec); err != nil {
			t.Fatal(err)
		}
		w.storage.lose(id)
		w.restart(n)
		time.Sleep(2 * time.Hour)
		if len(w.storage.names()) != 0 || w.phase(id) != store.Deployed {
			t.Fatalf("volumes %v, phase %s", w.storage.names(), w.phase(id))
		}
	})
}

func TestTombstonesGoWithTheirSignedEnd(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *world, _ *incarnation) {
		id := w.volume(func(r *workload.Reservation) { r.Duration = 2 * day })
		w.answered(id, workload.StateOK)
		w.remove(id)
		w.answered(id, workload.StateDeleted)
		time.Sleep(day)
		if w.phase(id) != store.Ended {
			t.Fatalf("phase is %s", w.phase(id))
		}
		time.Sleep(day + time.Minute)
		if _, err := w.records.Record(id); node.KindOf(err) != node.NotExist {
			t.Fatalf("still there after its signed end: %v", err)
		}
	})
}
