package plane

import (
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cosi-project/runtime/pkg/controller"
	"github.com/cosi-project/runtime/pkg/resource"
	"github.com/cosi-project/runtime/pkg/safe"
	"github.com/pkg/errors"
	"github.com/rs/zerolog"
	"go.uber.org/zap"

	"github.com/croft-edge/croft/pkg/resources"
	"github.com/croft-edge/croft/pkg/resources/host"
	"github.com/croft-edge/croft/pkg/resources/work"
	"github.com/croft-edge/croft/pkg/supervise"
	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/lifecycle"
)

// EngineConfig configures an Engine.
type EngineConfig struct {
	// Orders carries the operator's orders out.
	Orders Orders
	// Needs are the modules, on the bus, that workloads of each type need: the engine holds those that a workload
	// on the node needs. Held is called when it holds or has released one.
	Needs map[workload.Type][]string
	Held  func()
	// ClockChanged tells the engine that the trust in the node's time has changed. It doesn't block.
	ClockChanged func()
	Log          zerolog.Logger
}

// Engine is the controller of what the engine decides: it shows workloads, orphans and events, and has the engine
// carry orders out. The engine's thread is its own: it hands over what is to be shown by the methods of
// engine.Board, which wait for nothing, and never reads a resource.
type Engine struct {
	cfg    EngineConfig
	orders *orderDesk
	events *recorder
	wake   chan struct{}

	mu sync.Mutex
	// shown and gone are the workloads to show and to remove; one is in one of them at most.
	shown map[string]work.WorkloadSpec
	gone  map[string]bool
	// orphans are to be shown unless nil.
	orphans *[]work.OrphanSpec
	// restored is whether the engine has handed over all that it has restored; see Restored.
	restored bool
	// present are the workloads of which something is or will be on the node.
	present present

	// shows is whether what it has restored is shown.
	shows atomic.Bool
	// ended are the shown tombstones; for the controller alone.
	ended tombstones
}

// NewEngine makes the controller.
func NewEngine(c EngineConfig) *Engine {
	if c.Held == nil {
		c.Held = func() {}
	}
	e := &Engine{cfg: c, events: newRecorder(c.Log), wake: make(chan struct{}, 1), shown: map[string]work.WorkloadSpec{}, gone: map[string]bool{}, present: newPresent(), ended: tombstones{}}
	e.orders = newOrderDesk(c.Orders, c.Log, e.kick)
	return e
}

// Workloads implements engine.Board.
func (e *Engine) Workloads(shown []work.WorkloadSpec, gone []string) {
	e.mu.Lock()
	for _, s := range shown {
		delete(e.gone, s.ID)
		e.shown[s.ID] = s
		if phase := lifecycle.Phase(s.Phase); phase.Tombstone() || phase == lifecycle.Waiting {
			e.present.remove(s.ID)
		} else {
			e.present.add(s.ID, s.Type)
		}
	}
	for _, id := range gone {
		delete(e.shown, id)
		e.gone[id] = true
		e.present.remove(id)
	}
	e.restored = e.restored || len(shown)+len(gone) == 0
	e.mu.Unlock()
	e.kick()
}

// Restored reports whether all workloads are shown that the engine had when it started.
func (e *Engine) Restored() bool { return e.shows.Load() }

// Orphans implements engine.Board.
func (e *Engine) Orphans(all []work.OrphanSpec) {
	e.mu.Lock()
	e.orphans = &all
	e.mu.Unlock()
	e.kick()
}

// Event implements engine.Board.
func (e *Engine) Event(s work.EventSpec) { e.events.add(pendingEvent{EventSpec: s}) }

// EventAfter is Event of what ends what an event of the same object with another reason has begun, perhaps in an earlier process: it is written only if
// such an event has a later date than the last one with the reason of s. An end that was dated by a clock that was ahead hides a later beginning.
func (e *Engine) EventAfter(reason string, s work.EventSpec) {
	e.events.add(pendingEvent{EventSpec: s, after: reason})
}

// Dropped counts the events that weren't recorded: there were too many at a time.
func (e *Engine) Dropped() int64 { return e.events.dropped.Current() }

func (e *Engine) kick() {
	select {
	case e.wake <- struct{}{}:
	default:
	}
}

// Name implements controller.Controller.
func (e *Engine) Name() string { return "Engine" }

// Inputs implements controller.Controller.
func (e *Engine) Inputs() []controller.Input {
	return []controller.Input{strong(&work.Order{}), strong(&host.Module{}), weak(&host.Clock{})}
}

