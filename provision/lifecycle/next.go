package lifecycle

import (
	"encoding/json"
	"time"

	"github.com/croft-edge/croft/pkg/clock"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
)

// Next returns the record after the event, and the effects to carry out, in that
// order. It changes none of its arguments. An event that can't come in the
// record's phase changes nothing and returns Impossible.
func Next(r Record, ev Event, f Facts) (Record, []Effect) {
	t := &turn{rec: r.Clone(), ev: ev, f: f}
	act(r.Phase, ev.Kind).do(t)
	return t.rec, t.effects
}

// turn is one step of one record.
type turn struct {
	rec     Record
	ev      Event
	f       Facts
	effects []Effect
	// byUser is whether the user has deleted the entombed reservation.
	byUser bool
}

func (t *turn) effect(kinds ...EffectKind) {
	for _, k := range kinds {
		t.effects = append(t.effects, Effect{Kind: k})
	}
}

// save writes the record before any other effect.
func (t *turn) save() {
	if len(t.effects) > 0 && t.effects[0].Kind == Save {
		return
	}
	t.effects = append([]Effect{{Kind: Save}}, t.effects...)
}

func (t *turn) later(after time.Duration) {
	t.effects = append(t.effects, Effect{Kind: Later, After: after})
}

// answer makes a new result, unless the user has just this one already.
func (t *turn) answer(state workload.State, text string, data json.RawMessage) {
	text = workload.ErrorText(text)
	if old := t.rec.Result; old != nil && old.State == state && old.Error == text && string(old.Data) == string(data) {
		return
	}
	t.rec.Result = &workload.Result{
		Type: t.rec.Reservation.Type, ID: t.rec.ID(), Created: t.f.Time.Now, State: state, Error: text, Data: data,
	}
	t.rec.Delivered = false
	t.effect(Tell)
}

// said is the data of the failure's answer, if that was given already.
func (t *turn) said() json.RawMessage {
	if old := t.rec.Result; old != nil && old.State == workload.StateError && old.Error == workload.ErrorText(t.rec.Cause) {
		return old.Data
	}
	return nil
}

// answerEnd makes the result for an end, once.
func (t *turn) answerEnd(end workload.State) {
	if t.rec.Result != nil && t.rec.Result.State == end {
		return
	}
	text := ""
	switch {
	case end == workload.StateEvicted:
		text = "evicted by the node's owner"
	case end == workload.StateDeleted && t.f.Type.Apart && t.f.Name.shadowed() && !t.byUser:
		text = outdone
	}
	t.answer(end, text, nil)
}

// begin starts an attempt. A fetch and the provision after it share one written
// intent.
func (t *turn) begin() {
	t.rec.Phase = Intent
	t.rec.Begun, t.rec.End = true, ""
	t.rec.Holding = Since{}
	t.rec.NextAttempt = time.Time{}
	t.rec.Attempts++
	if t.ev.Bound != nil {
		t.rec.Bound = t.ev.Bound
	}
	t.save()
	if t.f.Type.Prepares {
		t.effect(DoFetch)
		return
	}
	t.effect(DoProvision)
}

// again starts the first attempt of a new series.
func (t *turn) again() {
	t.rec.Attempts, t.rec.Cause = 0, ""
	t.begin()
}

// finish ends the workload with that state: at once when nothing of it can be on
// the node, else by stopping or decommissioning it.
func (t *turn) finish(end workload.State) {
	t.effect(Cancel)
	early := end == workload.StateExpired && !t.f.removable(t.rec)
	switch {
	case early && t.f.Name.shadowed():
		t.yield()
	case early && t.rec.Begun:
		t.hold(end, unproven)
	case !t.rec.Begun, t.f.Name.replaced() && !t.f.Type.Apart:
		t.entomb(Ended, end)
	case end == workload.StateEvicted && t.f.Type.HoldsData:
		t.hold(end, "evicted by the node's owner; its data is kept for "+t.f.Limits.Grace.String())
	default:
		t.leave(end)
	}
}

// unproven is the cause of a record that has expired by a clock that may be wrong.
const unproven = "it has expired; it is kept until more than the explorer's word proves that"

