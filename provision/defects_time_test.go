package provision_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/provisioner"
	"github.com/croft-edge/croft/provision/store"
)

// forged returns r with a renewal that its user never signed.
func forged(w *world, r *workload.Reservation, expires time.Time) *workload.Reservation {
	w.t.Helper()
	c := *r
	if err := c.SignRenewal(workload.Renewal{Expires: expires.Add(time.Second)}, w.user.Private()); err != nil {
		w.t.Fatal(err)
	}
	c.Renewal.Expires = expires
	return &c
}

// A document with a forged renewal whose end had come was answered "deleted"; its tombstone
// had the forged end and was buried by it.
func TestAForgedRenewalEndsNothing(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *world, n *incarnation) {
		id := w.explorer.push(forged(w, w.reserve(workload.TypeVolume, `{"size":1,"type":"SSD"}`, monthLong), w.clock.wall().Add(-time.Hour)))
		w.answered(id, workload.StateOK)
		end := w.record(id).Reservation.Expires()
		for _, at := range []time.Duration{-time.Hour, time.Minute, 300 * day} {
			w.explorer.change(id, func(r *workload.Reservation) { *r = *forged(w, r, time.Now().Add(at)) })
			w.handled()
			time.Sleep(time.Hour)
			w.restart(n)
			if rec := w.record(id); rec.Phase != store.Deployed || !rec.Reservation.Expires().Equal(end) || rec.Pending != nil {
				t.Fatalf("a forged end in %s makes it %s until %s, signed is %s", at, rec.Phase, rec.Reservation.Expires(), end)
			}
		}
	})
}

// The tombstone of a reservation deleted before it arrived had the end of an unchecked
// renewal: it was buried by that, and the reservation came again.
func TestATombstoneHasItsSignedEnd(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *world, _ *incarnation) {
		genuine := w.reserve(workload.TypeVolume, `{"size":1,"type":"SSD"}`, monthLong)
		id := w.explorer.push(forged(w, w.deleted(genuine), w.clock.wall().Add(time.Minute)))
		w.answered(id, workload.StateDeleted)
		time.Sleep(day)
		if rec := w.record(id); !rec.Reservation.Expires().Equal(genuine.Expires()) {
			t.Fatalf("the tombstone's end is %s, signed is %s", rec.Reservation.Expires(), genuine.Expires())
		}
		w.explorer.pushAs(id, genuine) // without the deletion
		w.explorer.pushAs("77-1", genuine)
		w.handled()
		if names := w.storage.names(); len(names) != 0 || w.told(id, workload.StateOK) || w.told("77-1", workload.StateOK) {
			t.Fatalf("what was deleted is back: %v, %s", names, w.explorer)
		}
	})
}

// Tombstones and the newest of a name were buried by the explorer's time alone: once NTP
// had corrected it, deleted reservations came again and were deployed.
func TestTheExplorersTimeBuriesNothing(t *testing.T) {
	withNetworks(t, func(t *testing.T, w *world, n *incarnation, nets *namedNetworks) {
		volume := w.explorer.push(w.reserve(workload.TypeVolume, `{"size":1,"type":"SSD"}`, monthLong))
		old := w.explorer.push(w.netOf("net", yearLong))
		w.answered(volume, workload.StateOK)
		w.answered(old, workload.StateOK)
		time.Sleep(time.Minute)
		net := w.explorer.push(w.netOf("net", monthLong))
		w.answered(net, workload.StateOK)
		before := map[string]*workload.Reservation{}
		for _, id := range []string{volume, net, old} {
			before[id] = w.explorer.document(id)
		}
		w.remove(volume)
		w.remove(net)
		for id := range before {
			w.answered(id, workload.StateDeleted)
		}
		w.clock.byWord(400 * day)
		time.Sleep(day)
		w.restart(n)
		time.Sleep(day)
		w.clock.byNTP()
		time.Sleep(time.Minute)
		for id, r := range before { // replayed under its own ID and under another
			w.explorer.pushAs(id, r)
			w.explorer.pushAs("9"+id, r)
		}
		w.handled()
		if names := w.storage.names(); len(names) != 0 || nets.made("net") != "" {
			t.Fatalf("what was deleted is back: %v, %q", names, nets.made("net"))
		}
		for id := range before {
			if w.phase(id) != store.Ended {
				t.Errorf("the tombstone of %s is %s", id, w.phase(id))
			}
		}
	})
}

