package lifecycle_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/croft-edge/croft/pkg/clock"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/lifecycle"
)

// scene is one pair of phase and event, and its outcome. Its record was accepted
// at began for ten days, admitted and begun; change sets its other members.
type scene struct {
	name  string
	phase lifecycle.Phase
	end   workload.State
	rec   func(r *lifecycle.Record)
	event lifecycle.Event
	facts func(f *lifecycle.Facts)
	// then is the phase, and the end if there is one; does the effects in order.
	then string
	does string
	is   func(r lifecycle.Record) bool
}

func (s scene) run(t *testing.T) {
	t.Helper()
	rec := lifecycle.Record{
		Reservation: reservation(), Phase: s.phase, End: s.end, Admitted: true, Begun: true,
		Since: lifecycle.Since{Floor: began, Uptime: 40 * day, Known: true, Level: clock.Stop},
	}
	if s.phase == lifecycle.Waiting || s.phase == lifecycle.None {
		rec.Admitted, rec.Begun = false, false
	}
	if s.phase == lifecycle.Held || s.phase == lifecycle.Stopping {
		rec.Holding = lifecycle.From(clock.Reading{Now: began, Level: clock.Stop, Uptime: 40 * day})
	}
	if s.rec != nil {
		s.rec(&rec)
	}
	if s.phase == lifecycle.None {
		rec = lifecycle.Record{}
	}
	facts := lifecycle.Facts{Time: clock.Reading{Now: began.Add(day), Level: clock.Stop, Uptime: 41 * day}, Name: lifecycle.Alone, Limits: limits()}
	if s.facts != nil {
		s.facts(&facts)
	}
	next, effects := lifecycle.Next(rec, s.event, facts)
	then := strings.TrimSpace(string(next.Phase) + " " + string(next.End))
	var does []string
	for _, k := range kinds(effects) {
		does = append(does, string(k))
	}
	if got := strings.Join(does, ", "); then != s.then || got != s.does {
		t.Errorf("%s: %s + %s is %q and does %q, want %q and %q", s.name, s.phase, s.event.Kind, then, got, s.then, s.does)
	}
	if s.is != nil && !s.is(next) {
		t.Errorf("%s: %s + %s is %+v", s.name, s.phase, s.event.Kind, next)
	}
}

func runAll(t *testing.T, scenes []scene) {
	t.Helper()
	for _, s := range scenes {
		s.run(t)
	}
}

// The times of scenes.
func over(level clock.Level) func(*lifecycle.Facts) {
	return func(f *lifecycle.Facts) {
		f.Time = clock.Reading{Now: began.Add(11 * day), Level: level, Uptime: 41 * day}
	}
}
func upForAll(f *lifecycle.Facts)  { f.Time.Uptime = 50 * day }
func holdsData(f *lifecycle.Facts) { f.Type.HoldsData = true }
func returns(f *lifecycle.Facts)   { f.Returns = true }
func stands(s lifecycle.Standing) func(*lifecycle.Facts) {
	return func(f *lifecycle.Facts) { f.Name = s }
}
func both(fs ...func(*lifecycle.Facts)) func(*lifecycle.Facts) {
	return func(f *lifecycle.Facts) {
		for _, each := range fs {
			each(f)
		}
	}
}
func named(r *lifecycle.Record)       { r.Name = lifecycle.NameKey{1} }
func wasDeployed(r *lifecycle.Record) { r.Deployed = began }
func toldDeleted(r *lifecycle.Record) {
	r.Result, r.Delivered = &workload.Result{State: workload.StateDeleted}, true
}
func pending(r *lifecycle.Record) { r.Pending = &workload.Renewal{Expires: began.Add(20 * day)} }

func event(k lifecycle.Kind) lifecycle.Event { return lifecycle.Event{Kind: k} }
func failed(k lifecycle.Kind) lifecycle.Event {
	return lifecycle.Event{Kind: k, Err: node.Errorf(node.Transient, "it failed")}
}
func deletion() lifecycle.Event {
	return lifecycle.Event{Kind: lifecycle.Delete, Deletion: &workload.Deletion{Created: began}}
}
func renewal(k lifecycle.Kind, days int) lifecycle.Event {
	return lifecycle.Event{Kind: k, Renewal: &workload.Renewal{Expires: began.Add(time.Duration(days) * day)}}
}

