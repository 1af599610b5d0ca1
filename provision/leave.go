package provision

import (
	"context"
	"time"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/provisioner"
	"github.com/croft-edge/croft/provision/store"
)

// leave ends a workload: by its user's deletion, its expiry, or the node's owner.
func (e *NodeEngine) leave(ctx context.Context, rec store.Record, end workload.State) error {
	if e.unbegun(rec) {
		return e.entomb(rec, end)
	}
	rec.Phase = store.Leaving
	rec.End = end
	rec.Attempts = 0
	rec.Cause = ""
	rec.NextAttempt = time.Time{}
	if e.mustHold(rec) {
		return e.hold(ctx, rec)
	}
	return e.takeDown(ctx, rec)
}

// takeDown records that the workload is leaving, then decommissions it.
func (e *NodeEngine) takeDown(ctx context.Context, rec store.Record) error {
	rec.Attempts++
	if err := e.begin(rec); err != nil {
		return err
	}
	start := time.Now()
	err := e.decommission(ctx, rec)
	e.noteSlow(rec.Reservation.Type, time.Since(start) >= e.limits.Decommission)
	if ctx.Err() != nil && err != nil {
		return nil // the node is stopping: the record says that it is leaving
	}
	r := rec.Reservation
	e.log.Info().Str("id", r.ID).Str("type", string(r.Type)).Str("step", "decommission").Str("end", string(rec.End)).
		Int("attempts", rec.Attempts).Dur("took", time.Since(start)).AnErr("err", err).Msg("attempt ended")
	delete(e.waiting, r.ID)
	if err != nil {
		// Whatever the kind: something may still be there, so it isn't given up.
		if node.KindOf(err) == node.Busy {
			e.waiting[r.ID] = r.Type
		}
		rec.Cause = err.Error()
		rec.NextAttempt = e.now().Add(e.limits.Retry.Delay(rec.Attempts))
		_ = e.settle(rec)
		return nil
	}
	e.freed()
	if e.again(rec.ID(), e.entomb(rec, rec.End)) == nil {
		return e.entombOlder(rec)
	}
	return nil
}

// freed has those tried at once that couldn't leave, now that another workload
// has: it may be the one that they waited for, and their pauses have grown.
func (e *NodeEngine) freed() {
	for id, t := range e.waiting {
		e.retries.Set(id, t, time.Now())
	}
}

// decommission is the effect of takeDown.
func (e *NodeEngine) decommission(ctx context.Context, rec store.Record) error {
	r := rec.Reservation
	if newer, err := e.newer(rec); err != nil || newer != nil {
		return err // what is on the node is the newer one's
	}
	p := e.provisioners[r.Type]
	if p == nil {
		return node.Errorf(node.Transient, "cannot decommission %s: type %q isn't offered by this node now", r.ID, r.Type)
	}
	return e.step(ctx, "decommission", r.ID, e.limits.Decommission, func(ctx context.Context) error {
		err := p.Decommission(ctx, r)
		if node.KindOf(err) == node.NotExist {
			return nil
		}
		return err
	})
}

// stillLeaving goes on with a workload whose end has begun.
func (e *NodeEngine) stillLeaving(ctx context.Context, rec store.Record) error {
	if !e.isHeld(rec) {
		return e.takeDown(ctx, rec)
	}
	now, trusted := e.clock.Now()
	switch {
	case rec.End == workload.StateEvicted && trusted && rec.NextAttempt.IsZero():
		rec.NextAttempt = now.Add(e.limits.Grace)
		return e.begin(rec)
	case rec.End == workload.StateExpired && trusted && !rec.Reservation.ExpiredAt(now):
		rec.End = "" // it wasn't over: a clock was wrong
		return e.attempt(ctx, rec)
	case !e.mustHold(rec):
		return e.takeDown(ctx, rec)
	case !e.heldTold(rec):
		return e.hold(ctx, rec)
	}
	e.schedule(rec)
	return nil
}

// heldTold reports whether all of hold was done.
func (e *NodeEngine) heldTold(rec store.Record) bool {
	return rec.End != workload.StateEvicted || rec.Result != nil && rec.Result.State == workload.StateEvicted
}

// isHeld reports whether rec's workload is over and its data still untouched.
func (e *NodeEngine) isHeld(rec store.Record) bool {
	return rec.Phase == store.Leaving && rec.Attempts == 0 && e.holdsData(rec) &&
		(rec.End == workload.StateEvicted || rec.End == workload.StateExpired)
}

// mustHold reports whether the data of a workload that is over must stay for
// now: an evicted one's for the grace period, an expired one's until more than
// the explorer's word says what time it is. What its user deleted goes at once.
func (e *NodeEngine) mustHold(rec store.Record) bool {
	if !e.holdsData(rec) {
		return false
	}
	switch rec.End {
	case workload.StateExpired:
		return !e.clock.Removable()
	case workload.StateEvicted:
		now, _ := e.clock.Now()
		return !e.clock.Removable() || rec.NextAttempt.IsZero() || now.Before(rec.NextAttempt)
	}
	return false
}

func (e *NodeEngine) holdsData(rec store.Record) bool {
	h, ok := e.provisioners[rec.Reservation.Type].(provisioner.DataHolder)
	return ok && h.HoldsData()
}

// hold stops a workload and keeps its data.
func (e *NodeEngine) hold(ctx context.Context, rec store.Record) error {
	if now, trusted := e.clock.Now(); trusted && rec.End == workload.StateEvicted && rec.NextAttempt.IsZero() {
		rec.NextAttempt = now.Add(e.limits.Grace)
	}
	if err := e.begin(rec); err != nil {
		return err
	}
	r := rec.Reservation
	if s, ok := e.provisioners[r.Type].(provisioner.Stopper); ok {
		err := e.step(ctx, "stop", r.ID, e.limits.Decommission, func(ctx context.Context) error { return s.Stop(ctx, r) })
		if err != nil {
			e.log.Error().Str("id", r.ID).Str("type", string(r.Type)).Str("step", "stop").Err(err).Msg("cannot stop what is over")
		}
	}
	rec.Cause = "its time is over; its data is kept until more than the explorer says so"
	if rec.End == workload.StateEvicted {
		rec.Cause = "evicted by the node's owner; its data is kept for " + e.limits.Grace.String()
		rec.Result = e.result(rec, workload.StateEvicted, rec.Cause, nil)
	}
	_ = e.settle(rec)
	return nil
}
