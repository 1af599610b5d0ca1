package provision_test

import (
	"context"
	"encoding/json"
	"sync"
	"testing"
	"time"

	"github.com/croft-edge/croft/pkg/clock"
	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision"
	"github.com/croft-edge/croft/provision/admit"
	"github.com/croft-edge/croft/provision/provisioner"
	"github.com/croft-edge/croft/provision/store"
)

// fuse panics as many times as it was lit for.
type fuse struct {
	mu  sync.Mutex
	lit int
}

func (f *fuse) light(times int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lit = times
}

func (f *fuse) burn() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.lit > 0 {
		f.lit--
		panic("a defect of this part")
	}
}

// spent reports whether all its panics have happened.
func (f *fuse) spent() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.lit == 0
}

// Each part of an engine that panics.
type (
	fusedFeedback struct {
		provision.Feedback
		run, kick *fuse
	}
	fusedRecords struct {
		*steppedRecords
		list, counters, write *fuse
	}
	fusedClock struct {
		*fakeClock
		read *fuse
	}
	fusedPolicy struct {
		provision.Policy
		authentic, acceptable *fuse
	}
	fusedAdmission struct {
		provision.Admission
		offer, admit *fuse
	}
)

func (f fusedFeedback) Run(ctx context.Context) error { f.run.burn(); return f.Feedback.Run(ctx) }
func (f fusedFeedback) Kick()                         { f.kick.burn(); f.Feedback.Kick() }

func (f fusedRecords) List() ([]store.Record, error) { f.list.burn(); return f.steppedRecords.List() }

func (f fusedRecords) OfType(t workload.Type) ([]store.Record, error) {
	f.list.burn()
	return f.steppedRecords.OfType(t)
}

func (f fusedRecords) Counters() workload.ProvisionCounters {
	f.counters.burn()
	return f.steppedRecords.Counters()
}

func (f fusedRecords) Write(recs ...store.Record) ([]store.Record, error) {
	f.write.burn()
	return f.steppedRecords.Write(recs...)
}

func (f fusedClock) Read() clock.Reading { f.read.burn(); return f.fakeClock.Read() }

func (f fusedPolicy) Authentic(r *workload.Reservation) error {
	f.authentic.burn()
	return f.Policy.Authentic(r)
}

func (f fusedPolicy) Acceptable(r *workload.Reservation) error {
	f.acceptable.burn()
	return f.Policy.Acceptable(r)
}

func (f fusedAdmission) Offer(ctx context.Context) (admit.Offer, error) {
	f.offer.burn()
	return f.Admission.Offer(ctx)
}

func (f fusedAdmission) Admit(r *workload.Reservation, user, all store.Usage, offer admit.Offer) error {
	f.admit.burn()
	return f.Admission.Admit(r, user, all, offer)
}

// fused is a node of a world in which every part may panic.
func (w *world) fused(fuses map[string]*fuse) *incarnation {
	w.t.Helper()
	of := func(name string) *fuse {
		fuses[name] = &fuse{}
		return fuses[name]
	}
	steps := newStepper("")
	c := w.config(steps)
	c.Records = fusedRecords{&steppedRecords{FSStore: w.records, steps: steps}, of("list"), of("counters"), of("write")}
	c.Feedback = fusedFeedback{c.Feedback, of("feedback"), of("kick")}
	c.Clock = fusedClock{w.clock, of("clock")}
	c.Policy = fusedPolicy{c.Policy, of("authentic"), of("acceptable")}
	c.Admission = fusedAdmission{roomFor(w.t, provisioner.Demand{CPU: 100, SSD: 100 * workload.GiB}, admit.Defaults()), of("offer"), of("admit")}
	engine, err := provision.NewEngine(c)
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	n := &incarnation{engine: engine, cancel: cancel, done: make(chan error, 1), steps: steps}
	go func() { n.done <- engine.Run(ctx) }()
	return n
}

// A panic in the loop, the counters, drift's comparison or the feedback ended the process:
// each is guarded now, and goes on.
func TestNodeSurvivesPanics(t *testing.T) {
	for _, part := range []string{"list", "counters", "write", "feedback", "kick", "clock", "authentic", "acceptable", "offer", "admit"} {
		t.Run(part, func(t *testing.T) {
			inWorld(t, func(w *world) { w.limits.Drift = 10 * time.Second }, func(t *testing.T, w *world, n *incarnation) {
				n.stop(t)
				fuses := map[string]*fuse{}
				*n = *w.fused(fuses)
				counting, stop := context.WithCancel(context.Background())
				defer stop()
				counters := n.engine.Counters(counting)
				before := w.volume(nil)
				w.answered(before, workload.StateOK)
				fuses[part].light(3)
				for range 4 {
					w.volume(nil)
					time.Sleep(20 * time.Second)
					<-counters
				}
				if part == "feedback" {
					fuses[part].light(0) // its Run doesn't end by itself
				}
				w.remove(before)
				w.answered(before, workload.StateDeleted)
				w.until("all is well", func() bool { return fuses[part].spent() && w.records.Count(store.Deployed) >= 4 || part == "authentic" })
				last := w.volume(nil)
				w.answered(last, workload.StateOK)
				if got := <-counters; part != "authentic" && got.Volume < 4 {
					t.Errorf("counters %+v", got)
				}
			})
		})
	}
}

// crowd counts the concurrent calls for one reservation.
type crowd struct {
	fakeProvisioner
	going, most int
}

func (c *crowd) Provision(ctx context.Context, r *workload.Reservation) (json.RawMessage, error) {
	c.mu.Lock()
	c.going++
	c.most = max(c.most, c.going)
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.going--
	}()
	time.Sleep(30 * time.Second) // ignoring its context
	return c.fakeProvisioner.Provision(ctx, r)
}

// When the loop restarted after a panic, the effects in flight went on beside newly started
// ones: two effects of one reservation at a time.
func TestRestartedLoopWaitsForEffectsInFlight(t *testing.T) {
	prov := &crowd{}
	inWorld(t, func(w *world) {
		w.limits.Shutdown = time.Minute
		w.provisioners = map[workload.Type]provisioner.Provisioner{workload.TypeContainer: prov}
	}, func(t *testing.T, w *world, n *incarnation) {
		n.stop(t)
		fuses := map[string]*fuse{}
		*n = *w.fused(fuses)
		id := w.container()
		time.Sleep(5 * time.Second)
		fuses["kick"].light(1)
		refused := w.explorer.push(w.reserve(workload.TypeVolume, `{"size":0,"type":"SSD"}`, nil))
		w.answered(refused, workload.StateError)
		w.answered(id, workload.StateOK)
		prov.mu.Lock()
		defer prov.mu.Unlock()
		if !fuses["kick"].spent() || prov.most != 1 {
			t.Fatalf("%d at a time for one reservation", prov.most)
		}
	})
}
