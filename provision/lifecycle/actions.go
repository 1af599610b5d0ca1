package lifecycle

import (
	"time"

	"github.com/croft-edge/croft/pkg/clock"
	"github.com/croft-edge/croft/pkg/workload"
)

func impossible() action {
	return action{"✗", "can't happen: nothing changes, it is logged", func(t *turn) { t.effect(Impossible) }}
}

func nothing() action {
	return action{"·", "nothing changes", func(*turn) {}}
}

func tell() action {
	return action{"tell", "the user gets the same answer again", func(t *turn) {
		if t.rec.Result == nil || t.rec.Phase == Leaving && t.rec.Result.State == workload.StateOK {
			t.effect(Tell)
			return
		}
		t.effect(Resend)
	}}
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
			t.rec.Reservation.Deletion = t.ev.Deletion
			t.answerEnd(workload.StateDeleted)
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
	return action{"admit", "its room is promised, Intent; Ended if its user has deleted it", func(t *turn) {
		t.rec.NextAttempt = time.Time{}
		if t.rec.Reservation.Deletion != nil {
			t.entomb(Ended, workload.StateDeleted)
			return
		}
		t.rec.Admitted = true
		t.again()
	}}
}

func refuse() action {
	return action{"refuse", "Refused; Dismissed while too many are remembered", func(t *turn) {
		phase := Refused
		if t.f.Crowded {
			phase = Dismissed
		}
		t.rec.Cause = t.ev.Err.Error()
		// What its user has deleted isn't taken in by anybody's later word.
		t.rec.Older = t.ev.Older && t.rec.Reservation.Deletion == nil
		if t.rec.Reservation.Deletion == nil {
			t.answer(workload.StateError, t.rec.Cause, nil)
		}
		t.entomb(phase, "")
	}}
}

func postpone() action {
	return action{"postpone", "Waiting; judged again later", func(t *turn) {
		if t.rec.Cause == "" { // waiting isn't worth a write each time
			t.rec.Cause = t.ev.Err.Error()
			t.save()
		}
		t.later(t.f.Limits.Look)
	}}
}

// forbid keeps the deletion of what can't be judged yet: it still counts among
// those that wait, so that keys that cost nothing leave no tombstones.
func forbid() action {
	return action{"forbid", "its user has the answer; judged as before, it can't be provisioned any more", func(t *turn) {
		t.rec.Reservation.Deletion = t.ev.Deletion
		t.answerEnd(workload.StateDeleted)
		t.save()
	}}
}

func renew() action {
	return action{"renew", "lives longer; its answer is told anew", func(t *turn) {
		t.rec.Reservation.Renewal, t.rec.Pending = t.ev.Renewal, nil
		if old := t.rec.Result; old != nil {
			told := *old
			told.Created, told.Sequence = t.f.Time.Now, 0
			t.rec.Result, t.rec.Delivered = &told, false
			t.effect(Tell)
		}
		t.save()
	}}
}

func pend() action {
	return action{"pend", "the renewal is kept until a time can judge it; nothing is removed before", func(t *turn) {
		if t.rec.Pending != nil && !t.ev.Renewal.Expires.After(t.rec.Pending.Expires) {
			return
		}
		t.rec.Pending = t.ev.Renewal
		t.save()
	}}
}

// reject drops a renewal that a trusted time has judged.
func reject() action {
	return action{"reject", "the kept renewal is dropped", func(t *turn) {
		if t.rec.Pending != nil {
			t.rec.Pending = nil
			t.save()
		}
	}}
}

func revive() action {
	return action{"revive", "lives longer: if it had expired, Intent again; an eviction stays", func(t *turn) {
		if t.rec.End != workload.StateExpired {
			t.effect(Resend)
			if t.rec.Pending != nil {
				t.rec.Pending = nil
				t.save()
			}
			return
		}
		t.rec.Reservation.Renewal, t.rec.Pending = t.ev.Renewal, nil
		if t.f.Name.shadowed() {
			t.replaced()
			return
		}
		t.again()
	}}
}

