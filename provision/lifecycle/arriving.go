package lifecycle

import (
	"time"

	"github.com/croft-edge/croft/pkg/workload"
)

func impossible() action {
	return action{"✗", "can't happen: nothing changes, it is logged", func(t *turn) { t.effect(Impossible) }}
}

func nothing() action {
	return action{"·", "nothing changes", func(*turn) {}}
}

func tell() action {
	return action{"tell", "the user gets the same answer again", (*turn).answerAgain}
}

// answerAgain sends the answer also when the explorer has it already, but for that of a
// workload which is leaving: its end follows.
func (t *turn) answerAgain() {
	if t.rec.Result == nil || t.rec.Phase == Leaving && t.rec.Result.State == workload.StateOK {
		t.effect(Tell)
		return
	}
	t.effect(Resend)
}

func take() action {
	return action{"take", "Waiting, and judged at once", func(t *turn) {
		t.rec = t.ev.Record.Clone()
		t.rec.Phase, t.rec.Accepted = Waiting, t.f.Time.Now
		t.rec.Since = t.sinceTaken()
		if t.ev.Renewal != nil {
			t.rec.Reservation.Renewal = t.ev.Renewal
		}
		t.rec.Pending = t.ev.RenewalLater
		if t.ev.Deletion != nil {
			t.rec.Reservation.Deletion = t.ev.Deletion // answered together with the judgement
		}
		t.effect(Judge)
	}}
}

func dismiss() action {
	return action{"dismiss", "Dismissed: answered, and forgotten once the user has the answer", func(t *turn) {
		t.rec = t.ev.Record.Clone()
		t.rec.Accepted, t.rec.Since = t.f.Time.Now, t.sinceTaken()
		t.rec.Cause = t.ev.Err.Error()
		t.answer(workload.StateError, t.rec.Cause, nil)
		t.entomb(Dismissed, "")
	}}
}

func judge() action {
	return action{"judge", "asked again whether it may be taken in", func(t *turn) {
		t.since()
		t.effect(Judge)
	}}
}

func admit() action {
	return action{"admit", "its room is promised, Intent; Ended if its user has deleted it. Where each of a name is apart, older ones that never were on the node are outdone", func(t *turn) {
		t.rec.NextAttempt = time.Time{}
		t.sinceJudged()
		if t.rec.Reservation.Deletion != nil {
			t.entomb(Ended, workload.StateDeleted)
			return
		}
		t.rec.Admitted = true
		t.again()
		if t.f.Type.Apart && t.rec.HoldsName() {
			t.effect(OutdoOlder)
		}
	}}
}

func refuse() action {
	return action{"refuse", "Refused; Dismissed while too many are remembered", func(t *turn) {
		phase := Refused
		if t.f.Crowded {
			phase = Dismissed
		}
		t.rec.Cause = t.ev.Err.Error()
		// A reservation that its user has deleted is never accepted by anybody's later word.
		t.rec.Older = t.ev.Older && t.rec.Reservation.Deletion == nil
		t.sinceJudged()
		if t.rec.Reservation.Deletion != nil {
			t.answerEnd(workload.StateDeleted)
		} else {
			t.answer(workload.StateError, t.rec.Cause, nil)
		}
		t.entomb(phase, "")
	}}
}

func postpone() action {
	return action{"postpone", "Waiting; judged again later", func(t *turn) {
		if t.rec.Cause == "" { // only the first postponement is worth a write
			t.rec.Cause = t.ev.Err.Error()
			if t.rec.Reservation.Deletion != nil {
				t.answerEnd(workload.StateDeleted)
			}
			t.save()
		}
		t.later(t.f.Limits.Look)
	}}
}

// forbid keeps the deletion of a reservation that can't be judged yet: it still counts
// among the waiting ones, so that keys that cost nothing leave no tombstones.
func forbid() action {
	return action{"forbid", "its user has the answer; judged as before, it can't be provisioned any more", func(t *turn) {
		t.rec.Reservation.Deletion = t.ev.Deletion
		t.answerEnd(workload.StateDeleted)
		t.save()
	}}
}

func renew() action {
	return action{"renew", "lives longer; its answer is told anew", func(t *turn) {
		if t.rec.Reservation.Deletion != nil {
			t.effect(Resend)
			return
		}
		t.prolong()
		if old := t.rec.Result; old != nil {
			told := *old
			told.Created, told.Sequence = t.f.Time.Now, 0
			t.rec.Result, t.rec.Delivered = &told, false
			t.effect(Tell)
		}
		t.save()
	}}
}

// prolong applies a renewal. A longer pending one stays pending.
func (t *turn) prolong() {
	t.rec.Reservation.Renewal = t.ev.Renewal
	if t.rec.Pending != nil && !t.rec.Pending.Expires.After(t.ev.Renewal.Expires) {
		t.rec.Pending = nil
	}
}

func pend() action {
	return action{"pend", "the renewal is kept until a time can judge it; nothing is removed before; its answer is sent again", func(t *turn) {
		t.answerAgain() // the explorer that delivers it may lack the answer
		if t.rec.End != "" && t.rec.End != workload.StateExpired {
			return // it would prolong nothing
		}
		if t.rec.Pending != nil && !t.ev.Renewal.Expires.After(t.rec.Pending.Expires) {
			return
		}
		t.rec.Pending = t.ev.Renewal
		t.save()
	}}
}

// reject drops a pending renewal that a trusted time has rejected.
func reject() action {
	return action{"reject", "the kept renewal is dropped", func(t *turn) {
		if t.rec.Pending != nil {
			t.rec.Pending = nil
			t.save()
		}
	}}
}

func retake() action {
	return action{"retake", "Waiting and judged anew, if only its age had been refused", func(t *turn) {
		if !t.rec.Older {
			t.effect(Resend)
			return
		}
		t.rec.Reservation, t.rec.Pending = t.ev.Reservation, t.ev.RenewalLater
		t.rec.Phase, t.rec.Older, t.rec.Cause = Waiting, false, ""
		t.rec.Since = t.sinceTaken()
		t.save() // its judgement may come in a later round
		t.effect(Judge)
	}}
}