// Outputs implements controller.Controller.
func (e *Engine) Outputs() []controller.Output {
	return []controller.Output{
		{Type: work.WorkloadsType, Kind: controller.OutputExclusive},
		{Type: work.OrphansType, Kind: controller.OutputExclusive},
		{Type: work.OrdersType, Kind: controller.OutputShared},
		{Type: work.EventsType, Kind: controller.OutputShared},
	}
}

// Run implements controller.Controller. Events are written beside the rest.
func (e *Engine) Run(ctx context.Context, r controller.Runtime, _ *zap.Logger) error {
	ctx, cancel := context.WithCancel(ctx)
	recorded := make(chan error, 1)
	go supervise.Do(e.cfg.Log, "events", func() {
		defer cancel()
		recorded <- guarded(e.cfg.Log, "events", func() error { return e.events.run(ctx, r) })
	})
	err := guarded(e.cfg.Log, "state of the engine", func() error { return e.run(ctx, r) })
	cancel()
	e.orders.stop()
	if late := <-recorded; err == nil || late != nil && errors.Is(err, context.Canceled) {
		err = late // the library takes a cancellation for the node's end, and wouldn't start the controller again
	}
	return err
}

func (e *Engine) run(ctx context.Context, r controller.Runtime) error {
	clock := ""
	for {
		// A module that workloads need is held also while they aren't shown yet, or can't be.
		if err := e.hold(ctx, r); err != nil {
			return err
		}
		some, more, err := e.show(ctx, r)
		if err != nil {
			return err
		}
		if err := e.orders.handle(ctx, r); err != nil {
			return err
		}
		if now := trust(ctx, r); now != clock {
			clock = now
			e.cfg.ClockChanged()
		}
		r.ResetRestartBackoff()
		if some && !more {
			e.rest(ctx, gather, r.EventCh())
		}
		if ctx.Err() != nil {
			return nil
		}
		if some {
			continue // an input may have ended the pause
		}
		later, stop := e.orders.later()
		select {
		case <-ctx.Done():
		case <-later:
		case <-e.wake:
		case <-r.EventCh():
		}
		if stop(); ctx.Err() != nil {
			return nil
		}
	}
}

// gather is the pause after something was shown. What the engine does with workloads meanwhile is shown together; without it, each step of a
// busy engine would be written.
const gather = 20 * time.Millisecond

// rest waits for what comes next, and ends early with an input that has changed, or when workloads of other types are present: they may need other
// modules than those that are held.
func (e *Engine) rest(ctx context.Context, pause time.Duration, inputs <-chan controller.ReconcileEvent) {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	case <-inputs:
	case <-e.present.changed:
	}
}

// needed are the modules that workloads on the node need.
func (e *Engine) needed() map[string]bool {
	out := map[string]bool{}
	e.mu.Lock()
	defer e.mu.Unlock()
	for t := range e.present.count {
		for _, name := range e.cfg.Needs[t] {
			out[name] = true
		}
	}
	return out
}

// hold has its finalizer on the needed modules, and on no other.
func (e *Engine) hold(ctx context.Context, r controller.Runtime) error {
	needed := e.needed()
	modules, err := safe.ReaderListAll[*host.Module](ctx, r)
	if err != nil {
		return errors.Wrap(err, "cannot list the modules")
	}
	for m := range modules.All() {
		md := m.Metadata()
		held := md.Finalizers().Has(engineFinalizer)
		switch {
		case needed[md.ID()] == held:
			continue
		case held:
			err = r.RemoveFinalizer(ctx, md, engineFinalizer)
		default:
			err = r.AddFinalizer(ctx, md, engineFinalizer)
		}
		if ignoreMissing(err) != nil {
			return errors.Wrapf(err, "cannot hold or release the module %s", md.ID())
		}
		e.cfg.Held()
	}
	return nil
}

// trust is what the clock is trusted for, empty while that isn't known.
func trust(ctx context.Context, r controller.Reader) string {
	c, err := safe.ReaderGetByID[*host.Clock](ctx, r, host.Node)
	if err != nil {
		return ""
	}
	return c.TypedSpec().Level
}

// turn is how many workloads are written before the controller does what else it has to do: a change takes time, see changesPerSecond.
const turn = 256

