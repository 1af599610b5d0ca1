package lifecycle

// Phase is how far a record's workload has come.
type Phase string

// The phases. What each says of the node also holds right after a crash.
const (
	// None: there is no record. No record has this phase.
	None Phase = ""
	// Waiting: it was signed by its user for this node, and can't be judged yet.
	// Nothing of it is on the node, and no room is promised to it.
	Waiting Phase = "waiting"
	// Fetching: its room is promised; the parts that it needs are being fetched.
	Fetching Phase = "fetching"
	// Intent: it is being provisioned; anything of it may be on the node.
	Intent Phase = "intent"
	// Retry: the last attempt failed; NextAttempt says when to try again.
	Retry Phase = "retry"
	// Deployed: it is on the node.
	Deployed Phase = "deployed"
	// Replaced: the workload under its name is a newer reservation's.
	Replaced Phase = "replaced"
	// Stopping: it has expired or was evicted; it is being stopped, its data must stay for now.
	Stopping Phase = "stopping"
	// Held: as Stopping, and stopped; its data stays until its end is proven, or until
	// its grace is over.
	Held Phase = "held"
	// Leaving: it is being decommissioned; anything of it may be gone.
	Leaving Phase = "leaving"
	// Blocked: its end is decided; others use it, nothing of it has been removed.
	Blocked Phase = "blocked"
	// Ended: nothing of it is on the node. A tombstone, kept until its signed end is
	// proven to have passed, so that nobody can bring it again.
	Ended Phase = "ended"
	// Failed: it was attempted and failed for good. A tombstone like Ended.
	Failed Phase = "failed"
	// Refused: it was refused before anything was done. A tombstone like Ended.
	Refused Phase = "refused"
	// Dismissed: it was never accepted, and is forgotten once its user has the answer:
	// a replay, or one refused beyond the limit.
	Dismissed Phase = "dismissed"
)

// Phases returns all phases that a record may have, in the order of a life.
func Phases() []Phase {
	return []Phase{Waiting, Fetching, Intent, Retry, Deployed, Replaced, Stopping, Held, Blocked, Leaving, Ended, Failed, Refused, Dismissed}
}

// Known reports whether a record may have this phase.
func (p Phase) Known() bool {
	switch p {
	case Waiting, Fetching, Intent, Retry, Deployed, Replaced, Stopping, Held, Blocked, Leaving, Ended, Failed, Refused, Dismissed:
		return true
	}
	return false
}

// Tombstone reports whether nothing of it is on the node and nothing will be.
func (p Phase) Tombstone() bool {
	return p == Ended || p == Failed || p == Refused || p == Dismissed
}

// Wanted reports whether the node should have its workload: missing parts are
// made.
func (p Phase) Wanted() bool {
	return p == Waiting || p == Fetching || p == Intent || p == Retry || p == Deployed
}

// InFlight reports whether a record in this phase has, or had when the node
// stopped, a begun effect whose outcome isn't known.
func (p Phase) InFlight() bool {
	return p == Fetching || p == Intent || p == Stopping || p == Leaving
}
