package lifecycle

import (
	"encoding/json"
	"time"

	"github.com/croft-edge/croft/pkg/workload"
)

// Kind is what has happened.
type Kind string

// The kinds of event. What came from outside has been verified before: nothing
// is an event that its user didn't sign, or the node's owner didn't order.
const (
	// Arrive: a reservation that the node doesn't know. Event.Record holds
	// Reservation (without deletion and renewal), Hash and Name.
	Arrive Kind = "arrive"
	// Replay: a reservation whose hash the node knows under another ID, Err says
	// which. Event.Record is as for Arrive.
	Replay Kind = "replay"
	// Redeliver: the same reservation came again.
	Redeliver Kind = "redeliver"
	// Reconsider: the same came again, and the node's owner accepts older ones now.
	Reconsider Kind = "reconsider"
	// Delete: its user's deletion came.
	Delete Kind = "delete"
	// Renew: its user's renewal came, and may be followed.
	Renew Kind = "renew"
	// RenewLater: its user's renewal came, and only a better time can judge it.
	RenewLater Kind = "renew later"
	// RenewNever: the renewal that was kept for a better time may not be followed.
	RenewNever Kind = "renew never"

	// Admit, Refuse and Postpone are what the judgement says: it may begin, it
	// never may, it can't be told yet. Err says why.
	Admit    Kind = "admit"
	Refuse   Kind = "refuse"
	Postpone Kind = "postpone"

	// Fetched: what it needs is there. FetchLater: it is on its way, Progress says
	// how far.
	Fetched    Kind = "fetched"
	FetchLater Kind = "fetch later"
	// Provisioned: it is on the node; Data is its result's.
	Provisioned Kind = "provisioned"
	// Stopped: nothing of it runs. Decommissioned: nothing of it is on the node.
	Stopped        Kind = "stopped"
	Decommissioned Kind = "decommissioned"
	// FailFinal, FailAgain, FailUnknown and FailBusy are how an effect failed: for
	// good; worth another try; it may have happened; nothing was done, because
	// others need it or its module hangs.
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
	// Replace: a newer reservation of its name is on the node; to one that never
	// was, that a newer one was accepted.
	Replace Kind = "replace"
	// EndName: the newest reservation of its name has ended; End says how.
	EndName Kind = "end name"
	// Free: another workload has left.
	Free Kind = "free"
	// Restart: the process began; what was in flight is lost.
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

// Event is one thing that has happened to a record. Which members count depends
// on its Kind.
type Event struct {
	Kind Kind
	// Record is what Arrive and Replay bring.
	Record Record
	// Reservation is the whole document that Reconsider brings, with a renewal that
	// may be followed and without deletion.
	Reservation *workload.Reservation
	Deletion    *workload.Deletion
	Renewal     *workload.Renewal
	// RenewalLater is a renewal that came with Arrive or Reconsider and must wait.
	RenewalLater *workload.Renewal
	// Data is the result's, of what was provisioned or can't be.
	Data json.RawMessage
	Err  error
	// Older is whether a refusal is only for the age of the node's store.
	Older bool
	// Bound is what the workload refers to, for an attempt that begins.
	Bound map[string]workload.Hash
	End   workload.State
	// Pause is how long until what is on its way is asked for again.
	Pause time.Duration
}

// Effect is what is to be done after the record was written.
type Effect struct {
	Kind EffectKind
	// After is when the engine has to look at the record again, for Later.
	After time.Duration
	// End is for EndOlder.
	End workload.State
}

// EffectKind is a kind of effect.
type EffectKind string

// The effects. Save comes first where there is one: nothing is done or told
// before the record is durable.
const (
	// Save writes the record.
	Save EffectKind = "save"
	// Judge asks whether it may be taken in; the answer is the next event.
	Judge EffectKind = "judge"
	// DoFetch, DoProvision, DoStop and DoDecommission are asked of the
	// provisioner. Their ends come back as events.
	DoFetch        EffectKind = "fetch"
	DoProvision    EffectKind = "provision"
	DoStop         EffectKind = "stop"
	DoDecommission EffectKind = "decommission"
	// Cancel ends what is in flight for the record.
	Cancel EffectKind = "cancel"
	// Later looks at the record again after a while.
	Later EffectKind = "later"
	// Tell sends its result to the explorer; Resend also when it has it already.
	Tell   EffectKind = "tell"
	Resend EffectKind = "resend"
	// Bury forgets the record.
	Bury EffectKind = "bury"
	// ReplaceOlder and EndOlder send Replace and EndName to the older records of
	// its name, OutdoOlder sends Replace to those that never were on the node;
	// MendOlder has the one that stands looked at.
	ReplaceOlder EffectKind = "replace older"
	OutdoOlder   EffectKind = "outdo older"
	EndOlder     EffectKind = "end older"
	MendOlder    EffectKind = "mend older"
	// FreeOthers sends Free to what is blocked.
	FreeOthers EffectKind = "free others"
	// Impossible says that this event can't come in this phase: it is logged.
	Impossible EffectKind = "impossible"
)
