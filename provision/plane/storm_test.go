package plane

import (
	"context"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cosi-project/runtime/pkg/controller"
	"github.com/cosi-project/runtime/pkg/resource"
	"github.com/cosi-project/runtime/pkg/state"
	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/pkg/resources/work"
	"github.com/croft-edge/croft/pkg/workload"
)

// TestAStormOfChanges: however many things change at once, and on one processor, the controllers, whose inputs they are, run on.
func TestAStormOfChanges(t *testing.T) {
	const many = 4000
	for _, processors := range []int{1, 2} {
		t.Run(fmt.Sprintf("%d processors", processors), func(t *testing.T) {
			defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(processors))
			p := open(t, Config{})
			engine := newEngine()
			looks := make(chan struct{}, 1)
			p.Add(engine, &probe{name: "Looker", inputs: []controller.Input{weak(&work.Workload{}), weak(&work.Event{})}, do: func(context.Context, controller.Runtime) error {
				rouse(looks)
				return nil
			}})
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- p.Run(ctx) }()
			var all []work.WorkloadSpec
			for i := range many {
				all = append(all, work.WorkloadSpec{ID: fmt.Sprintf("%d-1", i+1), Type: workload.TypeVolume, User: userID, Phase: "deployed"})
				engine.Event(work.EventSpec{Kind: work.Warning, Reason: work.ReasonDrifted, Object: fmt.Sprintf("volume/%d-1", i+1), User: userID, Last: time.Now()})
			}
			engine.Workloads(all, nil)
			engine.Workloads(nil, nil) // all are there
			until(t, "all are shown", func() bool { return len(ended) > 0 || engine.Restored() })
			<-looks
			cancel()
			if n := engine.Dropped(); n > many-mostPending {
				t.Errorf("%d events were dropped, of %d", n, many)
			}
			if err := <-ended; err != nil {
				t.Error(err)
			}
			if err := p.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestOrdersDoNotWaitForAStorm: what else the engine's controller has to do is done between turns of the workloads that are shown.
func TestOrdersDoNotWaitForAStorm(t *testing.T) {
	p := open(t, Config{})
	o := &operator{}
	engine := NewEngine(EngineConfig{Orders: o, ClockChanged: func() {}, Log: zerolog.Nop()})
	p.Add(engine)
	run(t, p)
	const many = 40 * turn // more than three seconds
	var all []work.WorkloadSpec
	for i := range many {
		all = append(all, work.WorkloadSpec{ID: fmt.Sprintf("%05d-1", i+1), Type: workload.TypeVolume, User: userID, Phase: "deployed"})
	}
	engine.Workloads(all, nil)
	engine.Workloads(nil, nil)
	give(t, p, "1-1")
	until(t, "the order is begun", func() bool { return o.has(&o.begun, "1-1") })
	if engine.Restored() {
		t.Error("it is begun when all are shown")
	}
	until(t, "all are shown", engine.Restored)
	if shown, err := p.State().List(t.Context(), work.NewWorkload("").Metadata()); err != nil || len(shown.Items) != many {
		t.Errorf("%d are shown, %v", len(shown.Items), err)
	}
}

// panicking panics at its first increment.
type panicking struct {
	workload.Counter
	done atomic.Bool
}

func (p *panicking) Increment() int64 {
	if p.done.CompareAndSwap(false, true) {
		panic("for the test")
	}
	return p.Counter.Increment()
}

// TestAFailedRecorderIsStarted: what writes events fails while workloads are being shown. The controller is started again, and isn't taken for one that the
// node has stopped.
func TestAFailedRecorderIsStarted(t *testing.T) {
	p := open(t, Config{})
	engine := newEngine()
	counter := &panicking{Counter: engine.events.dropped}
	engine.events.dropped = counter
	p.Add(engine)
	// An event whose resource another has made can't be written, and is counted as dropped.
	taken := work.EventSpec{Kind: work.Warning, Reason: work.ReasonDrifted, Object: "volume/1-1", User: userID, Last: time.Now()}
	foreign := work.NewEvent(fmt.Sprintf("%s-%d", eventKey(taken), taken.Last.UnixNano()), taken)
	if err := p.State().Create(t.Context(), foreign, state.WithCreateOwner("another")); err != nil {
		t.Fatal(err)
	}
	run(t, p)
	var all []work.WorkloadSpec
	for i := range 40 * turn { // more than three seconds
		all = append(all, work.WorkloadSpec{ID: fmt.Sprintf("%05d-1", i+1), Type: workload.TypeVolume, User: userID, Phase: "deployed"})
	}
	engine.Workloads(all, nil)
	engine.Workloads(nil, nil)
	until(t, "some are shown", func() bool { return get(t, p, all[0].ID) != nil })
	engine.Event(taken)
	until(t, "the recorder fails", counter.done.Load)
	if engine.Restored() {
		t.Error("it fails when all are shown")
	}
	until(t, "all are shown", engine.Restored)
}

// TestAnObserverRestsForItsLookAlone: what it has seen is written at a bounded rate, and waiting for that isn't work that it must rest from.
func TestAnObserverRestsForItsLookAlone(t *testing.T) {
	p := open(t, Config{})
	var seen []resource.Resource
	for i := range 2000 {
		seen = append(seen, work.NewOrphan(work.OrphanSpec{ID: fmt.Sprintf("%d-1", i+1), Type: workload.TypeVolume}))
	}
	o := &Observer{Of: &work.Orphan{}, Log: zerolog.Nop(), Look: func(context.Context) ([]resource.Resource, error) { return seen, nil }}
	type times struct{ look, whole time.Duration }
	measured := make(chan times, 1)
	p.Add(&probe{name: "Looker", outputs: o.Outputs(), do: func(ctx context.Context, r controller.Runtime) error {
		began := time.Now()
		look, err := o.look(ctx, r)
		if err == nil {
			measured <- times{look, time.Since(began)}
		}
		return err
	}})
	run(t, p)
	least := time.Second * (2000 - changesAtOnce) / changesPerSecond
	if is := <-measured; is.whole < least/2 || is.look > is.whole/4 {
		t.Errorf("the look took %s of %s; what was seen can be written in %s at least", is.look, is.whole, least)
	}
}