// hold stops the workload and keeps its data.
func (t *turn) hold(end workload.State, why string) {
	if t.rec.Phase == Intent {
		t.rec.Uncertain = true // the outcome of the attempt in flight is ignored
	}
	t.rec.End, t.rec.Cause = end, why
	t.only(end)
	t.rec.Attempts, t.rec.NextAttempt = 0, time.Time{}
	t.rec.Holding = From(t.f.Time)
	if t.f.Type.HoldsData && !t.f.Type.Stops {
		t.held()
		return
	}
	t.rec.Phase = Stopping
	t.save()
	t.effect(DoStop)
}

// held is called when nothing of the workload runs any more.
func (t *turn) held() {
	t.rec.Phase = Held
	t.rec.Attempts, t.rec.NextAttempt = 0, time.Time{}
	if t.rec.End == workload.StateEvicted {
		t.rec.Cause = "evicted by the node's owner; its data is kept for " + t.f.Limits.Grace.String()
		t.answer(workload.StateEvicted, t.rec.Cause, nil)
	}
	t.save()
	t.later(t.f.Limits.Look)
}

// only drops the pending renewal if the workload ends for another reason than its time.
func (t *turn) only(end workload.State) {
	if end != workload.StateExpired {
		t.rec.Pending = nil
	}
}

// replaced leaves the workload to the newer record of its name.
func (t *turn) replaced() {
	t.rec.Phase, t.rec.End = Replaced, ""
	t.rec.Cause = "a newer reservation of its name is on the node"
	t.rec.Attempts, t.rec.NextAttempt = 0, time.Time{}
	t.effect(Cancel)
	t.save()
}

// leave decommissions the workload.
func (t *turn) leave(end workload.State) {
	t.rec.Phase, t.rec.End = Leaving, end
	t.only(end)
	if end != workload.StateError {
		t.rec.Cause = ""
	}
	t.rec.Attempts, t.rec.NextAttempt = 1, time.Time{}
	t.save()
	t.effect(DoDecommission)
}

// entomb turns the record into a tombstone.
func (t *turn) entomb(phase Phase, end workload.State) {
	held, begun := t.rec.HoldsName(), t.rec.Begun
	t.byUser = t.rec.Reservation.Deletion != nil
	t.rec = t.rec.tombstone()
	t.rec.Phase, t.rec.End = phase, end
	switch phase {
	case Ended:
		t.rec.Cause = ""
		t.answerEnd(end)
	case Failed:
		t.rec.Admitted = false
		t.answer(workload.StateError, t.rec.Cause, t.said())
	case Refused, Dismissed:
		t.rec.Admitted = false
	}
	t.save()
	if begun {
		t.effect(FreeOthers)
	}
	if held && phase == Ended && !t.f.Name.replaced() {
		t.effects = append(t.effects, Effect{Kind: EndOlder, End: end})
	}
}

// retry waits for the next attempt. The user is told of a failed one when it was
// the node's fault, or failures continue.
func (t *turn) retry() {
	t.rec.Phase = Retry
	if t.ev.Kind == FailUnknown {
		t.rec.Uncertain = true
	}
	t.postpone(max(t.rec.Attempts, 1))
	if node.KindOf(t.ev.Err) == node.Internal || t.rec.Attempts >= t.f.Limits.TellAfter {
		t.answer(workload.StateError, t.rec.Cause+"; it is tried again", nil)
	}
	t.save()
}

// postpone notes the error, and schedules the next attempt.
func (t *turn) postpone(failures int) {
	if t.ev.Err != nil {
		t.rec.Cause = t.ev.Err.Error()
	}
	wait := t.f.Limits.Backoff(failures)
	t.rec.NextAttempt = t.f.Time.Now.Add(wait)
	t.later(wait)
}

// sinceTaken is the moment from which the record's elapsed time is proven. Its
// creation date counts as passed once it was judged, and before only if the clock
// agrees: the signer's clock may be ahead.
func (t *turn) sinceTaken() Since {
	floor := t.rec.Reservation.Created
	if !t.rec.Admitted && t.f.Time.Now.Before(floor) {
		floor = t.f.Time.Now
	}
	return sinceNow(t.f.Time, floor)
}

// sinceJudged starts the proof anew for a reservation accepted while no date could
// be judged: it may have been created in the future.
func (t *turn) sinceJudged() {
	if t.rec.Since.Level == clock.None {
		t.rec.Since = t.sinceTaken()
	}
}