func TestItArrivesAndIsJudged(t *testing.T) {
	arrives := lifecycle.Event{Kind: lifecycle.Arrive, Record: lifecycle.Record{Reservation: reservation()}}
	deleted := arrives
	deleted.Deletion = &workload.Deletion{Created: began}
	gone := func(r *lifecycle.Record) { r.Reservation.Deletion = &workload.Deletion{Created: began} }
	tells := func(state workload.State) func(lifecycle.Record) bool {
		return func(r lifecycle.Record) bool { return r.Result != nil && r.Result.State == state && !r.Delivered }
	}
	runAll(t, []scene{
		{name: "new", event: arrives, then: "waiting", does: "judge", is: func(r lifecycle.Record) bool { return r.Since.Known && r.Accepted.Equal(began.Add(day)) }},
		{name: "its deletion came with it: told with the judgement", event: deleted, then: "waiting", does: "judge", is: func(r lifecycle.Record) bool { return r.Result == nil }},
		{name: "the same under another ID", event: lifecycle.Event{Kind: lifecycle.Replay, Record: arrives.Record, Err: node.Errorf(node.Refused, "it is 2-1")},
			then: "dismissed", does: "save, tell", is: func(r lifecycle.Record) bool { return tells(workload.StateError)(r) && r.Reservation.Data == nil }},
		{name: "there is room", phase: lifecycle.Waiting, event: event(lifecycle.Admit), then: "intent", does: "save, provision",
			is: func(r lifecycle.Record) bool { return r.Admitted && r.Begun && r.Attempts == 1 }},
		{name: "there is room, and an image to fetch", phase: lifecycle.Waiting, event: event(lifecycle.Admit), facts: func(f *lifecycle.Facts) { f.Type.Prepares = true }, then: "intent", does: "save, fetch"},
		{name: "its user has deleted it", phase: lifecycle.Waiting, rec: gone, event: event(lifecycle.Admit), then: "ended deleted", does: "save, tell", is: tells(workload.StateDeleted)},
		{name: "it never may", phase: lifecycle.Waiting, event: failed(lifecycle.Refuse), then: "refused", does: "save, tell", is: tells(workload.StateError)},
		{name: "it never may, nor may it be remembered", phase: lifecycle.Waiting, event: failed(lifecycle.Refuse), facts: func(f *lifecycle.Facts) { f.Crowded = true }, then: "dismissed", does: "save, tell"},
		{name: "it can't be told", phase: lifecycle.Waiting, event: failed(lifecycle.Postpone), then: "waiting", does: "save, later"},
		{name: "it can't be told, and was deleted", phase: lifecycle.Waiting, rec: gone, event: failed(lifecycle.Postpone), then: "waiting", does: "save, tell, later", is: tells(workload.StateDeleted)},
		{name: "its deletion comes while it waits", phase: lifecycle.Waiting, event: deletion(), then: "waiting", does: "save, tell", is: tells(workload.StateDeleted)},
		{name: "a renewal of what was deleted", phase: lifecycle.Waiting, rec: gone, event: renewal(lifecycle.Renew, 20), then: "waiting", does: "resend"},
		{name: "refused for its age, and that is accepted now", phase: lifecycle.Refused, rec: func(r *lifecycle.Record) { r.Older = true },
			event: lifecycle.Event{Kind: lifecycle.Reconsider, Reservation: reservation()}, then: "waiting", does: "save, judge"},
		{name: "refused for something else", phase: lifecycle.Refused, event: lifecycle.Event{Kind: lifecycle.Reconsider, Reservation: reservation()}, then: "refused", does: "resend"},
	})
}

