package provision_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/admit"
	"github.com/croft-edge/croft/provision/provisioner"
	"github.com/croft-edge/croft/provision/store"
)

// While images were fetched, admission didn't count the waiting reservations: 6 of 6 containers of one core
// were deployed on 2 cores, and a limit of 2 workloads per user had no effect.
func TestAdmissionCountsFetches(t *testing.T) {
	limited := admit.Defaults()
	limited.Workloads = 2
	for name, tt := range map[string]struct {
		offer  provisioner.Demand
		policy admit.Policy
		want   string
	}{
		"cores":            {provisioner.Demand{CPU: 2}, admit.Defaults(), "not enough CPU"},
		"workloads a user": {provisioner.Demand{CPU: 100}, limited, "at most 2"},
	} {
		t.Run(name, func(t *testing.T) {
			images := newFetching()
			inWorld(t, func(w *world) {
				w.provisioners = map[workload.Type]provisioner.Provisioner{workload.TypeContainer: images}
				w.admission = roomFor(t, tt.offer, tt.policy)
			}, func(t *testing.T, w *world, n *incarnation) {
				w.explorer.setAway(true) // so that all come in one page
				var ids []string
				for range 6 {
					ids = append(ids, w.container())
				}
				w.explorer.setAway(false)
				time.Sleep(10 * time.Second)
				w.restart(n)
				for _, id := range ids {
					images.arrived(id)
				}
				w.handledFor(ids)
				var made, refused int
				for _, id := range ids {
					switch r := w.explorer.result(id); {
					case r.State == workload.StateOK:
						made++
					case strings.Contains(r.Error, tt.want):
						refused++
					}
				}
				if made != 2 || refused != 4 {
					t.Fatalf("%d deployed and %d refused, want 2 and 4: %s", made, refused, w.explorer)
				}
			})
		})
	}
}

// handledFor waits until each reservation is answered.
func (w *world) handledFor(ids []string) {
	w.t.Helper()
	for _, id := range ids {
		w.until(id+" is answered", func() bool { return w.explorer.result(id) != nil })
	}
}

// A final error after an unknown one, or after a panic, forgot the workload on the node:
// its user got "error", later "deleted", and it still ran.
func TestAFinalErrorAfterAnUncertainOneLeavesNothingOnTheNode(t *testing.T) {
	for name, uncertain := range map[string]func(ctx context.Context) error{
		"unknown":  func(context.Context) error { return node.Errorf(node.Unknown, "cannot provision: no answer") },
		"a panic":  func(context.Context) error { panic("half made") },
		"too late": func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
	} {
		t.Run(name, func(t *testing.T) {
			prov := &fakeProvisioner{}
			prov.answer = func(ctx context.Context, r *workload.Reservation) (json.RawMessage, error) {
				if len(prov.calls()) > 1 {
					return nil, node.Errorf(node.Invalid, "cannot provision %s: never", r.ID)
				}
				prov.mu.Lock()
				prov.have = map[string]bool{r.ID: true} // the workload was made nevertheless
				prov.mu.Unlock()
				return nil, uncertain(ctx)
			}
			inWorld(t, func(w *world) {
				w.provisioners = map[workload.Type]provisioner.Provisioner{workload.TypeContainer: prov}
			}, func(t *testing.T, w *world, n *incarnation) {
				id := w.container()
				w.until("it has failed for good", func() bool { rec, err := w.records.Record(id); return err == nil && rec.Phase == store.Failed })
				if left, err := prov.List(context.Background()); err != nil || len(left) != 0 {
					t.Fatalf("on the node is %v, %v", left, err)
				}
				if r := w.answered(id, workload.StateError); !strings.Contains(r.Error, "never") {
					t.Errorf("its user is told %q", r.Error)
				}
				w.remove(id)
				w.answered(id, workload.StateDeleted)
			})
		})
	}
}

