package provision

import (
	"time"

	"github.com/croft-edge/croft/provision/store"
)

// begin is the durable write before an effect.
func (e *NodeEngine) begin(rec store.Record) error {
	err := e.guard("record", rec.ID(), func() error { return e.records.Begin(rec) })
	if err != nil {
		return err
	}
	e.written(rec)
	return nil
}

// finish is the durable write of what came of an effect, or of a judgement.
func (e *NodeEngine) finish(rec store.Record) error {
	err := e.guard("record", rec.ID(), func() (err error) {
		rec, err = e.records.Finish(rec)
		return err
	})
	if err != nil {
		return err
	}
	e.written(rec)
	e.feedback.Kick()
	return nil
}

// written tells who waits for a change of the records, and sets the timers.
func (e *NodeEngine) written(rec store.Record) {
	e.changes.tell()
	e.schedule(rec)
	if !lives(rec.Phase) {
		e.drifts.forget(rec.ID())
		e.fetches.forget(rec.ID())
	}
}

// schedule sets when the engine has to look at rec next.
func (e *NodeEngine) schedule(rec store.Record) {
	id, t := rec.ID(), rec.Reservation.Type
	switch rec.Phase {
	case store.Retry, store.Leaving:
		e.retries.Set(id, t, time.Now().Add(e.wait(rec)))
	default:
		e.retries.Remove(id)
	}
	if rec.Phase == store.Leaving {
		e.expiry.Remove(id)
		return
	}
	e.expiry.Set(id, t, rec.Reservation.Expires())
}

// wait is how long until rec's next attempt. The wall clock may have been set
// since it was planned, so it is never longer than the backoff would be.
func (e *NodeEngine) wait(rec store.Record) time.Duration {
	if e.isHeld(rec) {
		return e.limits.Look
	}
	return min(max(rec.NextAttempt.Sub(e.now()), 0), e.limits.Retry.Max)
}