func provision() action {
	return action{"provision", "Intent; the provisioner is asked to make it", func(t *turn) {
		if t.rec.Phase != Intent {
			t.rec.Phase = Intent
			t.save()
		}
		t.effect(DoProvision)
	}}
}

// waitsForFetch is the cause of a record that waits for what it needs.
const waitsForFetch = "what it needs is being fetched"

func fetchLater() action {
	return action{"wait", "Fetching; asked again after a pause", func(t *turn) {
		if t.rec.Phase != Fetching || t.rec.Cause != waitsForFetch {
			t.rec.Phase, t.rec.Cause, t.rec.NextAttempt = Fetching, waitsForFetch, time.Time{}
			t.save()
		}
		t.later(t.ev.Pause)
	}}
}

func fetchOrEnd() action {
	return action{"fetch", "its end if that has come; else asked again for what it needs", func(t *turn) {
		switch {
		case t.f.Over(t.rec):
			t.finish(workload.StateExpired)
		case !t.f.InFlight:
			t.effect(DoFetch)
		}
	}}
}

func attemptOrEnd() action {
	return action{"attempt", "its end if that has come; else Intent", func(t *turn) {
		switch {
		case t.f.Over(t.rec):
			t.finish(workload.StateExpired)
		case t.f.InFlight:
		case t.f.Name.shadowed():
			t.yield()
		default:
			t.begin()
		}
	}}
}

func deployed() action {
	return action{"deployed", "Deployed, and told; older ones of its name are replaced", func(t *turn) {
		t.rec.Phase = Deployed
		t.rec.Attempts, t.rec.Cause, t.rec.End, t.rec.NextAttempt = 0, "", "", time.Time{}
		t.rec.Uncertain, t.rec.Removing, t.rec.Unlabelled = false, false, false
		if t.ev.Bound != nil {
			t.rec.Bound = t.ev.Bound
		}
		if t.rec.Deployed.IsZero() {
			t.rec.Deployed = t.f.Time.Now
		}
		t.answer(workload.StateOK, "", t.ev.Data)
		t.save()
		if t.rec.HoldsName() {
			t.effect(ReplaceOlder)
		}
	}}
}

func retry() action {
	return action{"retry", "Retry; attempted again with backoff, told when it doesn't pass", func(t *turn) { t.retry() }}
}

func giveUp() action {
	return action{"give up", "Failed, by way of Leaving where something may be on the node; Retry if it was deployed before", func(t *turn) {
		t.rec.Cause = t.ev.Err.Error()
		switch {
		case !t.rec.Deployed.IsZero():
			t.retry()
		case t.f.Name == Newest || t.f.Name.replaced():
			// What is on the node under its name is another's, which may be half changed.
			t.entomb(Failed, "")
			t.effect(MendOlder)
		case t.rec.Uncertain || t.f.Type.Prepares || t.rec.Name != NameKey{}:
			t.leave(workload.StateError)
		default:
			t.entomb(Failed, "")
		}
	}}
}

func endIfOver() action {
	return action{"end if over", "its end if that has come", func(t *turn) {
		if t.f.Over(t.rec) {
			t.finish(workload.StateExpired)
		}
	}}
}

func endIfProven() action {
	return action{"end if proven", "Ended if its end is proven", func(t *turn) {
		if t.f.removable(t.rec) {
			t.entomb(Ended, workload.StateExpired)
		}
	}}
}

func mend() action {
	return action{"mend", "Intent, unless a newer one has its name", func(t *turn) {
		if t.f.Name.shadowed() {
			return
		}
		t.again()
	}}
}

// yield is the end of the wish for what a newer one of the name stands for.
func yield() action {
	return action{"yield", "Replaced; Ended if it never was on the node", func(t *turn) { t.yield() }}
}

func (t *turn) yield() {
	if t.rec.Deployed.IsZero() || t.f.Name == Gone {
		t.effect(Cancel)
		t.entomb(Ended, workload.StateDeleted)
		return
	}
	t.replaced()
}