func TestItIsMade(t *testing.T) {
	inFlight := func(f *lifecycle.Facts) { f.InFlight = true }
	certain := func(r *lifecycle.Record) { r.Uncertain = false }
	runAll(t, []scene{
		{name: "what it needs is there", phase: lifecycle.Fetching, event: event(lifecycle.Fetched), then: "intent", does: "save, provision"},
		{name: "it is there at once", phase: lifecycle.Intent, event: event(lifecycle.Fetched), then: "intent", does: "provision"},
		{name: "it is on its way", phase: lifecycle.Intent, event: event(lifecycle.FetchLater), then: "fetching", does: "save, later"},
		{name: "it is on the node", phase: lifecycle.Intent, event: event(lifecycle.Provisioned), then: "deployed", does: "save, tell",
			is: func(r lifecycle.Record) bool {
				return r.Attempts == 0 && !r.Deployed.IsZero() && r.Result.State == workload.StateOK
			}},
		{name: "it is on the node, as the newest of its name", phase: lifecycle.Intent, rec: named, event: event(lifecycle.Provisioned), then: "deployed", does: "save, tell, replace older"},
		{name: "worth another try", phase: lifecycle.Intent, event: failed(lifecycle.FailAgain), then: "retry", does: "save, later", is: func(r lifecycle.Record) bool { return r.Result == nil && !r.Uncertain }},
		{name: "the third in a row", phase: lifecycle.Intent, rec: func(r *lifecycle.Record) { r.Attempts = 3 }, event: failed(lifecycle.FailAgain), then: "retry", does: "save, later, tell"},
		{name: "nobody knows what it left", phase: lifecycle.Intent, event: failed(lifecycle.FailUnknown), then: "retry", does: "save, later", is: func(r lifecycle.Record) bool { return r.Uncertain }},
		{name: "final", phase: lifecycle.Intent, rec: certain, event: failed(lifecycle.FailFinal), then: "failed", does: "save, tell, free others"},
		{name: "final, after an attempt that left nobody knows what", phase: lifecycle.Intent, rec: func(r *lifecycle.Record) { r.Uncertain = true }, event: failed(lifecycle.FailFinal), then: "leaving error", does: "save, decommission"},
		{name: "final, with an image that was fetched", phase: lifecycle.Fetching, facts: func(f *lifecycle.Facts) { f.Type.Prepares = true }, event: failed(lifecycle.FailFinal), then: "leaving error", does: "save, decommission"},
		{name: "final, of what was deployed before", phase: lifecycle.Intent, rec: wasDeployed, event: failed(lifecycle.FailFinal), then: "retry", does: "save, later"},
		{name: "final, of an update", phase: lifecycle.Intent, rec: named, facts: stands(lifecycle.Newest), event: failed(lifecycle.FailFinal), then: "failed", does: "save, tell, free others, mend older"},
		{name: "its next attempt is due", phase: lifecycle.Retry, event: event(lifecycle.Wake), then: "intent", does: "save, provision"},
		{name: "it is due, and how the last one ended couldn't be written", phase: lifecycle.Intent, rec: certain, event: event(lifecycle.Wake), then: "intent", does: "save, provision", is: func(r lifecycle.Record) bool { return r.Uncertain }},
		{name: "it is due while the last one is in flight", phase: lifecycle.Intent, event: event(lifecycle.Wake), facts: inFlight, then: "intent", does: ""},
		{name: "its end comes meanwhile", phase: lifecycle.Retry, event: event(lifecycle.Wake), facts: over(clock.Stop), then: "stopping expired", does: "save, cancel, stop"},
		{name: "a newer one of its name was made meanwhile", phase: lifecycle.Retry, rec: named, event: event(lifecycle.Wake), facts: stands(lifecycle.Outdone), then: "ended deleted", does: "save, cancel, tell, free others"},
		{name: "it isn't as it was made", phase: lifecycle.Deployed, event: event(lifecycle.Drift), then: "intent", does: "save, provision"},
		{name: "late word of an attempt", phase: lifecycle.Leaving, end: workload.StateDeleted, event: event(lifecycle.Provisioned), then: "leaving deleted", does: ""},
	})
}