// show writes what the engine has handed over since, or a turn of it. What wasn't written stays to be shown.
// some is whether there was something, more whether there still is.
func (e *Engine) show(ctx context.Context, r controller.ReaderWriter) (some, more bool, err error) {
	e.mu.Lock()
	shown, gone, orphans, restored := e.shown, e.gone, e.orphans, e.restored
	e.shown, e.gone, e.orphans = map[string]work.WorkloadSpec{}, map[string]bool{}, nil
	e.mu.Unlock()
	some = len(shown)+len(gone) > 0
	more, err = e.showAll(ctx, r, shown, gone)
	if err == nil && !more && orphans != nil {
		if err = e.showOrphans(ctx, r, *orphans); err == nil {
			orphans = nil
		}
	}
	if err != nil || more {
		e.giveBack(shown, gone, orphans)
	} else if restored {
		e.shows.Store(true)
	}
	return some, more, err
}

// giveBack keeps what wasn't shown, unless there is something newer.
func (e *Engine) giveBack(shown map[string]work.WorkloadSpec, gone map[string]bool, orphans *[]work.OrphanSpec) {
	e.mu.Lock()
	defer e.mu.Unlock()
	newer := func(id string) bool {
		_, again := e.shown[id]
		return again || e.gone[id]
	}
	for id, s := range shown {
		if !newer(id) {
			e.shown[id] = s
		}
	}
	for id := range gone {
		if !newer(id) {
			e.gone[id] = true
		}
	}
	if e.orphans == nil {
		e.orphans = orphans
	}
}

// showAll writes a turn of workloads; those that it has written are deleted from the maps. It reports whether there are more.
func (e *Engine) showAll(ctx context.Context, r controller.ReaderWriter, shown map[string]work.WorkloadSpec, gone map[string]bool) (more bool, err error) {
	written := 0
	for _, id := range slices.Concat(slices.Sorted(maps.Keys(gone)), e.ended.oldest(shown)) {
		if written == turn {
			return true, nil
		}
		if err := e.remove(ctx, r, id); err != nil {
			return false, err
		}
		delete(gone, id)
		delete(shown, id)
		written++
	}
	for _, id := range slices.Sorted(maps.Keys(shown)) {
		if written == turn {
			return true, nil
		}
		if err := e.showOne(ctx, r, shown[id]); err != nil {
			return false, err
		}
		delete(shown, id)
		written++
	}
	return false, nil
}

// showOne writes a workload. Its finalizers are its users; it is being torn down from when it leaves the node.
func (e *Engine) showOne(ctx context.Context, r controller.ReaderWriter, s work.WorkloadSpec) error {
	phase := lifecycle.Phase(s.Phase)
	leaves := phase == lifecycle.Leaving || phase.Tombstone()
	next := work.NewWorkload(s.ID)
	if was, err := r.Get(ctx, next.Metadata()); err == nil && was.Metadata().Phase() == resource.PhaseTearingDown && !leaves {
		// It is wanted again, and a resource that is being torn down can't come back.
		if err := e.remove(ctx, r, s.ID); err != nil {
			return err
		}
	}
	*next.TypedSpec() = s
	for key, value := range map[string]string{
		resources.LabelUser: s.User, resources.LabelType: string(s.Type), resources.LabelPool: s.Pool, resources.LabelNetwork: s.Network,
	} {
		if value != "" {
			next.Metadata().Labels().Set(key, value)
		}
	}
	err := r.Modify(ctx, next, func(is resource.Resource) error {
		set(is, next)
		is.Metadata().Finalizers().Set(s.Users)
		return nil
	}, controller.WithExpectedPhaseAny())
	if err == nil && leaves {
		_, err = r.Teardown(ctx, next.Metadata())
	}
	if err != nil {
		return errors.Wrapf(err, "cannot show workload %s", s.ID)
	}
	delete(e.ended, s.ID)
	if phase.Tombstone() {
		e.ended[s.ID] = buried{s.ResultAt, phase}
	}
	return nil
}

// remove destroys a workload's resource.
func (e *Engine) remove(ctx context.Context, r controller.ReaderWriter, id string) error {
	empty := work.NewWorkload(id)
	was, err := r.Get(ctx, empty.Metadata())
	if err == nil && !was.Metadata().Finalizers().Empty() {
		err = r.Modify(ctx, empty, func(is resource.Resource) error {
			is.Metadata().Finalizers().Set(nil)
			return nil
		}, controller.WithExpectedPhaseAny())
	}
	if err == nil {
		err = r.Destroy(ctx, empty.Metadata())
	}
	if ignoreMissing(err) != nil {
		return errors.Wrapf(err, "cannot remove workload %s", id)
	}
	delete(e.ended, id)
	return nil
}

func (e *Engine) showOrphans(ctx context.Context, r controller.ReaderWriter, all []work.OrphanSpec) error {
	out := make([]resource.Resource, 0, len(all))
	for _, s := range all {
		out = append(out, work.NewOrphan(s))
	}
	return show(ctx, r, &work.Orphan{}, out)
}