// settle is what a crash between two records of one name left.
func settle() action {
	return action{"settle", "Replaced or Ended, as the newer one of its name says; else nothing", func(t *turn) {
		t.since()
		switch {
		case t.f.Name == Gone, t.rec.Phase == Replaced && !t.f.Name.replaced():
			t.entomb(Ended, workload.StateDeleted)
		case t.rec.Phase == Deployed && t.f.Name == Outdone:
			t.replaced()
		}
	}}
}

func end() action {
	return action{"end", "Leaving; Ended if nothing of it is on the node", func(t *turn) {
		t.rec.Reservation.Deletion = t.ev.Deletion
		t.rec.Pending = nil
		t.finish(workload.StateDeleted)
	}}
}

func evict() action {
	return action{"evict", "Stopping if it holds data, else Leaving", func(t *turn) {
		if t.rec.Reservation.Deletion != nil {
			t.finish(workload.StateDeleted) // as its user was told already
			return
		}
		t.finish(workload.StateEvicted)
	}}
}

func endWithName() action {
	return action{"end with name", "Ended, as the newest of its name", func(t *turn) {
		t.effect(Cancel)
		t.entomb(Ended, t.ev.End)
	}}
}

func hold() action {
	return action{"hold", "Held; an eviction is told", func(t *turn) { t.held() }}
}

func stopAgain() action {
	return action{"stop again", "Stopping; tried again with backoff", func(t *turn) {
		t.rec.Attempts++
		t.postpone(t.rec.Attempts)
		t.save()
	}}
}

func stopOrLeave() action {
	return action{"stop", "as Held, or stopped again", func(t *turn) {
		if !t.goOn() && !t.f.InFlight {
			t.effect(DoStop)
		}
	}}
}

func keepOrLeave() action {
	return action{"keep", "Leaving if its end is proven or its grace over; Intent if it isn't over after all", func(t *turn) {
		if !t.goOn() {
			t.later(t.f.Limits.Look)
		}
	}}
}

// goOn is what a workload that is over does once its time says so.
func (t *turn) goOn() bool {
	switch {
	case t.rec.End == workload.StateExpired && t.f.removable(t.rec):
		t.finish(workload.StateExpired)
	case t.rec.End == workload.StateExpired && t.f.Time.Level >= clock.Stop && !t.f.Over(t.rec):
		t.again() // it wasn't over: a clock was wrong
	case t.rec.End == workload.StateEvicted && Lasted(t.f.Limits.Grace, t.rec.Holding, t.f.Time):
		t.leave(workload.StateEvicted)
	default:
		return false
	}
	return true
}

func ended() action {
	return action{"ended", "Ended, and told; Failed if it is taken down for an error", func(t *turn) {
		if t.rec.End == workload.StateError {
			t.entomb(Failed, "")
			return
		}
		t.entomb(Ended, t.rec.End)
	}}
}

func endNow() action {
	return action{"end now", "as if it were decommissioned: what has its name is another's", func(t *turn) {
		t.effect(Cancel)
		if t.rec.End == workload.StateError {
			t.entomb(Failed, "")
			return
		}
		t.entomb(Ended, t.rec.End)
	}}
}

// block is when others need what is to be removed: nothing of it has been.
func block() action {
	return action{"block", "Blocked; Leaving still if something may have been removed", func(t *turn) {
		if !t.rec.Removing && t.rec.End != workload.StateError {
			t.rec.Phase = Blocked
		}
		t.rec.Attempts++
		t.postpone(t.rec.Attempts)
		t.save()
	}}
}

func leaveAgain() action {
	return action{"leave again", "Leaving; tried again with backoff", func(t *turn) {
		t.rec.Attempts++
		t.rec.Removing = true
		t.postpone(t.rec.Attempts)
		t.save()
	}}
}