func TestItIsRenewed(t *testing.T) {
	prolonged := func(r lifecycle.Record) bool {
		return r.Reservation.Expires().Equal(began.Add(20*day)) && r.Pending == nil
	}
	longer := func(r *lifecycle.Record) { r.Pending = &workload.Renewal{Expires: began.Add(30 * day)} }
	runAll(t, []scene{
		{name: "while it runs", phase: lifecycle.Deployed, rec: func(r *lifecycle.Record) { r.Result = &workload.Result{State: workload.StateOK} }, event: renewal(lifecycle.Renew, 20), then: "deployed", does: "save, tell", is: prolonged},
		{name: "a longer one goes on waiting", phase: lifecycle.Deployed, rec: longer, event: renewal(lifecycle.Renew, 20), then: "deployed", does: "save",
			is: func(r lifecycle.Record) bool { return r.Pending != nil && r.Pending.Expires.Equal(began.Add(30*day)) }},
		{name: "no time can judge it yet", phase: lifecycle.Deployed, event: renewal(lifecycle.RenewLater, 20), then: "deployed", does: "save, tell", is: func(r lifecycle.Record) bool { return r.Pending != nil }},
		{name: "no time can judge it yet, and it has an answer", phase: lifecycle.Deployed, rec: func(r *lifecycle.Record) { r.Result = &workload.Result{State: workload.StateOK} },
			event: renewal(lifecycle.RenewLater, 20), then: "deployed", does: "save, resend", is: func(r lifecycle.Record) bool { return r.Pending != nil }},
		{name: "a shorter one than the one that waits", phase: lifecycle.Deployed, rec: longer, event: renewal(lifecycle.RenewLater, 20), then: "deployed", does: "tell"},
		{name: "it was judged: no", phase: lifecycle.Held, end: workload.StateExpired, rec: pending, event: event(lifecycle.RenewNever), then: "held expired", does: "save", is: func(r lifecycle.Record) bool { return r.Pending == nil }},
		{name: "its end came while it was made: nobody hears what the attempt left", phase: lifecycle.Intent, facts: over(clock.Stop), event: event(lifecycle.Wake), then: "stopping expired", does: "save, cancel, stop",
			is: func(r lifecycle.Record) bool { return r.Uncertain }},
		{name: "it is over and held", phase: lifecycle.Held, end: workload.StateExpired, event: renewal(lifecycle.Renew, 20), then: "intent", does: "save, provision", is: prolonged},
		{name: "it is being stopped", phase: lifecycle.Stopping, end: workload.StateExpired, event: renewal(lifecycle.Renew, 20), then: "intent", does: "save, provision", is: prolonged},
		{name: "others keep it from leaving", phase: lifecycle.Blocked, end: workload.StateExpired, event: renewal(lifecycle.Renew, 20), then: "intent", does: "save, provision", is: prolonged},
		{name: "the owner has evicted it", phase: lifecycle.Held, end: workload.StateEvicted, event: renewal(lifecycle.Renew, 20), then: "held evicted", does: "resend"},
		{name: "the owner has evicted it, and no time can judge it", phase: lifecycle.Held, end: workload.StateEvicted, rec: func(r *lifecycle.Record) { r.Result = &workload.Result{State: workload.StateEvicted} },
			event: renewal(lifecycle.RenewLater, 20), then: "held evicted", does: "resend"},
		{name: "it is being removed: too late, unless others keep it", phase: lifecycle.Leaving, end: workload.StateExpired, event: renewal(lifecycle.Renew, 20), then: "leaving expired", does: "save, tell", is: func(r lifecycle.Record) bool { return r.Pending != nil }},
		{name: "it has ended", phase: lifecycle.Ended, end: workload.StateExpired, event: renewal(lifecycle.Renew, 20), then: "ended expired", does: "tell"},
	})
}

