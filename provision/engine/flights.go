package engine

import (
	"fmt"
	"time"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/drift"
	"github.com/croft-edge/croft/provision/inflight"
	"github.com/croft-edge/croft/provision/lifecycle"
	"github.com/croft-edge/croft/provision/provisioner"
	"github.com/croft-edge/croft/provision/store"
	"github.com/croft-edge/croft/provision/uses"
)

// removeOrphan is the effect that no record asks for.
const removeOrphan lifecycle.EffectKind = "remove orphan"

// flight is one effect that waits or is in flight.
type flight struct {
	kind lifecycle.EffectKind
	rec  store.Record
	// orphan is the orphan to remove, for removeOrphan.
	orphan drift.Orphan
	// bound are the hashes of the workload's volumes, by ID, when the flight began.
	bound map[string]workload.Hash
	// place describes the others of its name, for DoProvision; nil when there are none.
	place *provisioner.Place
	// cancel ends it early; nil while it waits.
	cancel func()
	token  inflight.Token
	// queued is when it was requested, deadline when it is given up: zero while it waits.
	queued   time.Time
	deadline time.Time
}

// outcome is the result of a flight. A flight that is late gets an outcome with
// left set, and a second one with returned set when its goroutine ends.
type outcome struct {
	token    inflight.Token
	event    lifecycle.Event
	progress string
	left     bool
	returned bool
	// dropped is whether it failed because the node is stopping.
	dropped bool
}

// flights are the effects beside the engine's thread. start begins one; its
// outcome comes back as an event.
type flights struct {
	queue *inflight.Queue
	start func(f *flight)
	// closed is whether the node is stopping: no more effects are started.
	closed bool
	// changed is told the ID of a record whose effects have changed.
	changed func(id string)
}

func newFlights(provisioners map[workload.Type]provisioner.Provisioner) *flights {
	return &flights{queue: inflight.New(func(t workload.Type) int { return provisioner.Slots(provisioners[t]) }), changed: func(string) {}}
}

// begin queues an effect. It fails when an effect that this one would wait for was
// left behind.
func (f *flights) begin(one *flight) error {
	rec, id, keys := one.rec, one.rec.ID(), uses.Keys(one.rec.Reservation)
	if one.kind == removeOrphan {
		// It isn't an effect of the record with that ID, if there is one; it excludes that
		// record's effects, and removals of other orphans with the ID.
		id, keys = fmt.Sprintf("orphan %s %s %x", rec.Reservation.Type, id, one.orphan.Hash), []inflight.Key{{Name: "id " + id}}
	}
	for _, before := range f.queue.Of(id) {
		if before.Stuck() {
			return node.Errorf(node.Transient, "cannot %s %s: its last effect hasn't ended", one.kind, rec.ID())
		}
	}
	if t := rec.Reservation.Type; f.queue.Stalled(t) {
		return node.Errorf(node.Transient, "cannot %s %s: the provisioner of type %q doesn't answer", one.kind, rec.ID(), t)
	}
	task := &inflight.Task{
		ID: id, Type: rec.Reservation.Type, User: rec.Reservation.User, Keys: keys, Do: one,
	}
	one.token = f.queue.Add(task)
	f.tell(one)
	return nil
}

// tell says that a record's effects have changed.
func (f *flights) tell(one *flight) {
	if one.kind != removeOrphan {
		f.changed(one.rec.ID())
	}
}

// pump starts the effects that may start.
func (f *flights) pump() {
	if f.closed {
		return
	}
	for task := f.queue.Next(); task != nil; task = f.queue.Next() {
		one := task.Do.(*flight)
		f.start(one)
		f.tell(one)
	}
}

// cancel ends the running effects of an ID, and drops the waiting ones.
func (f *flights) cancel(id string) {
	for _, task := range append([]*inflight.Task(nil), f.queue.Of(id)...) {
		if !task.Running() {
			f.queue.End(task.Token())
			f.tell(task.Do.(*flight))
		} else if one := task.Do.(*flight); one.cancel != nil {
			one.cancel()
		}
	}
}

// flying reports whether an effect of an ID waits or is in flight.
func (f *flights) flying(id string) bool {
	for _, task := range f.queue.Of(id) {
		if !task.Stuck() {
			return true
		}
	}
	return false
}

// land handles an outcome. It returns the flight if its record is to get the
// event, and the flights that can't start because this one was left behind.
func (f *flights) land(o outcome) (one *flight, halted []*flight) {
	task := f.queue.Find(o.token)
	if task == nil {
		return nil, nil
	}
	f.tell(task.Do.(*flight))
	of := f.queue.Of(task.ID)
	latest := of[len(of)-1] == task
	if !o.left {
		f.queue.End(o.token)
	} else {
		f.queue.Leave(o.token)
		halted = f.halt(task)
	}
	if !latest || o.returned {
		return nil, halted
	}
	return task.Do.(*flight), halted
}

// halt removes the tasks that would wait for a task that was left behind.
func (f *flights) halt(left *inflight.Task) (halted []*flight) {
	waiting := append([]*inflight.Task(nil), f.queue.Of(left.ID)...)
	if f.queue.Stalled(left.Type) {
		waiting = append(waiting, f.queue.Waiting(left.Type)...)
	}
	for _, task := range waiting {
		if !task.Running() && f.queue.End(task.Token()) {
			halted = append(halted, task.Do.(*flight))
		}
	}
	return halted
}
