package lifecycle

import (
	"time"

	"github.com/croft-edge/croft/pkg/workload"
)

func revive() action {
	return action{"revive", "lives longer: if it had expired, Intent again; an eviction stays", func(t *turn) {
		if t.rec.End != workload.StateExpired {
			t.effect(Resend)
			if t.rec.Pending != nil { // left by an older croft in a held record
				t.rec.Pending = nil
				t.save()
			}
			return
		}
		t.prolong()
		t.revive()
	}}
}

// revive makes a stopped workload again, unless a newer one has its name.
func (t *turn) revive() {
	if t.f.Name.shadowed() {
		t.yield()
		return
	}
	t.again()
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

// waitsForFetch is the cause of a record that waits for a fetch.
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
			if t.rec.Phase == Intent {
				t.rec.Uncertain = true // the last attempt's outcome was never written
			}
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
		case !t.f.Type.Apart && (t.f.Name == Newest || t.f.Name.replaced()):
			// The workload under its name is another record's, and may be half changed.
			t.entomb(Failed, "")
			t.effect(MendOlder)
		case t.f.Type.HoldsData && t.f.Older:
			// The data may be from an earlier life of the store: it is removed as an orphan, if at all.
			t.entomb(Failed, "")
		case t.rec.Uncertain || t.f.Type.Prepares || t.rec.Name != NameKey{}:
			if t.ev.Data != nil {
				t.answer(workload.StateError, t.rec.Cause, t.ev.Data) // only this answer carries the data
			}
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
	return action{"mend", "Intent, unless a newer one has its name; Leaving if that has ended", func(t *turn) {
		switch {
		case t.f.Name == Gone:
			t.yield()
		case !t.f.Name.shadowed():
			t.again()
		}
	}}
}

// resume restarts the effect that was in flight when the process ended.
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

// proceed continues with the written intent.
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

// since starts to count the elapsed time of a record that was written before time was counted.
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