func TestItEnds(t *testing.T) {
	removing := func(r *lifecycle.Record) { r.Removing = true }
	ok := func(r *lifecycle.Record) { r.Result = &workload.Result{State: workload.StateOK} }
	longHeld := func(f *lifecycle.Facts) { f.Time.Uptime = 48 * day }
	runAll(t, []scene{
		{name: "deleted", phase: lifecycle.Deployed, event: deletion(), then: "leaving deleted", does: "save, cancel, decommission", is: func(r lifecycle.Record) bool { return r.Reservation.Deletion != nil }},
		{name: "deleted while it is made", phase: lifecycle.Intent, event: deletion(), then: "leaving deleted", does: "save, cancel, decommission"},
		{name: "over, says a time that may be wrong", phase: lifecycle.Deployed, facts: over(clock.Stop), event: event(lifecycle.Wake), then: "stopping expired", does: "save, cancel, stop"},
		{name: "over, and nothing runs that could be stopped", phase: lifecycle.Deployed, facts: both(over(clock.Stop), holdsData), event: event(lifecycle.Wake), then: "held expired", does: "save, cancel, later"},
		{name: "over, and proven", phase: lifecycle.Deployed, facts: over(clock.Remove), event: event(lifecycle.Wake), then: "leaving expired", does: "save, cancel, decommission"},
		{name: "over by the node's own uptime", phase: lifecycle.Deployed, facts: upForAll, event: event(lifecycle.Wake), then: "leaving expired", does: "save, cancel, decommission"},
		{name: "over, and a renewal waits to be judged", phase: lifecycle.Deployed, rec: pending, facts: over(clock.Remove), event: event(lifecycle.Wake), then: "stopping expired", does: "save, cancel, stop"},
		{name: "no date is judged", phase: lifecycle.Deployed, facts: over(clock.None), event: event(lifecycle.Wake), then: "deployed", does: ""},
		{name: "stopped", phase: lifecycle.Stopping, end: workload.StateExpired, event: event(lifecycle.Stopped), then: "held expired", does: "save, later"},
		{name: "it can't be stopped yet", phase: lifecycle.Stopping, end: workload.StateExpired, event: failed(lifecycle.FailBusy), then: "stopping expired", does: "save, later"},
		{name: "held, and not proven", phase: lifecycle.Held, end: workload.StateExpired, facts: over(clock.Stop), event: event(lifecycle.Wake), then: "held expired", does: "later"},
		{name: "held, and proven", phase: lifecycle.Held, end: workload.StateExpired, facts: upForAll, event: event(lifecycle.Wake), then: "leaving expired", does: "save, cancel, decommission"},
		{name: "held by a clock that was wrong", phase: lifecycle.Held, end: workload.StateExpired, event: event(lifecycle.Wake), then: "intent", does: "save, provision"},
		{name: "so it was, and a newer one has its name", phase: lifecycle.Held, end: workload.StateExpired, rec: wasDeployed, facts: stands(lifecycle.Outdone), event: event(lifecycle.Wake), then: "replaced", does: "save, cancel"},
		{name: "evicted", phase: lifecycle.Deployed, event: event(lifecycle.Evict), then: "leaving evicted", does: "save, cancel, decommission"},
		{name: "evicted, with data", phase: lifecycle.Deployed, facts: holdsData, event: event(lifecycle.Evict), then: "held evicted", does: "save, cancel, tell, later"},
		{name: "evicted, with data, and a renewal waits: it prolongs nothing", phase: lifecycle.Deployed, rec: pending, facts: holdsData, event: event(lifecycle.Evict),
			then: "held evicted", does: "save, cancel, tell, later", is: func(r lifecycle.Record) bool { return r.Pending == nil }},
		{name: "its grace isn't over", phase: lifecycle.Held, end: workload.StateEvicted, facts: over(clock.Remove), event: event(lifecycle.Wake), then: "held evicted", does: "later"},
		{name: "its grace is over", phase: lifecycle.Held, end: workload.StateEvicted, facts: longHeld, event: event(lifecycle.Wake), then: "leaving evicted", does: "save, decommission"},
		{name: "deleted while it is held", phase: lifecycle.Held, end: workload.StateEvicted, event: deletion(), then: "leaving deleted", does: "save, cancel, decommission"},
		{name: "others use it", phase: lifecycle.Leaving, end: workload.StateDeleted, event: failed(lifecycle.FailBusy), then: "blocked deleted", does: "save, later"},
		{name: "others use it, and something may be gone", phase: lifecycle.Leaving, end: workload.StateDeleted, rec: removing, event: failed(lifecycle.FailBusy), then: "leaving deleted", does: "save, later"},
		{name: "one of them has left", phase: lifecycle.Blocked, end: workload.StateDeleted, event: event(lifecycle.Free), then: "leaving deleted", does: "save, decommission"},
		{name: "all of them have left, and something may be gone", phase: lifecycle.Leaving, end: workload.StateDeleted, rec: removing, event: event(lifecycle.Wake), then: "leaving deleted", does: "decommission"},
		{name: "its end was proven, and isn't any more", phase: lifecycle.Blocked, end: workload.StateExpired, facts: over(clock.Stop), event: event(lifecycle.Wake), then: "stopping expired", does: "save, stop"},
		{name: "it can't be removed now", phase: lifecycle.Leaving, end: workload.StateDeleted, event: failed(lifecycle.FailAgain), then: "leaving deleted", does: "save, later", is: func(r lifecycle.Record) bool { return r.Removing }},
		{name: "gone", phase: lifecycle.Leaving, end: workload.StateExpired, rec: ok, event: event(lifecycle.Decommissioned), then: "ended expired", does: "save, tell, free others",
			is: func(r lifecycle.Record) bool {
				return r.Result.State == workload.StateExpired && r.Reservation.Data == nil && !r.Begun
			}},
		{name: "gone, because it failed", phase: lifecycle.Leaving, end: workload.StateError, event: event(lifecycle.Decommissioned), then: "failed", does: "save, tell, free others"},
		{name: "its user deletes it while it leaves", phase: lifecycle.Leaving, end: workload.StateExpired, event: deletion(), then: "leaving deleted", does: "save"},
		{name: "its signed end isn't proven", phase: lifecycle.Ended, end: workload.StateDeleted, facts: over(clock.Stop), event: event(lifecycle.Wake), then: "ended deleted", does: ""},
		{name: "it is", phase: lifecycle.Ended, end: workload.StateDeleted, facts: over(clock.Remove), event: event(lifecycle.Wake), then: "ended deleted", does: "bury"},
		{name: "it is, and its user has no answer", phase: lifecycle.Ended, end: workload.StateDeleted, rec: ok, facts: over(clock.Remove), event: event(lifecycle.Wake), then: "ended deleted", does: ""},
		{name: "it is, and it could be taken in again", phase: lifecycle.Ended, end: workload.StateDeleted, facts: both(over(clock.Remove), returns), event: event(lifecycle.Wake), then: "ended deleted", does: ""},
		{name: "so could one that was evicted", phase: lifecycle.Ended, end: workload.StateEvicted, facts: both(over(clock.Remove), returns), event: event(lifecycle.Wake), then: "ended evicted", does: ""},
		{name: "and one that failed", phase: lifecycle.Failed, facts: both(over(clock.Remove), returns), event: event(lifecycle.Wake), then: "failed", does: ""},
		{name: "and one that was refused and deleted", phase: lifecycle.Refused, rec: toldDeleted, facts: both(over(clock.Remove), returns), event: event(lifecycle.Wake), then: "refused", does: ""},
		{name: "but one that was only refused may be", phase: lifecycle.Refused, facts: both(over(clock.Remove), returns), event: event(lifecycle.Wake), then: "refused", does: "bury"},
		{name: "it comes again", phase: lifecycle.Ended, end: workload.StateDeleted, rec: ok, event: event(lifecycle.Redeliver), then: "ended deleted", does: "resend"},
	})
}

