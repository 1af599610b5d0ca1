package lifecycle

import (
	"encoding/json"
	"time"

	"github.com/croft-edge/croft/pkg/workload"
)

// Kind is a kind of event.
type Kind string

// The kinds of event. Those from outside have been verified before: every one was
// signed by the reservation's user, or ordered by the node's owner.
const (
	// Arrive: a reservation that the node doesn't know. Event.Record holds Reservation
	// (without deletion and renewal), Hash and Name.
	Arrive Kind = "arrive"
	// Replay: a reservation whose hash the node knows under another ID, which Err
	// names. Event.Record is as for Arrive.
	Replay Kind = "replay"
	// Redeliver: the same reservation came again.
	Redeliver Kind = "redeliver"
	// Reconsider: the same reservation came again, and the node's owner accepts older ones now.
	Reconsider Kind = "reconsider"
	// Delete: its user's deletion came.
	Delete Kind = "delete"
	// Renew: its user's renewal came, and may be applied.
	Renew Kind = "renew"
	// RenewLater: its user's renewal came, and only a better time can judge it.
	RenewLater Kind = "renew later"
	// RenewNever: the pending renewal may not be applied.
	RenewNever Kind = "renew never"

	// Admit, Refuse and Postpone are the verdicts: it may begin, it never may, it
	// can't be judged yet. Err says why.
	Admit    Kind = "admit"
	Refuse   Kind = "refuse"
	Postpone Kind = "postpone"

	// Fetched: the parts that it needs are there. FetchLater: they are on their way;
	// Pause says when to ask again.
	Fetched    Kind = "fetched"
	FetchLater Kind = "fetch later"
	// Provisioned: it is on the node; Data is its result's.
	Provisioned Kind = "provisioned"
	// Stopped: nothing of it runs. Decommissioned: nothing of it is on the node.
	Stopped        Kind = "stopped"
	Decommissioned Kind = "decommissioned"
	// FailFinal, FailAgain, FailUnknown and FailBusy are how an effect failed: for
	// good; worth another try; it may have happened; nothing was done, because others
	// need it or its module hangs.
	FailFinal   Kind = "fail final"
	FailAgain   Kind = "fail again"
	FailUnknown Kind = "fail unknown"
	FailBusy    Kind = "fail busy"

	// Wake: its end, its proof or its next attempt may have come.
	Wake Kind = "wake"
	// Drift: it isn't on the node as it was made.
	Drift Kind = "drift"
	// Evict: the node's owner wants it off the machine.
	Evict Kind = "evict"
	// Replace: a newer reservation of its name is on the node; for a record that was
	// never deployed, it was accepted.
	Replace Kind = "replace"
	// EndName: the newest reservation of its name has ended; End says how.
	EndName Kind = "end name"
	// Free: another workload has left.
	Free Kind = "free"
	// Restart: the process began; effects in flight are lost.
	Restart Kind = "restart"
)

// Kinds returns all kinds of event, in the order of the table.
func Kinds() []Kind {
	return []Kind{
		Arrive, Replay, Redeliver, Reconsider, Delete, Renew, RenewLater, RenewNever,
		Admit, Refuse, Postpone,
		Fetched, FetchLater, Provisioned, Stopped, Decommissioned, FailFinal, FailAgain, FailUnknown, FailBusy,
		Wake, Drift, Evict, Replace, EndName, Free, Restart,
	}
}

// Event is one event of a record. Its Kind decides which members count.
type Event struct {
	Kind Kind
	// Record is the new record of Arrive and Replay.
	Record Record
	// Reservation is the whole document for Reconsider, with a renewal that may be
	// applied and without deletion.
	Reservation *workload.Reservation
	Deletion    *workload.Deletion
	Renewal     *workload.Renewal
	// RenewalLater is a renewal that came with Arrive or Reconsider and must wait.
	RenewalLater *workload.Renewal
	// Data is the result's data, of a provision that succeeded or failed.
	Data json.RawMessage
	Err  error
	// Older is whether a refusal is only for the age of the node's store.
	Older bool
	// Bound are the hashes of the volumes that the workload refers to, by ID, for an attempt.
	Bound map[string]workload.Hash
	End   workload.State
	// Pause is how long until a fetch's progress is asked for again.
	Pause time.Duration
}

// Effect is an action to carry out after the record was written.
type Effect struct {
	Kind EffectKind
	// After is when the engine has to look at the record again, for Later.
	After time.Duration
	// End is for EndOlder.
	End workload.State
}

// EffectKind is a kind of effect.
type EffectKind string

// The effects. Save comes first where there is one: no effect runs and no answer
// is sent before the record is durable.
const (
	// Save writes the record.
	Save EffectKind = "save"
	// Judge asks whether it may be accepted; the answer is the next event.
	Judge EffectKind = "judge"
	// DoFetch, DoProvision, DoStop and DoDecommission call the provisioner. Their
	// outcomes come back as events.
	DoFetch        EffectKind = "fetch"
	DoProvision    EffectKind = "provision"
	DoStop         EffectKind = "stop"
	DoDecommission EffectKind = "decommission"
	// Cancel ends the record's effects in flight.
	Cancel EffectKind = "cancel"
	// Later looks at the record again after a while.
	Later EffectKind = "later"
	// Tell sends its result to the explorer; Resend also when the explorer has it already.
	Tell   EffectKind = "tell"
	Resend EffectKind = "resend"
	// Bury forgets the record.
	Bury EffectKind = "bury"
	// ReplaceOlder and EndOlder send Replace and EndName to the older records of its
	// name, OutdoOlder sends Replace to those that were never deployed; MendOlder
	// sends Drift to the newest deployed one.
	ReplaceOlder EffectKind = "replace older"
	OutdoOlder   EffectKind = "outdo older"
	EndOlder     EffectKind = "end older"
	MendOlder    EffectKind = "mend older"
	// FreeOthers sends Free to the records that it blocked.
	FreeOthers EffectKind = "free others"
	// Impossible says that this event can't come in this phase: it is logged.
	Impossible EffectKind = "impossible"
)
