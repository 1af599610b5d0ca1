package store

import (
	"bytes"
	"encoding/json"
	"strings"
	"time"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/pkg/versioned"
	"github.com/croft-edge/croft/pkg/workload"
)

// Texts that major 2 put into Cause, and based decisions on.
const (
	oldWaitsForFetch = "what it needs is being fetched"
	// oldBornBefore ends its refusals of reservations older than the store.
	oldBornBefore = "the node's store was made"
	oldNewStore   = "the node's store is new"
)

// migrate converts a record of major 2: r has its members, and refusal is the member that has become a
// phase. Major 2 had six phases, and encoded the rest in Attempts, End and Cause.
func migrate(r Record, refusal bool) Record {
	r.Name, _ = KeyOf(r.Reservation)
	switch r.Phase {
	case Retry:
		migrateRetry(&r)
	case Intent, Deployed:
		r.Admitted, r.Begun = true, true
	case Leaving:
		migrateLeaving(&r)
	case Failed:
		migrateFailed(&r, refusal)
	case Ended:
		// A network's record stays the newest of its name: no older one is accepted again.
		r.Admitted = !r.Deployed.IsZero() || r.Reservation.Type == workload.TypeNetwork
		r.Cause = ""
	default:
		r.Phase = ""
	}
	r.Unlabelled = r.Begun
	if r.Tombstone() {
		reduce(&r)
	}
	return r
}

// migrateRetry tells records that wait to be judged or fetched from those to be retried.
func migrateRetry(r *Record) {
	if r.Attempts == 0 && r.Deployed.IsZero() {
		r.Phase = Waiting
		if r.Cause == oldWaitsForFetch {
			r.Phase = Fetching
		}
	}
	r.Admitted = r.Phase != Waiting
	r.Begun = r.Admitted
}

// migrateLeaving tells held and stopping workloads from those being removed.
func migrateLeaving(r *Record) {
	r.Admitted, r.Begun = true, true
	evicted := r.End == workload.StateEvicted
	switch {
	case r.Attempts > 0:
		r.Removing = true
	case r.End == workload.StateExpired, evicted && r.Result != nil && r.Result.State == workload.StateEvicted:
		r.Phase = Held
	case evicted:
		r.Phase = Stopping
	}
}

// migrateFailed tells dismissed and never attempted reservations from failed ones.
func migrateFailed(r *Record, refusal bool) {
	switch {
	case refusal:
		r.Phase = Dismissed
	case r.Attempts == 0:
		r.Phase = Refused
		r.Older = strings.HasSuffix(r.Cause, oldBornBefore) || strings.HasSuffix(r.Cause, oldNewStore)
	}
}

// reduce strips a tombstone as lifecycle does.
func reduce(r *Record) {
	full := r.Reservation
	r.Reservation = &workload.Reservation{
		ID: full.ID, NodeID: full.NodeID, User: full.User, Type: full.Type, Version: full.Version,
		Created: full.Created, Duration: full.Duration,
	}
	if full.Renewal != nil {
		r.Reservation.Renewal = &workload.Renewal{Expires: full.Renewal.Expires}
	}
	r.Attempts, r.NextAttempt = 0, time.Time{}
}

// decodeSeed reads a file of the seed's store: the JSON of a deployed reservation, after a
// header 1.0.0 or none.
func decodeSeed(v versioned.Version, body []byte) (Record, error) {
	if (v != versioned.Version{}) && (v != versioned.Version{Major: 1}) {
		return Record{}, errors.Errorf("its version is %s; 0.0.0, 1.0.0 and %d to %s can be read", v, oldestSealed, fileVersion())
	}
	var r workload.Reservation
	if err := json.Unmarshal(bytes.TrimSpace(body), &r); err != nil {
		return Record{}, errors.Wrap(err, "it isn't JSON of a reservation")
	}
	return Adopted(&r, r.Created)
}

// Adopted makes the record of a reservation that something other than this croft has
// deployed.
func Adopted(r *workload.Reservation, at time.Time) (Record, error) {
	hash, err := r.Hash()
	if err != nil {
		return Record{}, err
	}
	rec := Record{
		Reservation: r, Hash: hash, Phase: Deployed, Delivered: true, Admitted: true, Begun: true, Unlabelled: true,
		Accepted: at, Deployed: at,
	}
	rec.Name, _ = KeyOf(r)
	return rec, nil
}