func TestNamesAreTakenOver(t *testing.T) {
	old := func(r *lifecycle.Record) { named(r); wasDeployed(r) }
	errored := func(r *lifecycle.Record) { named(r); r.Reservation.Deletion = &workload.Deletion{Created: began} }
	runAll(t, []scene{
		{name: "a newer one is on the node", phase: lifecycle.Deployed, rec: old, facts: stands(lifecycle.Outdone), event: event(lifecycle.Replace), then: "replaced", does: "save, cancel"},
		{name: "and the older one never was", phase: lifecycle.Retry, rec: named, facts: stands(lifecycle.Outdone), event: event(lifecycle.Replace), then: "ended deleted", does: "save, cancel, tell, free others"},
		{name: "the older one is deleted: what is there is the newer one's", phase: lifecycle.Replaced, rec: old, facts: stands(lifecycle.Outdone), event: deletion(), then: "ended deleted", does: "save, cancel, tell, free others"},
		{name: "a newer one was accepted, and takes over what is there", phase: lifecycle.Deployed, rec: old, facts: stands(lifecycle.Awaited), event: deletion(), then: "ended deleted", does: "save, cancel, tell, free others"},
		{name: "the newest is deleted", phase: lifecycle.Deployed, rec: old, event: deletion(), then: "leaving deleted", does: "save, cancel, decommission"},
		{name: "its end is that of the older ones", phase: lifecycle.Leaving, end: workload.StateDeleted, rec: old, event: event(lifecycle.Decommissioned), then: "ended deleted", does: "save, tell, free others, end older"},
		{name: "as one of these", phase: lifecycle.Replaced, rec: old, facts: stands(lifecycle.Gone), event: lifecycle.Event{Kind: lifecycle.EndName, End: workload.StateDeleted}, then: "ended deleted", does: "save, cancel, tell, free others, end older"},
		{name: "a crash came between them", phase: lifecycle.Deployed, rec: old, facts: stands(lifecycle.Outdone), event: event(lifecycle.Restart), then: "replaced", does: "save, cancel"},
		{name: "the newer one ended without having taken anything over", phase: lifecycle.Deployed, rec: old, facts: stands(lifecycle.Gone), event: event(lifecycle.Drift), then: "leaving deleted", does: "save, cancel, decommission"},
		{name: "an update failed for good and is deleted while it leaves: the older one stays", phase: lifecycle.Leaving, end: workload.StateError, rec: errored, event: event(lifecycle.Decommissioned), then: "ended deleted", does: "save, tell, free others"},
		{name: "an update leaves because it failed, and the older one was made since", phase: lifecycle.Leaving, end: workload.StateError, rec: named, facts: stands(lifecycle.Newest), event: event(lifecycle.Wake), then: "failed", does: "save, cancel, tell, free others, mend older"},
	})
}