// The same when the node stops in the middle of an attempt with an unknown outcome.
func TestAFinalErrorAfterACrashLeavesNothingOnTheNode(t *testing.T) {
	prov := &fakeProvisioner{}
	inWorld(t, func(w *world) {
		w.limits.Shutdown = time.Second
		w.provisioners = map[workload.Type]provisioner.Provisioner{workload.TypeContainer: prov}
		prov.answer = func(ctx context.Context, r *workload.Reservation) (json.RawMessage, error) {
			prov.mu.Lock()
			prov.have = map[string]bool{r.ID: true}
			prov.mu.Unlock()
			<-ctx.Done()
			return nil, ctx.Err()
		}
	}, func(t *testing.T, w *world, n *incarnation) {
		id := w.container()
		w.until("it is begun", func() bool { return len(prov.calls()) == 1 })
		n.stop(t)
		prov.mu.Lock()
		prov.answer = func(context.Context, *workload.Reservation) (json.RawMessage, error) {
			return nil, node.Errorf(node.Invalid, "cannot provision: never")
		}
		prov.mu.Unlock()
		if err := w.records.Close(); err != nil {
			t.Fatal(err)
		}
		w.records = openStore(t, w.dir)
		*n = *w.start(newStepper(""))
		w.until("it has failed for good", func() bool { rec, err := w.records.Record(id); return err == nil && rec.Phase == store.Failed })
		if left, err := prov.List(context.Background()); err != nil || len(left) != 0 {
			t.Fatalf("on the node is %v, %v", left, err)
		}
	})
}

// Expiries ignored that their module hung: beside 50 expiries of one type, 20 volumes took
// 1 h 39 min.
func TestExpiriesOfATypeThatHangsHoldUpNoOther(t *testing.T) {
	const expiring, others = 50, 20
	prov := &fakeProvisioner{}
	inWorld(t, func(w *world) {
		w.provisioners = map[workload.Type]provisioner.Provisioner{workload.TypeContainer: prov}
	}, func(t *testing.T, w *world, n *incarnation) {
		var boxes []string
		for range expiring {
			boxes = append(boxes, w.explorer.push(w.reserve(workload.TypeContainer, containerData, func(r *workload.Reservation) { r.Duration = time.Hour })))
		}
		w.handledFor(boxes)
		leaving := w.volume(nil)
		w.answered(leaving, workload.StateOK)
		prov.mu.Lock()
		prov.decommission = func(ctx context.Context, _ *workload.Reservation) error { <-ctx.Done(); return ctx.Err() }
		prov.mu.Unlock()
		time.Sleep(time.Hour)
		w.until("they leave", func() bool { return count(prov.calls(), "decommission") > 0 })
		for _, id := range boxes[:25] {
			w.remove(id)
		}
		start := time.Now()
		var volumes []string
		for range others {
			volumes = append(volumes, w.volume(nil))
		}
		w.remove(leaving)
		for _, id := range volumes {
			w.answered(id, workload.StateOK)
		}
		w.answered(leaving, workload.StateDeleted)
		if took := time.Since(start); took > 5*time.Second {
			t.Errorf("20 volumes took %s beside a module that hangs", took)
		}
		time.Sleep(time.Hour)
		prov.mu.Lock()
		prov.decommission = nil
		prov.mu.Unlock()
		for _, id := range boxes {
			w.until(id+" has left", func() bool { r := w.explorer.result(id); return r != nil && workload.Ended(r.State) })
		}
	})
}

// Each workload that left made all waiting ones try again: 100 volumes whose containers
// went one after another were decommissioned 7,637 times.
func TestLeavingFreesOwnPartsOnly(t *testing.T) {
	const pairs = 100
	boxes, volumes := &fakeProvisioner{}, &fakeProvisioner{}
	uses := map[string]string{}
	volumes.decommission = func(ctx context.Context, r *workload.Reservation) error {
		used, err := boxes.List(ctx)
		if err != nil {
			return err
		}
		for _, box := range used {
			if uses[box] == r.ID {
				return node.Errorf(node.Busy, "cannot decommission %s: %s mounts it", r.ID, box)
			}
		}
		return nil
	}
	inWorld(t, func(w *world) {
		w.provisioners = map[workload.Type]provisioner.Provisioner{workload.TypeContainer: boxes, workload.TypeVolume: volumes}
	}, func(t *testing.T, w *world, _ *incarnation) {
		var users, used []string
		for range pairs {
			volume := w.volume(yearLong)
			w.answered(volume, workload.StateOK)
			data := fmt.Sprintf(`{"flist":"docker://example.com/a","network":{"network_id":"net","ips":["10.1.1.2"]},
				"capacity":{"cpu":1,"memory":64},"mounts":[{"volume_id":%q,"mountpoint":"/data"}]}`, volume)
			box := w.explorer.push(w.reserve(workload.TypeContainer, data, yearLong))
			uses[box] = volume
			w.answered(box, workload.StateOK)
			users, used = append(users, box), append(used, volume)
		}
		for _, id := range used {
			w.remove(id)
		}
		w.until("all volumes wait", func() bool { return w.records.Count(store.Blocked) == pairs })
		before := count(volumes.calls(), "decommission")
		for _, id := range users {
			w.remove(id)
			w.answered(id, workload.StateDeleted)
		}
		for _, id := range used {
			w.answered(id, workload.StateDeleted)
		}
		tried := count(volumes.calls(), "decommission") - before
		t.Logf("%d decommissions for %d volumes", tried, pairs)
		if tried > 3*pairs {
			t.Errorf("%d decommissions for %d volumes", tried, pairs)
		}
	})
}

