package lifecycle

import (
	"github.com/croft-edge/croft/pkg/clock"
	"github.com/croft-edge/croft/pkg/workload"
)

// yield makes way for the newer reservation of the record's name.
func yield() action {
	return action{"yield", "Replaced; Ended if it never was on the node; Leaving if each of its name is apart", func(t *turn) { t.yield() }}
}

func (t *turn) yield() {
	switch {
	case t.f.Type.Apart:
		t.stepAside()
	case t.f.Name == Gone && t.rec.Phase != Replaced && t.rec.Begun:
		// The newer one may have ended without removing this one's workload.
		t.effect(Cancel)
		t.leave(workload.StateDeleted)
	case t.f.Name == Gone, t.rec.Deployed.IsZero():
		t.effect(Cancel)
		t.entomb(Ended, workload.StateDeleted)
	default:
		t.replaced()
	}
}

// stepAside ends a record whose workload is apart from the newer one of its name.
// One that was never deployed has failed: it never was the newest.
func (t *turn) stepAside() {
	end := workload.StateDeleted
	if t.f.Name == Awaited {
		if !t.rec.Deployed.IsZero() {
			return
		}
		end = workload.StateError
	}
	if t.rec.Reservation.Deletion != nil {
		end = workload.StateDeleted
	}
	t.effect(Cancel)
	t.rec.Pending = nil
	if end == workload.StateError {
		t.rec.Cause = outdone
	}
	switch {
	case t.rec.Begun:
		t.leave(end)
	case end == workload.StateError:
		t.entomb(Failed, "")
	default:
		t.entomb(Ended, end)
	}
}

// outdone is the error for the user of a reservation whose name a newer one has.
const outdone = "a newer reservation of its name has taken its place"

// settle completes the change of two records of one name that a crash interrupted.
func settle() action {
	return action{"settle", "as the newer one of its name says: Replaced, Ended or Leaving; else nothing", func(t *turn) {
		t.since()
		switch {
		case t.f.Name == Gone, t.f.Name == Outdone && t.rec.Phase != Replaced:
			t.yield()
		case t.rec.Phase == Replaced && !t.f.Name.replaced():
			t.entomb(Ended, workload.StateDeleted)
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
	return action{"evict", "Held, by way of Stopping where it runs, if it holds data; else Leaving", func(t *turn) {
		if t.rec.Reservation.Deletion != nil {
			t.finish(workload.StateDeleted) // as its user has already been told
			return
		}
		t.finish(workload.StateEvicted)
	}}
}

func endWithName() action {
	return action{"end with name", "Ended, as the newest of its name; Leaving if each of that is apart", func(t *turn) {
		t.effect(Cancel)
		if t.f.Type.Apart && t.rec.Begun {
			t.rec.Pending = nil
			t.leave(t.ev.End)
			return
		}
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

// goOn moves an expired or evicted workload on when its time allows; it reports whether it did.
func (t *turn) goOn() bool {
	switch {
	case t.rec.End == workload.StateExpired && t.f.removable(t.rec):
		t.finish(workload.StateExpired)
	case t.rec.End == workload.StateExpired && t.f.Time.Level >= clock.Stop && !t.f.Over(t.rec):
		t.revive() // it hadn't expired: a clock was wrong
	case t.rec.End == workload.StateEvicted && Lasted(t.f.Limits.Grace, t.rec.Holding, t.f.Time):
		t.leave(workload.StateEvicted)
	default:
		return false
	}
	return true
}

func ended() action {
	return action{"ended", "Ended, and told; Failed if it is taken down for an error", func(t *turn) { t.concluded() }}
}

func endNow() action {
	return action{"end now", "as if it were decommissioned: what has its name is another's; as it was if each of that is apart", func(t *turn) {
		if t.f.Type.Apart {
			return
		}
		t.effect(Cancel)
		t.concluded()
	}}
}

// concluded is called when nothing of the workload is left. One that failed for good never was
// the newest of its name: its end doesn't end the others, also when its user deletes it.
func (t *turn) concluded() {
	switch {
	case t.rec.End != workload.StateError:
		t.entomb(Ended, t.rec.End)
	case t.rec.Reservation.Deletion != nil:
		t.rec.Admitted = false
		t.entomb(Ended, workload.StateDeleted)
		t.mendApart()
	default:
		t.entomb(Failed, "")
		if t.f.Name == Newest && !t.f.Type.Apart {
			t.effect(MendOlder)
		}
		t.mendApart()
	}
}

// mendApart restarts the older workload that the failed one may have stopped.
func (t *turn) mendApart() {
	if t.f.Type.Apart && t.rec.Name != (NameKey{}) {
		t.effect(MendOlder)
	}
}

// block handles a refused removal: others use the workload, and nothing of it has been removed.
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
		failed := t.rec.End == workload.StateError && t.f.Name == Newest
		if !t.f.Type.Apart && (t.f.Name.replaced() || failed) { // the workload of that name is another's
			t.effect(Cancel)
			t.concluded()
			return
		}
		if !t.f.InFlight {
			t.effect(DoDecommission)
		}
	}}
}

func leaveOrKeep() action {
	return action{"leave", "Leaving; Stopping if its end isn't proven any more; Intent if it isn't over after all", func(t *turn) {
		switch {
		case t.rec.End == workload.StateExpired && !t.f.removable(t.rec):
			switch {
			case t.goOn():
			case t.f.Over(t.rec):
				t.hold(workload.StateExpired, unproven)
			default:
				t.later(t.f.Limits.Look)
			}
		case t.f.Name.replaced() && !t.f.Type.Apart:
			t.concluded()
		default:
			attempts := t.rec.Attempts
			t.leave(t.rec.End)
			t.rec.Attempts = attempts
		}
	}}
}

// deleteLeaving handles a user's deletion of a workload that leaves for another reason.
func deleteLeaving() action {
	return action{"delete", "Leaving, by its user's word", func(t *turn) {
		if t.rec.End == workload.StateDeleted || t.rec.Reservation.Deletion != nil {
			t.effect(Tell)
			return
		}
		t.rec.Reservation.Deletion = t.ev.Deletion
		if t.rec.End != workload.StateError {
			t.rec.End = workload.StateDeleted
		}
		t.save()
	}}
}

func deleteNow() action {
	return action{"delete now", "Ended", func(t *turn) { t.entomb(Ended, workload.StateDeleted) }}
}

// deleteRefused leaves it among the refused records, whose number is bounded.
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

// bury forgets a tombstone. An end proven by the node's uptime alone may still lie
// ahead for a clock that the explorer sets back: while there is room the tombstone is
// kept until a time at level Remove confirms it. A reservation that may be accepted
// after its end is never forgotten: nothing else would tell it from a new one.
func bury() action {
	return action{"bury", "forgotten once its end is proven, its user has the answer and it can't be taken in again; while there is room, only by a clock at level remove", func(t *turn) {
		if t.f.Returns && t.rec.final() {
			return
		}
		end := t.rec.Reservation.Expires()
		byClock := t.f.Time.Level == clock.Remove && !t.f.Time.Now.Before(end)
		kept := t.f.Roomy && t.rec.Phase != Refused
		if (byClock || Proven(end, t.rec.Since, t.f.Time) && !kept) && (t.rec.Result == nil || t.rec.Delivered) {
			t.effect(Bury)
		}
	}}
}