func TestOneTakesAnothersPlace(t *testing.T) {
	old := func(r *lifecycle.Record) { named(r); wasDeployed(r) }
	at := func(s lifecycle.Standing) func(*lifecycle.Facts) {
		return func(f *lifecycle.Facts) {
			f.Name, f.Type = s, lifecycle.TypeFacts{Stops: true, Prepares: true, Apart: true}
		}
	}
	endName := lifecycle.Event{Kind: lifecycle.EndName, End: workload.StateDeleted}
	errored := func(r *lifecycle.Record) { named(r); r.Reservation.Deletion = &workload.Deletion{Created: began} }
	told := func(r lifecycle.Record) bool {
		return r.Result != nil && r.Result.Error == "a newer reservation of its name has taken its place"
	}
	runAll(t, []scene{
		{name: "it is accepted, and outdoes those on their way", phase: lifecycle.Waiting, rec: named, facts: at(lifecycle.Newest), event: event(lifecycle.Admit), then: "intent", does: "save, fetch, outdo older"},
		{name: "as one of these", phase: lifecycle.Retry, rec: named, facts: at(lifecycle.Awaited), event: event(lifecycle.Replace), then: "leaving error", does: "save, cancel, decommission"},
		{name: "one that stands isn't", phase: lifecycle.Deployed, rec: old, facts: at(lifecycle.Awaited), event: event(lifecycle.Replace), then: "deployed", does: ""},
		{name: "its image can't be had: the older one is left alone", phase: lifecycle.Fetching, rec: named, facts: at(lifecycle.Newest), event: failed(lifecycle.FailFinal), then: "leaving error", does: "save, decommission"},
		{name: "and once nothing of it is left, the older one is looked at", phase: lifecycle.Leaving, end: workload.StateError, rec: named, facts: at(lifecycle.Newest), event: event(lifecycle.Decommissioned), then: "failed", does: "save, tell, free others, mend older"},
		{name: "also when its user deletes it meanwhile", phase: lifecycle.Leaving, end: workload.StateError, rec: errored, facts: at(lifecycle.Newest), event: event(lifecycle.Decommissioned), then: "ended deleted", does: "save, tell, free others, mend older"},
		{name: "it stands", phase: lifecycle.Intent, rec: named, facts: at(lifecycle.Newest), event: event(lifecycle.Provisioned), then: "deployed", does: "save, tell, replace older"},
		{name: "so the older one leaves, with what it wrote", phase: lifecycle.Deployed, rec: old, facts: at(lifecycle.Outdone), event: event(lifecycle.Replace), then: "leaving deleted", does: "save, cancel, decommission"},
		{name: "a crash came between them", phase: lifecycle.Deployed, rec: old, facts: at(lifecycle.Outdone), event: event(lifecycle.Restart), then: "leaving deleted", does: "save, cancel, decommission"},
		{name: "and one while it left", phase: lifecycle.Leaving, end: workload.StateDeleted, rec: old, facts: at(lifecycle.Outdone), event: event(lifecycle.Wake), then: "leaving deleted", does: "decommission"},
		{name: "its user is told why", phase: lifecycle.Leaving, end: workload.StateDeleted, rec: old, facts: at(lifecycle.Outdone), event: event(lifecycle.Decommissioned), then: "ended deleted", does: "save, tell, free others", is: told},
		{name: "but not of what they did", phase: lifecycle.Leaving, end: workload.StateDeleted, rec: func(r *lifecycle.Record) { old(r); errored(r) }, facts: at(lifecycle.Outdone), event: event(lifecycle.Decommissioned), then: "ended deleted", does: "save, tell, free others",
			is: func(r lifecycle.Record) bool { return r.Result.Error == "" }},
		{name: "the older one drifts while the newer one is fetched", phase: lifecycle.Deployed, rec: old, facts: at(lifecycle.Awaited), event: event(lifecycle.Drift), then: "intent", does: "save, fetch"},
		{name: "its user deletes the older one: what is there is its own", phase: lifecycle.Deployed, rec: old, facts: at(lifecycle.Awaited), event: deletion(), then: "leaving deleted", does: "save, cancel, decommission"},
		{name: "the newest ends before it stood: the older one ends with it", phase: lifecycle.Deployed, rec: old, facts: at(lifecycle.Gone), event: endName, then: "leaving deleted", does: "save, cancel, decommission"},
		{name: "a crash came between these", phase: lifecycle.Deployed, rec: old, facts: at(lifecycle.Gone), event: event(lifecycle.Restart), then: "leaving deleted", does: "save, cancel, decommission"},
		{name: "the newest ends while the older one leaves", phase: lifecycle.Leaving, end: workload.StateDeleted, rec: old, facts: at(lifecycle.Gone), event: endName, then: "leaving deleted", does: ""},
		{name: "its module hangs while it leaves", phase: lifecycle.Blocked, end: workload.StateDeleted, rec: old, facts: at(lifecycle.Outdone), event: event(lifecycle.Wake), then: "leaving deleted", does: "save, decommission"},
	})
}