// A renewal that arrived while the workload was held was ignored: at the next
// proof of the old end its data was removed.
func TestARenewalWhileHeldKeepsTheData(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *world, n *incarnation) {
		id := w.volume(nil)
		w.answered(id, workload.StateOK)
		w.clock.byWord(2 * day)
		w.until("it is held", func() bool { return w.phase(id) == store.Held })
		w.renew(id, w.clock.wall().Add(20*day))
		w.until("it is back", func() bool { return w.phase(id) == store.Deployed })
		w.clock.byNTP()
		for range 10 {
			time.Sleep(day)
			w.restart(n)
		}
		if w.phase(id) != store.Deployed || w.storage.creations(id) != 1 || len(w.storage.names()) != 1 {
			t.Fatalf("after the old end it is %s, made %d times", w.phase(id), w.storage.creations(id))
		}
	})
}

// A renewal that only a trusted time could judge was kept in memory alone, while the cursor
// moved on: a restart lost it, and the data went at the old end.
func TestARenewalThatWaitsForTrustedTimeOutlivesARestart(t *testing.T) {
	for name, without := range map[string]func(w *world){
		"no time at all":            func(w *world) { w.clock.set(-30*365*day, false, false) },
		"the explorer's word alone": func(w *world) { w.clock.byWord(-300 * day) },
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) { w.limits.Look, w.limits.Drift, w.poll = time.Hour, day, time.Hour }, func(t *testing.T, w *world, n *incarnation) {
				id := w.explorer.push(w.reserve(workload.TypeVolume, `{"size":1,"type":"SSD"}`, yearLong))
				w.answered(id, workload.StateOK)
				without(w)
				time.Sleep(200 * day)
				w.renew(id, w.clock.began.Add(420*day)) // more than 365 days after the node's last trusted time
				w.until("it is kept", func() bool { return w.record(id).Pending != nil })
				w.restart(n)
				time.Sleep(120 * day) // the old end is proven by the node's uptime
				w.restart(n)
				time.Sleep(day)
				if rec := w.record(id); rec.Pending == nil || len(w.storage.names()) != 1 || w.told(id, workload.StateExpired) {
					t.Fatalf("past the old end it is %s, pending %v, volumes %v", rec.Phase, rec.Pending, w.storage.names())
				}
				w.clock.byNTP()
				time.Sleep(2 * time.Hour)
				w.until("it is renewed", func() bool { return w.phase(id) == store.Deployed })
				if w.storage.creations(id) != 1 || !w.record(id).Reservation.Expires().Equal(w.clock.began.Add(420*day)) {
					t.Fatalf("made %d times, until %s", w.storage.creations(id), w.record(id).Reservation.Expires())
				}
				time.Sleep(100 * day)
				w.answered(id, workload.StateExpired)
			})
		})
	}
}

// A renewal of a volume that had expired, and still waited for its container to go, came
// too late for the old engine, though nothing had been removed yet.
func TestARenewalOfAnExpiredVolumeThatStillWaitsKeepsIt(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *world, n *incarnation) {
		id := w.volume(nil)
		w.answered(id, workload.StateOK)
		w.storage.failing("release "+id, slices.Repeat([]error{node.Errorf(node.Busy, "cannot release: a container mounts it")}, 10000)...)
		time.Sleep(day + time.Minute)
		w.until("it waits for its container", func() bool { return w.phase(id) == store.Blocked })
		w.restart(n)
		w.renew(id, w.clock.wall().Add(10*day))
		w.until("it is back", func() bool { return w.phase(id) == store.Deployed })
		w.storage.failing("release " + id)
		time.Sleep(5 * day)
		if w.phase(id) != store.Deployed || len(w.storage.names()) != 1 || w.told(id, workload.StateExpired) {
			t.Fatalf("it is %s, volumes %v", w.phase(id), w.storage.names())
		}
		time.Sleep(6 * day)
		w.answered(id, workload.StateExpired)
	})
}

