package lifecycle

// action is a cell of the table.
type action struct {
	// name stands in the table, does in the legend below it.
	name string
	does string
	do   func(t *turn)
}

// act is the table: the action for an event in a phase.
func act(p Phase, k Kind) action {
	if cell, ok := row(p)[k]; ok {
		return cell
	}
	if own, ok := anywhere(p)[k]; ok {
		return own
	}
	return impossible()
}

// row are the actions particular to one phase.
func row(p Phase) map[Kind]action {
	switch p {
	case None:
		return map[Kind]action{Arrive: take(), Replay: dismiss()}
	case Waiting:
		return map[Kind]action{
			Admit: admit(), Refuse: refuse(), Postpone: postpone(),
			Delete: forbid(), Renew: renew(), RenewLater: pend(), RenewNever: reject(), Evict: evict(), Wake: judge(), Restart: judge(),
		}
	case Fetching:
		return with(alive(), map[Kind]action{
			Fetched: provision(), FetchLater: fetchLater(), Wake: fetchOrEnd(), Restart: resume(), Replace: yield(),
			FailFinal: giveUp(), FailAgain: retry(), FailUnknown: retry(), FailBusy: retry(),
		})
	case Intent:
		return with(alive(), map[Kind]action{
			Fetched: provision(), FetchLater: fetchLater(), Provisioned: deployed(), Wake: attemptOrEnd(), Restart: resume(), Replace: yield(),
			FailFinal: giveUp(), FailAgain: retry(), FailUnknown: retry(), FailBusy: retry(),
		})
	case Retry:
		return with(alive(), map[Kind]action{Wake: attemptOrEnd(), Restart: settle(), Replace: yield()})
	case Deployed:
		return with(alive(), map[Kind]action{Wake: endIfOver(), Drift: mend(), Restart: settle(), Replace: yield()})
	case Replaced:
		return with(alive(), map[Kind]action{Wake: endIfProven(), Restart: settle(), Replace: nothing()})
	case Stopping:
		return with(over(), map[Kind]action{
			Stopped: hold(), FailFinal: stopAgain(), FailAgain: stopAgain(), FailUnknown: stopAgain(), FailBusy: stopAgain(),
			Wake: stopOrLeave(), Restart: resume(), Replace: yield(),
		})
	case Held:
		return with(over(), map[Kind]action{Wake: keepOrLeave(), Restart: settle(), Replace: yield()})
	case Blocked:
		return with(over(), map[Kind]action{Wake: leaveOrKeep(), Free: leaveOrKeep(), Restart: since(), Replace: endNow()})
	case Leaving:
		return map[Kind]action{
			Decommissioned: ended(), FailBusy: block(), FailFinal: leaveAgain(), FailAgain: leaveAgain(), FailUnknown: leaveAgain(),
			Wake: decommission(), Delete: deleteLeaving(), Renew: pend(), RenewLater: pend(), RenewNever: reject(), Restart: resume(), Replace: endNow(), EndName: endNow(),
		}
	case Ended:
		return map[Kind]action{Wake: bury()}
	case Failed:
		return map[Kind]action{Wake: bury(), Delete: deleteNow()}
	case Refused:
		return map[Kind]action{Wake: bury(), Delete: deleteRefused(), Reconsider: retake()}
	}
	return nil
}

// alive are the actions of the phases in which the node should have the workload.
func alive() map[Kind]action {
	return map[Kind]action{
		Delete: end(), Evict: evict(), Renew: renew(), RenewLater: pend(), RenewNever: reject(), EndName: endWithName(), Drift: nothing(), Free: nothing(),
	}
}

// over are the actions of the phases in which its end has come and nothing of it
// has been removed.
func over() map[Kind]action {
	return map[Kind]action{
		Delete: end(), Renew: revive(), RenewLater: pend(), RenewNever: reject(), EndName: endWithName(), Drift: nothing(), Free: nothing(), Evict: nothing(),
	}
}

// anywhere are the default actions of every phase.
func anywhere(p Phase) map[Kind]action {
	if p == None {
		return nil
	}
	m := map[Kind]action{Redeliver: tell(), Reconsider: tell(), Restart: since()}
	for _, k := range []Kind{
		Wake, Drift, Evict, Replace, EndName, Free, RenewNever,
		// The outcome of an effect whose record has gone another way since.
		Fetched, FetchLater, Provisioned, Stopped, Decommissioned, FailFinal, FailAgain, FailUnknown, FailBusy,
	} {
		m[k] = nothing()
	}
	m[Delete], m[Renew], m[RenewLater] = tell(), tell(), tell()
	return m
}

// with is base with more's actions added or replaced.
func with(base, more map[Kind]action) map[Kind]action {
	for k, a := range more {
		base[k] = a
	}
	return base
}
