package lifecycle

import (
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/resources"
	"github.com/croft-edge/croft/pkg/resources/work"
	"github.com/croft-edge/croft/pkg/workload"
)

// Observed is what the node sees of a workload that no record remembers.
type Observed struct {
	// Fetch is the progress of the fetch of what it needs, empty without one.
	Fetch string
	// Drift is how it differs from how it was made, empty when it doesn't.
	Drift string
}

// Conditions are the conditions of a record's workload. They follow from its phase: nothing else remembers them.
func Conditions(r Record, seen Observed) []resources.Condition {
	return []resources.Condition{accepted(r), admitted(r), prepared(r, seen), provisioned(r), inSync(r, seen), reported(r)}
}

func accepted(r Record) resources.Condition {
	switch r.Phase {
	case Waiting:
		return resources.Unsure(work.Accepted, "NotJudged", r.Cause)
	case Refused, Dismissed:
		return resources.Not(work.Accepted, "Refused", resultError(r))
	}
	c := resources.Is(work.Accepted, "Signed", "")
	c.Since = r.Accepted
	return c
}

func admitted(r Record) resources.Condition {
	switch {
	case r.Phase == Waiting:
		return resources.Unsure(work.Admitted, "NotJudged", r.Cause)
	case r.Phase == Refused, r.Phase == Dismissed:
		return resources.Not(work.Admitted, "Refused", resultError(r))
	case r.Phase == Replaced:
		return resources.Not(work.Admitted, "Replaced", "its room is that of the newer reservation of its name")
	case r.Tombstone():
		return resources.Not(work.Admitted, "Ended", "")
	}
	return resources.Is(work.Admitted, "RoomPromised", "")
}

func prepared(r Record, seen Observed) resources.Condition {
	switch {
	case r.Phase == Waiting:
		return resources.Unsure(work.Prepared, "NotJudged", "")
	case r.Phase == Fetching:
		return resources.Not(work.Prepared, "Pulling", seen.Fetch)
	case r.Tombstone():
		return resources.Not(work.Prepared, "Ended", "")
	}
	return resources.Is(work.Prepared, "Present", "")
}

func provisioned(r Record) resources.Condition {
	switch r.Phase {
	case Deployed:
		c := resources.Is(work.Provisioned, "Deployed", "")
		c.Since = r.Deployed
		return c
	case Blocked:
		return resources.Is(work.Provisioned, "InUse", "it leaves once those that use it have left")
	case Waiting:
		return resources.Not(work.Provisioned, "NotJudged", "")
	case Fetching:
		return resources.Not(work.Provisioned, "Preparing", "")
	case Intent:
		if !r.Deployed.IsZero() {
			return resources.Not(work.Provisioned, "Restoring", r.Cause)
		}
		return resources.Not(work.Provisioned, "Provisioning", r.Cause)
	case Retry:
		return resources.Not(work.Provisioned, "Retrying", r.Cause)
	case Replaced:
		return resources.Not(work.Provisioned, "Replaced", "a newer reservation has its name")
	case Stopping:
		return resources.Not(work.Provisioned, "Stopping", r.Cause)
	case Held:
		return resources.Not(work.Provisioned, "Held", "it is stopped; its data is kept for now")
	case Leaving:
		return resources.Not(work.Provisioned, "Leaving", r.Cause)
	case Failed:
		return resources.Not(work.Provisioned, "Failed", resultError(r))
	case Refused, Dismissed:
		return resources.Not(work.Provisioned, "Refused", resultError(r))
	}
	return resources.Not(work.Provisioned, "Ended", string(r.End))
}

func inSync(r Record, seen Observed) resources.Condition {
	switch {
	case seen.Drift != "" && r.Phase.Wanted():
		return resources.Not(work.InSync, "Drifted", seen.Drift)
	case r.Phase == Deployed:
		return resources.Is(work.InSync, "AsMade", "")
	}
	return resources.Unsure(work.InSync, "NotDeployed", "")
}

func reported(r Record) resources.Condition {
	switch {
	case r.Result == nil:
		return resources.Unsure(work.Reported, "NoResult", "")
	case r.Delivered:
		return resources.Is(work.Reported, "Delivered", "")
	}
	return resources.Not(work.Reported, "Undelivered", "the result waits for the explorer")
}

func resultError(r Record) string {
	if r.Result == nil {
		return r.Cause
	}
	return r.Result.Error
}

// Happened are the reasons of the events that a step of an accepted record's life is, in their order, with what they say.
func Happened(was, is Record, ev Event) []work.EventSpec {
	var out []work.EventSpec
	add := func(reason, message string) { out = append(out, work.EventSpec{Reason: reason, Message: message}) }
	if !was.Admitted && !is.Admitted { // one that fails isn't admitted any more
		return nil
	}
	if ev.Kind == Renew && is.Phase.Wanted() && was.Reservation != nil && is.Reservation.Expires().After(was.Reservation.Expires()) {
		add(work.ReasonUpdated, "it ends "+is.Reservation.Expires().UTC().Format("2006-01-02T15:04:05Z")+" now")
	}
	if ev.Err != nil && node.KindOf(ev.Err) == node.Exist {
		add(work.ReasonErrResourceExists, ev.Err.Error())
	}
	if is.Phase == was.Phase {
		return out
	}
	switch is.Phase {
	case Fetching:
		add(work.ReasonPulling, "")
	case Intent:
		if was.Phase == Fetching {
			add(work.ReasonPulled, "")
		}
	case Retry:
		add(work.ReasonRetrying, is.Cause)
	case Deployed:
		if was.Deployed.IsZero() {
			add(work.ReasonCreated, "")
		}
	case Replaced:
		add(work.ReasonReplaced, "")
	case Leaving:
		if ev.Kind == Replace {
			add(work.ReasonReplaced, "")
		}
	case Blocked:
		add(work.ReasonInUse, is.Cause)
	case Held:
		add(work.ReasonHeld, "")
	case Failed:
		add(work.ReasonFailed, resultError(is))
	case Ended:
		add(endReason(is.End, ev), "")
	}
	return out
}

// endReason is the reason of an end. One that leaves by a newer one's arrival was told then.
func endReason(end workload.State, ev Event) string {
	switch end {
	case workload.StateExpired:
		return work.ReasonExpired
	case workload.StateEvicted:
		return work.ReasonEvicted
	case workload.StateError:
		return work.ReasonFailed
	}
	if ev.Kind == Replace {
		return work.ReasonReplaced
	}
	return work.ReasonDeleted
}