// The same while the storage module hangs: no removal was even requested.
func TestARenewalOfAnExpiredVolumeWhoseModuleHangsKeepsIt(t *testing.T) {
	inWorld(t, func(w *world) { w.limits.Decommission = 10 * time.Second }, func(t *testing.T, w *world, _ *incarnation) {
		other := w.volume(func(r *workload.Reservation) { r.Duration = day - time.Minute })
		id := w.volume(nil)
		w.answered(other, workload.StateOK)
		w.answered(id, workload.StateOK)
		back := make(chan struct{})
		answer := sync.OnceFunc(func() { close(back) })
		defer answer()
		w.storage.hooked(func(call string) {
			if call == "release "+other {
				<-back
			}
		})
		time.Sleep(day + 10*time.Minute)
		if w.phase(id).Wanted() {
			t.Fatalf("at its end it is %s", w.phase(id))
		}
		w.renew(id, w.clock.wall().Add(10*day))
		w.until("it has heard", func() bool { return w.record(id).Reservation.Renewal != nil })
		w.storage.hooked(nil)
		answer()
		w.answered(other, workload.StateExpired)
		w.until("it is back", func() bool { return w.phase(id) == store.Deployed })
		if w.storage.creations(id) != 1 {
			t.Fatal("its data was removed")
		}
	})
}

// A renewal can't bring back data that a volume's decommission may have removed, and
// mustn't stop the decommission half way.
func TestRenewalDuringRemoval(t *testing.T) {
	inWorld(t, func(w *world) { w.limits.Decommission = 10 * time.Second }, func(t *testing.T, w *world, _ *incarnation) {
		id := w.volume(nil)
		w.answered(id, workload.StateOK)
		w.storage.failing("release "+id, slices.Repeat([]error{node.Errorf(node.Unknown, "cannot release: no answer")}, 6)...)
		time.Sleep(day)
		w.until("its removal is uncertain", func() bool { rec, err := w.records.Record(id); return err == nil && rec.Removing })
		w.renew(id, w.clock.wall().Add(10*day))
		w.answered(id, workload.StateExpired)
		if len(w.storage.names()) != 0 {
			t.Fatalf("left behind: %v", w.storage.names())
		}
	})
}

// A grace period that began at a wrong past time was over within minutes, once the time was right.
func TestAGraceBegunByAWrongTimeIsAsLong(t *testing.T) {
	for name, wrong := range map[string]func(w *world){
		"the explorer's word":     func(w *world) { w.clock.byWord(-40 * day) },
		"a clock without a level": func(w *world) { w.clock.set(-40*day, false, false) },
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) { w.storage.disk.Put(node.Filesystem{Name: "77-1"}); wrong(w) }, func(t *testing.T, w *world, n *incarnation) {
				w.clock.byNTP()
				id := w.volume(yearLong)
				w.answered(id, workload.StateOK)
				wrong(w)
				w.restart(n)
				if err := n.engine.Evict(context.Background(), id); err != nil {
					t.Fatal(err)
				}
				w.answered(id, workload.StateEvicted)
				w.clock.byNTP()
				for range 6 {
					time.Sleep(day)
					w.restart(n)
				}
				if names := w.storage.names(); !slices.Equal(names, []string{id, "77-1"}) {
					t.Fatalf("after six days on the node is %v", names)
				}
				time.Sleep(day + 2*time.Hour)
				w.until("the grace is over", func() bool { return len(w.storage.names()) == 0 })
			})
		})
	}
}

// A stop that failed at an eviction was never retried, while the user had been told "evicted".
func TestAStopThatFailsAtAnEvictionIsTriedAgain(t *testing.T) {
	vm := &stubborn{}
	inWorld(t, func(w *world) {
		w.provisioners = map[workload.Type]provisioner.Provisioner{workload.TypeContainer: vm}
	}, func(t *testing.T, w *world, n *incarnation) {
		id := w.explorer.push(w.reserve(workload.TypeContainer, containerData, yearLong))
		w.answered(id, workload.StateOK)
		vm.refuse(5)
		if err := n.engine.Evict(context.Background(), id); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Second)
		if w.told(id, workload.StateEvicted) || w.phase(id) != store.Stopping {
			t.Fatalf("while it still runs it is %s; told %s", w.phase(id), w.explorer)
		}
		w.restart(n)
		w.answered(id, workload.StateEvicted)
		if got := count(vm.calls(), "stop"); got < 6 || w.phase(id) != store.Held {
			t.Fatalf("stopped %d times, is %s", got, w.phase(id))
		}
	})
}

// stubborn is a machine whose stop fails a given number of times.
type stubborn struct {
	machine
	left int
}

func (s *stubborn) refuse(times int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.left = times
}

func (s *stubborn) Stop(ctx context.Context, r *workload.Reservation) error {
	if err := s.machine.Stop(ctx, r); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.left > 0 {
		s.left--
		return node.Errorf(node.Internal, "cannot stop %s: it doesn't listen", r.ID)
	}
	return nil
}