// An abandoned step that came back raced with its record: each step gets its own copy of
// the reservation. Run with -race.
func TestAStepThatWasLeftBehindHasItsOwnReservation(t *testing.T) {
	var back chan struct{}
	var once sync.Once
	prov := &fakeProvisioner{}
	prov.answer = func(_ context.Context, r *workload.Reservation) (json.RawMessage, error) {
		late := false
		once.Do(func() {
			late = true
			<-back
			r.Renewal, r.Duration = nil, 0
			r.Data = json.RawMessage(`{}`)
		})
		if late {
			return json.RawMessage(`{"from":"the past"}`), nil
		}
		return nil, nil
	}
	inWorld(t, func(w *world) {
		back = make(chan struct{})
		w.limits.Provision = 10 * time.Second
		w.provisioners = map[workload.Type]provisioner.Provisioner{workload.TypeContainer: prov}
	}, func(t *testing.T, w *world, _ *incarnation) {
		id := w.container()
		w.until("it is left behind", func() bool { rec, err := w.records.Record(id); return err == nil && rec.Phase == store.Retry })
		end := w.clock.wall().Add(2 * day)
		w.renew(id, end)
		w.until("it is renewed", func() bool { return w.record(id).Reservation.Renewal != nil })
		close(back)
		r := w.answered(id, workload.StateOK)
		rec := w.record(id)
		if len(r.Data) != 0 || !rec.Reservation.Expires().Equal(end) || string(rec.Reservation.Data) == "{}" {
			t.Fatalf("told %s, the record is %+v", r.Data, rec.Reservation)
		}
	})
}

// pickyRecords refuse to keep one reservation.
type pickyRecords struct {
	*steppedRecords
	id string
}

func (p *pickyRecords) Write(recs ...store.Record) ([]store.Record, error) {
	if slices.ContainsFunc(recs, func(r store.Record) bool { return r.ID() == p.id }) {
		return nil, node.Errorf(node.Invalid, "cannot store record %s: it can't be kept", p.id)
	}
	return p.steppedRecords.Write(recs...)
}

// A document that the store refused stalled its whole page, with growing backoff.
func TestADocumentThatCannotBeKeptHoldsUpNoOther(t *testing.T) {
	inWorld(t, func(w *world) {
		w.wrap = func(r *steppedRecords) store.Records { return &pickyRecords{r, "2-1"} }
	}, func(t *testing.T, w *world, _ *incarnation) {
		w.explorer.setAway(true)
		one, bad, two := w.volume(nil), w.volume(nil), w.volume(nil)
		time.Sleep(time.Minute)
		w.explorer.setAway(false)
		start := time.Now()
		w.answered(one, workload.StateOK)
		w.answered(two, workload.StateOK)
		w.answered(w.volume(nil), workload.StateOK)
		if took := time.Since(start); took > 15*time.Second || !w.forgotten(bad) {
			t.Fatalf("took %s", took)
		}
		polls := w.explorer.asked()
		time.Sleep(time.Hour)
		if got := w.explorer.asked() - polls; got > 100 {
			t.Errorf("asked %d times in an hour", got)
		}
	})
}

// A final error about a deployed workload is retried: nothing of it is removed or given
// back, and its user isn't told that it has ended.
func TestFinalErrorKeepsDeployedWorkload(t *testing.T) {
	withFetching(t, func(t *testing.T, w *world, f *fetching, n *incarnation) {
		id := w.container()
		f.arrived(id)
		w.answered(id, workload.StateOK)
		f.fails(id, node.Errorf(node.Refused, "cannot use the image: it has another digest"))
		f.lose(id)
		w.answered(id, workload.StateError)
		w.restart(n)
		time.Sleep(time.Hour)
		if got := count(f.calls(), "decommission"); got != 0 || w.phase(id).Tombstone() {
			t.Fatalf("decommissioned %d times, it is %s", got, w.phase(id))
		}
		f.fails(id, nil)
		w.until("it is back", func() bool { return w.phase(id) == store.Deployed })
	})
}