func decommission() action {
	return action{"decommission", "decommissioned again", func(t *turn) {
		if t.f.Name.replaced() {
			t.effect(Cancel)
			t.entomb(Ended, t.rec.End)
			return
		}
		if !t.f.InFlight {
			t.effect(DoDecommission)
		}
	}}
}

func leaveOrKeep() action {
	return action{"leave", "Leaving; Intent if it isn't over after all", func(t *turn) {
		switch {
		case t.rec.End == workload.StateExpired && !t.f.removable(t.rec):
			if !t.goOn() {
				t.later(t.f.Limits.Look)
			}
		case t.f.Name.replaced():
			t.entomb(Ended, t.rec.End)
		default:
			attempts := t.rec.Attempts
			t.leave(t.rec.End)
			t.rec.Attempts = attempts
		}
	}}
}

// deleteLeaving is its user's word about what leaves for another reason.
func deleteLeaving() action {
	return action{"delete", "Leaving, by its user's word", func(t *turn) {
		if t.rec.End == workload.StateDeleted {
			t.effect(Tell)
			return
		}
		t.rec.Reservation.Deletion, t.rec.End = t.ev.Deletion, workload.StateDeleted
		t.save()
	}}
}

func deleteNow() action {
	return action{"delete now", "Ended", func(t *turn) { t.entomb(Ended, workload.StateDeleted) }}
}

// deleteRefused leaves it among the refused, which are bounded.
func deleteRefused() action {
	return action{"answer", "stays Refused; its user is told that it is deleted", func(t *turn) {
		if t.rec.Result != nil && t.rec.Result.State == workload.StateDeleted {
			t.effect(Resend)
			return
		}
		t.rec.Older = false
		t.answerEnd(workload.StateDeleted)
		t.save()
	}}
}

func retake() action {
	return action{"retake", "Waiting and judged anew, if only its age had been refused", func(t *turn) {
		if !t.rec.Older {
			t.effect(Resend)
			return
		}
		t.rec.Reservation = t.ev.Reservation
		t.rec.Phase, t.rec.Older, t.rec.Cause = Waiting, false, ""
		t.rec.Since = t.sinceTaken()
		t.save()
		t.effect(Judge)
	}}
}

// resume begins again what the process was doing when it ended.
func resume() action {
	return action{"resume", "what was in flight is begun again; what it left isn't known", func(t *turn) {
		t.since()
		if t.f.Name.shadowed() && t.rec.Phase != Leaving {
			t.yield()
			return
		}
		switch t.rec.Phase {
		case Fetching:
			t.effect(DoFetch)
		case Intent:
			if !t.rec.Uncertain {
				t.rec.Uncertain = true
				t.save()
			}
			t.proceed()
		case Stopping:
			t.effect(DoStop)
		case Leaving:
			if !t.rec.Removing {
				t.rec.Removing = true
				t.save()
			}
			t.effect(DoDecommission)
		}
	}}
}

// proceed goes on with the intent that is written already.
func (t *turn) proceed() {
	if t.ev.Bound != nil && t.rec.Bound == nil {
		t.rec.Bound = t.ev.Bound
		t.save()
	}
	if t.f.Type.Prepares {
		t.effect(DoFetch)
		return
	}
	t.effect(DoProvision)
}

// since begins to count the time of a record that was written before time was
// counted.
func since() action {
	return action{"count", "its time is counted from here if it wasn't before", func(t *turn) { t.since() }}
}

func (t *turn) since() {
	if t.rec.Phase == Held || t.rec.Phase == Stopping {
		if !t.rec.Holding.Known {
			t.rec.Holding = From(t.f.Time)
			t.save()
		}
	}
	if !t.rec.Since.Known {
		t.rec.Since = t.sinceTaken()
		t.save()
	}
}

func bury() action {
	return action{"bury", "forgotten once its end is proven and its user has the answer", func(t *turn) {
		if Proven(t.rec.Reservation.Expires(), t.rec.Since, t.f.Time) && (t.rec.Result == nil || t.rec.Delivered) {
			t.effect(Bury)
		}
	}}
}
