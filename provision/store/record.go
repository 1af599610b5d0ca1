package store

import (
	"time"

	"github.com/croft-edge/croft/pkg/workload"
)

// Phase is how far a record's workload has come.
type Phase string

// The phases. A record is begun as Intent and goes
//
//	Intent ─► Deployed ─► Leaving ─► Ended
//	   │         ▲           ▲
//	   ├► Retry ─┘───────────┤
//	   └► Failed ────────────┘
const (
	// Intent: a provision has begun; anything of it may be on the node.
	Intent Phase = "intent"
	// Retry: the last attempt failed and was undone; NextAttempt says when to try again.
	Retry Phase = "retry"
	// Deployed: it is on the node.
	Deployed Phase = "deployed"
	// Failed: refused or failed for good; nothing of it is on the node.
	Failed Phase = "failed"
	// Leaving: a decommission has begun; anything of it may still be on the node.
	Leaving Phase = "leaving"
	// Ended: nothing of it is on the node. A tombstone, kept until the signed expiry.
	Ended Phase = "ended"
)

// Record is all that the node remembers of one reservation. There is one a
// reservation ID, and it is written whole.
type Record struct {
	// Reservation as it came, Data byte for byte. Its Deletion and Renewal are
	// the newest verified ones. Secrets in it stay sealed.
	Reservation *workload.Reservation
	// Hash is what was signed; two records never share one.
	Hash  workload.Hash
	Phase Phase

	// Result is the newest answer, unsigned (it is signed when it is sent);
	// nil while there is none.
	Result *workload.Result
	// Delivered is whether the explorer has acknowledged Result.
	Delivered bool

	// End is why the workload is leaving or has ended: deleted, expired or
	// evicted. Empty otherwise.
	End workload.State

	// Attempts counts provisions begun since the last success, Cause is the
	// error of the last one, NextAttempt when Retry tries again.
	Attempts    int
	Cause       string
	NextAttempt time.Time

	// Accepted is when the node took the reservation in, Deployed when its
	// workload was first on the node: zero while it never was.
	Accepted time.Time
	Deployed time.Time

	// Refusal marks an answer to what was never taken in: the same reservation
	// under another ID. Its Hash isn't found by ByHash, and it goes once the
	// explorer has its result.
	Refusal bool
}

// Tombstone reports whether nothing of it is on the node and nothing will be.
func (r Record) Tombstone() bool { return r.Phase == Ended || r.Phase == Failed }

// ID is the record's reservation ID.
func (r Record) ID() string { return r.Reservation.ID }

// Clone returns a copy that shares nothing that either side changes in place.
func (r Record) Clone() Record {
	if r.Reservation != nil {
		c := *r.Reservation
		r.Reservation = &c
	}
	if r.Result != nil {
		c := *r.Result
		r.Result = &c
	}
	return r
}

// Records is what the engine needs of a store. Every method that changes
// something returns once the change is durable. Errors carry a node.Kind:
// NotExist, Exist, NoSpace, Internal.
type Records interface {
	// Begin writes a new record, or the next state of the one of that ID. It
	// is the write before an effect: an intent, an end. Exist when another
	// record has the same hash, or the one of that ID another hash.
	Begin(r Record) error
	// Finish writes what came of it: phase, result, attempts. It is the write
	// after an effect, and may be the first of a record that has none (a
	// refusal). A result without a Sequence is new: it gets the next one, the
	// record's ID, hash and node, the store's Birth, and isn't delivered. A
	// result with one is the record's own and stays as it is.
	Finish(r Record) (Record, error)
	// Resend makes the record's result undelivered, because the explorer has
	// asked for it again. Nothing happens when there is none.
	Resend(id string) error
	// Acknowledge notes that the explorer has the result of that sequence; an
	// older sequence than the record's is ignored. A Refusal is removed.
	Acknowledge(id string, sequence int64) error
	// Bury removes a tombstone for good. Refused unless its phase is Ended or
	// Failed; Busy while the explorer doesn't have its result.
	Bury(id string) error

	// Record returns the record of that ID, whatever its phase. NotExist when there is none.
	Record(id string) (Record, error)
	// ByHash returns the record of that hash. NotExist when there is none.
	ByHash(h workload.Hash) (Record, error)
	// Undelivered returns the records whose result the explorer doesn't have, oldest sequence first.
	Undelivered() ([]Record, error)
	// List returns all records, by ID.
	List() ([]Record, error)

	// Newest is the latest Created that the node has accepted for a network's
	// key, remembered past its record's burial; false when there was none.
	Newest(key NetworkKey) (time.Time, bool)
}