func TestTheProcessBeginsAnew(t *testing.T) {
	runAll(t, []scene{
		{name: "it waited", phase: lifecycle.Waiting, event: event(lifecycle.Restart), then: "waiting", does: "judge"},
		{name: "it was fetched", phase: lifecycle.Fetching, event: event(lifecycle.Restart), then: "fetching", does: "fetch"},
		{name: "it was made", phase: lifecycle.Intent, event: event(lifecycle.Restart), then: "intent", does: "save, provision", is: func(r lifecycle.Record) bool { return r.Uncertain }},
		{name: "it was stopped", phase: lifecycle.Stopping, end: workload.StateExpired, event: event(lifecycle.Restart), then: "stopping expired", does: "stop"},
		{name: "it was taken down", phase: lifecycle.Leaving, end: workload.StateDeleted, event: event(lifecycle.Restart), then: "leaving deleted", does: "save, decommission", is: func(r lifecycle.Record) bool { return r.Removing }},
		{name: "it was there", phase: lifecycle.Deployed, event: event(lifecycle.Restart), then: "deployed", does: ""},
		{name: "from when nobody counted", phase: lifecycle.Deployed, rec: func(r *lifecycle.Record) { r.Since = lifecycle.Since{} }, event: event(lifecycle.Restart), then: "deployed", does: "save",
			is: func(r lifecycle.Record) bool {
				return r.Since.Known && r.Since.Floor.Equal(began) && r.Since.Uptime == 41*day
			}},
	})
}

// The methods of each phase agree with each other.
func TestPhases(t *testing.T) {
	for _, p := range lifecycle.Phases() {
		if !p.Known() || p.Tombstone() && (p.Wanted() || p.InFlight()) {
			t.Errorf("phase %s: known %t, tombstone %t, wanted %t, in flight %t", p, p.Known(), p.Tombstone(), p.Wanted(), p.InFlight())
		}
	}
	if lifecycle.None.Known() || lifecycle.Phase("other").Known() {
		t.Error("a phase that no record has is known")
	}
	all := lifecycle.Kinds()
	if slices.Sort(all); len(slices.Compact(all)) != 27 {
		t.Errorf("%d kinds of event, want 27", len(all))
	}
}
