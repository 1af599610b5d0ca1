package provision

import (
	"bytes"
	"context"
	"encoding/json"
	"time"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/store"
)

// tellAfter is how many attempts fail before the user hears of it: a module
// that restarts needs no message.
const tellAfter = 3

// attempt records the intent, then provisions. It is the same for a new
// workload, one that is tried again and one that has to be made again.
func (e *NodeEngine) attempt(ctx context.Context, rec store.Record) error {
	if gone, err := e.outlived(rec); err != nil || gone {
		return err
	}
	if waits, err := e.prepare(ctx, rec); err != nil || waits {
		return err
	}
	rec.Phase = store.Intent
	rec.Attempts++
	rec.NextAttempt = time.Time{}
	if err := e.begin(rec); err != nil {
		return err
	}
	r := rec.Reservation
	p := e.provisioners[r.Type]
	if p == nil {
		return e.provisioned(rec, nil, node.Errorf(node.Transient, "cannot provision %s: type %q isn't offered by this node", r.ID, r.Type))
	}
	var data json.RawMessage
	start := time.Now()
	err := e.step(ctx, "provision", r.ID, e.limits.Provision, func(ctx context.Context) (err error) {
		data, err = p.Provision(ctx, r)
		return err
	})
	e.noteSlow(r.Type, time.Since(start) >= e.limits.Provision)
	if ctx.Err() != nil && err != nil {
		return nil // the node is stopping: the intent says what may be half done
	}
	e.log.Info().Str("id", r.ID).Str("type", string(r.Type)).Str("step", "provision").Int("attempts", rec.Attempts).
		Dur("took", time.Since(start)).AnErr("err", err).Msg("attempt ended")
	if err != nil {
		data = nil
	}
	return e.provisioned(rec, data, err)
}

// provisioned writes what came of an attempt.
func (e *NodeEngine) provisioned(rec store.Record, data json.RawMessage, err error) error {
	switch kind := node.KindOf(err); {
	case err == nil:
		rec.Phase = store.Deployed
		rec.Attempts = 0
		rec.Cause = ""
		rec.End = ""
		e.righted(rec)
		if rec.Deployed.IsZero() {
			rec.Deployed = e.now()
		}
		if !sameAnswer(rec.Result, data) {
			rec.Result = e.result(rec, workload.StateOK, "", data)
		}
	case kind.Final() && !wasDeployed(rec):
		rec.Phase = store.Failed
		rec.Cause = err.Error()
		rec.Result = e.result(rec, workload.StateError, err.Error(), nil)
	default:
		rec = e.retryLater(rec, err)
	}
	_ = e.settle(rec)
	return nil
}

// settle writes what came of an effect. When that can't be written the record
// still holds the intent, so nothing is lost: it is tried again.
func (e *NodeEngine) settle(rec store.Record) error {
	err := e.finish(rec)
	return e.again(rec.ID(), err)
}

// postpone waits with a reservation that can't be judged or begun yet. What is
// written already isn't written again; when too many wait, a new one isn't taken
// in at all: the error makes its source bring it again.
func (e *NodeEngine) postpone(rec store.Record, have []store.Record, cause error) error {
	if rec.Phase == store.Retry && rec.Attempts == 0 {
		e.retries.Set(rec.ID(), rec.Reservation.Type, time.Now().Add(e.limits.Look))
		return nil
	}
	if waiting := postponed(rec.ID(), have); waiting >= e.limits.Postponed {
		return node.Errorf(node.Transient, "cannot take in %s: %d reservations wait already; %v", rec.ID(), waiting, cause)
	}
	rec = e.retryLater(rec, cause)
	return e.finish(rec)
}

// postponed counts the records that wait to be judged or begun, none when that
// of id is among all of them.
func postponed(id string, have []store.Record) int {
	waiting := 0
	for _, rec := range have {
		if rec.ID() == id {
			return 0
		}
		if rec.Phase == store.Retry && rec.Attempts == 0 {
			waiting++
		}
	}
	return waiting
}

// retryLater is rec after an attempt that failed and is worth another. Its user
// hears of it when it is the node's fault, or doesn't pass.
func (e *NodeEngine) retryLater(rec store.Record, cause error) store.Record {
	rec.Phase = store.Retry
	rec.Cause = cause.Error()
	rec.NextAttempt = e.now().Add(e.limits.Retry.Delay(max(rec.Attempts, 1)))
	if node.KindOf(cause) != node.Internal && rec.Attempts < tellAfter {
		return rec
	}
	text := workload.ErrorText(cause.Error() + "; it is tried again")
	if rec.Result == nil || rec.Result.Error != text {
		rec.Result = e.result(rec, workload.StateError, text, nil)
	}
	return rec
}

// retry handles the record of that ID when its next attempt has come.
func (e *NodeEngine) retry(ctx context.Context, id string) error {
	rec, err := e.records.Record(id)
	if err != nil {
		return err
	}
	if rec.Attempts > 0 && e.isSlow(rec.Reservation.Type) {
		e.retries.Set(id, rec.Reservation.Type, e.slow[rec.Reservation.Type].Add(e.limits.Retry.Delay(tellAfter)))
		return nil
	}
	switch rec.Phase {
	case store.Intent, store.Retry:
		switch {
		case e.over(rec):
			return e.leave(ctx, rec, workload.StateExpired)
		case rec.Attempts == 0 && !e.fetching(id):
			return e.consider(ctx, rec)
		}
		return e.attempt(ctx, rec)
	case store.Leaving:
		return e.stillLeaving(ctx, rec)
	}
	return e.due(ctx, id)
}

// fetching reports whether something is being got for it: it was judged then.
func (e *NodeEngine) fetching(id string) bool {
	_, going := e.fetches.text(id)
	return going
}

// wasDeployed reports whether rec is of a workload that its user was told is
// there: such a one is never given up.
func wasDeployed(rec store.Record) bool { return !rec.Deployed.IsZero() }

// sameAnswer reports whether the user has been told just this already.
func sameAnswer(old *workload.Result, data json.RawMessage) bool {
	return old != nil && old.State == workload.StateOK && bytes.Equal(old.Data, data)
}

// result is an answer, unsigned.
func (e *NodeEngine) result(rec store.Record, state workload.State, text string, data json.RawMessage) *workload.Result {
	return &workload.Result{
		Type:    rec.Reservation.Type,
		ID:      rec.ID(),
		Created: e.now(),
		State:   state,
		Error:   workload.ErrorText(text),
		Data:    data,
	}
}

func (e *NodeEngine) now() time.Time {
	now, _ := e.clock.Now()
	return now
}
