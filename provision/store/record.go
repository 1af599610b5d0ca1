package store

import (
	"time"

	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/lifecycle"
	"github.com/croft-edge/croft/provision/provisioner"
)

// Record is the node's whole memory of one reservation. Package lifecycle defines and
// changes it; the store keeps it.
type Record = lifecycle.Record

// Phase is how far a record's workload has come.
type Phase = lifecycle.Phase

// The phases: see package lifecycle.
const (
	Waiting   = lifecycle.Waiting
	Fetching  = lifecycle.Fetching
	Intent    = lifecycle.Intent
	Retry     = lifecycle.Retry
	Deployed  = lifecycle.Deployed
	Replaced  = lifecycle.Replaced
	Stopping  = lifecycle.Stopping
	Held      = lifecycle.Held
	Blocked   = lifecycle.Blocked
	Leaving   = lifecycle.Leaving
	Ended     = lifecycle.Ended
	Failed    = lifecycle.Failed
	Refused   = lifecycle.Refused
	Dismissed = lifecycle.Dismissed
)

// NetworkKey identifies the name of a network or container inside the node. A network's
// short ID on the wire is for display.
type NetworkKey = lifecycle.NameKey

// KeyOf returns the key of the name that r is reserved under; false when its type has no
// name, or the name can't be read.
func KeyOf(r *workload.Reservation) (NetworkKey, bool) { return lifecycle.NameOf(r) }

// Usage sums up the remembered records and the promised room.
type Usage struct {
	// Records counts all records but Dismissed ones.
	Records int
	// Workloads counts the records that hold their promised room (Record.Present), Demand
	// sums the room of those that use it (Record.Takes).
	Workloads int
	Demand    provisioner.Demand
	// Waiting counts those in phase Waiting.
	Waiting int
}

// Plus returns the sum of u and other.
func (u Usage) Plus(other Usage) Usage {
	return Usage{
		Records: u.Records + other.Records, Workloads: u.Workloads + other.Workloads,
		Waiting: u.Waiting + other.Waiting, Demand: u.Demand.Add(other.Demand),
	}
}

// Less returns u less other.
func (u Usage) Less(other Usage) Usage {
	return Usage{
		Records: u.Records - other.Records, Workloads: u.Workloads - other.Workloads,
		Waiting: u.Waiting - other.Waiting, Demand: u.Demand.Sub(other.Demand),
	}
}

// Receipt confirms that the explorer has the result of that sequence, sent when it had been
// asked for again so many times.
type Receipt struct {
	ID       string
	Sequence int64
	Resends  int
}

// ReceiptFor returns the receipt for the result of rec, as Undelivered returned it before it was sent.
func ReceiptFor(rec Record) Receipt {
	return Receipt{ID: rec.ID(), Sequence: rec.Result.Sequence, Resends: rec.Resends}
}

// Confirms reports whether r is a receipt for rec's result. After the explorer asked for the
// result again, as one restored from a backup does, an earlier receipt isn't.
func (r Receipt) Confirms(rec Record) bool {
	return rec.Result != nil && rec.Result.Sequence == r.Sequence && rec.Resends == r.Resends
}

// Records is the engine's view of a store. Every method that changes something returns once the change
// is durable. Errors carry a node.Kind: NotExist, Exist, NoSpace, Invalid, Internal.
type Records interface {
	// Write makes all of recs durable in one go and returns them as written. Each is new or
	// replaces the record of its ID. When it fails none of them counts as written; a
	// restart may find some of them.
	//
	// A result without a Sequence is new: it gets the next one, the record's ID,
	// hash and node, the store's Birth, and isn't delivered. A result with one
	// stays as it is, and so does a newer acknowledgement of it. A Dismissed
	// record whose result is delivered is removed.
	//
	// Exist when another record has the same hash, or the record of that ID another hash;
	// Dismissed ones have no claim to either. Invalid for a record that can't be stored, or
	// two of one ID.
	Write(recs ...Record) ([]Record, error)
	// Resend marks the results of records undelivered, because the explorer has asked for
	// them again: from now on only a receipt for a later sending counts. A result of an
	// earlier birth becomes one of this birth, with the next sequence. Missing records and
	// those without a result are skipped, and an ID that is given twice counts once.
	Resend(ids ...string) error
	// Acknowledge notes in one go that the explorer has those results. A receipt for a
	// missing record is ignored, and so is one that doesn't confirm its result
	// (Receipt.Confirms). A Dismissed record is removed.
	Acknowledge(receipts ...Receipt) error
	// Bury removes a tombstone for good. Refused when the record isn't one; Busy while the
	// explorer doesn't have its result.
	Bury(id string) error

	// Record returns the record of that ID, whatever its phase. NotExist when there is none.
	Record(id string) (Record, error)
	// ByHash returns the record of that hash that isn't Dismissed. NotExist when there is none.
	ByHash(h workload.Hash) (Record, error)
	// Undelivered returns the records whose result the explorer doesn't have, oldest sequence first.
	Undelivered() ([]Record, error)
	// List returns all records, by ID.
	List() ([]Record, error)
	// OfType returns the records of a type that aren't tombstones, by ID.
	OfType(t workload.Type) ([]Record, error)
	// Counters counts the deployed, unexpired workloads by type.
	Counters() workload.ProvisionCounters
	// Count is how many records are in that phase.
	Count(p Phase) int

	// Usage sums up a user's records, and those of all users.
	Usage(user string) (of, all Usage)
	// Named returns the records that were accepted under a name
	// (Record.HoldsName), the oldest Created first.
	Named(key NetworkKey) ([]Record, error)
	// Newest is the latest Created that the node has accepted for a name's key,
	// remembered past its record's burial; false when there was none.
	Newest(key NetworkKey) (time.Time, bool)
}
