// Package verdict judges an explorer's answer about a reservation. The explorer
// is trusted with nothing: the document must be the one that was signed, and a
// result counts only when the node's key has signed it for that document. It
// is pure.
package verdict

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/cmd/croft/internal/state"
	"github.com/croft-edge/croft/pkg/explorer"
	"github.com/croft-edge/croft/pkg/workload"
)

// State is a reservation's state: that of its verified result, or one of these.
type State = workload.State

// The states beside those of a result.
const (
	// Unpushed: signed here, and the explorer's answer isn't known.
	Unpushed State = "unpushed"
	// Pending: the node hasn't answered.
	Pending State = "pending"
	// Deleting: the deletion is signed, and the node hasn't confirmed it.
	Deleting State = "deleting"
	// Lost: the explorer doesn't know it.
	Lost State = "lost"
	// Forged: the explorer shows another document than the signed one.
	Forged State = "forged"
	// Unverified: the result is of version 1, which proves too little.
	Unverified State = "unverified"
	// Unseen: the explorer is away, and its node wasn't reached.
	Unseen State = "unseen"
)

// Verdict is the judgement of an answer about a reservation.
type Verdict struct {
	State State
	// Verified is whether State comes from a result that the node signed for this document.
	Verified bool
	// Problem is why the explorer's answer can't be believed; empty when it can.
	Problem string
	// Error is the node's, where State is error or evicted.
	Error string
	// Data is the verified result's, Result all of it.
	Data   json.RawMessage
	Result *workload.Result
	// Seen is the newest verified result: an earlier one, or this one.
	Seen state.Seen
}

// Judge judges the explorer's answer. own is the document as it was signed
// here; nil when it wasn't, and then the shown one must carry its user's signature.
func Judge(own *workload.Reservation, shown explorer.Reservation, seen state.Seen) Verdict {
	hash, err := theDocument(own, &shown.Reservation)
	if err != nil {
		return Verdict{State: Forged, Problem: err.Error(), Seen: seen}
	}
	v := answer(shown, hash, seen)
	if !workload.Ended(v.State) && v.Problem == "" && leaving(own, &shown.Reservation) {
		v.State = Deleting
	}
	return v
}

func theDocument(own, shown *workload.Reservation) (workload.Hash, error) {
	hash, err := shown.Hash()
	if err != nil {
		return hash, err
	}
	if own == nil {
		return hash, workload.Verify(shown)
	}
	want, err := own.Hash()
	if err != nil {
		return hash, err
	}
	if hash != want {
		return hash, errors.Errorf("the explorer shows another document under %s than the one that was signed", own.ID)
	}
	return hash, nil
}

// answer judges the result.
func answer(shown explorer.Reservation, hash workload.Hash, seen state.Seen) Verdict {
	r := shown.Result
	if r == nil {
		v := Verdict{State: Pending, Seen: seen}
		if seen.Sequence > 0 {
			v.Problem = fmt.Sprintf("the explorer shows no result, and result %d of the node was seen before", seen.Sequence)
		}
		return v
	}
	if len(r.Hash) == 0 {
		return Verdict{State: Unverified, Error: r.Error, Seen: seen, Problem: "the result is of version 1, whose signature binds it to no reservation"}
	}
	if r.ID != shown.ID || r.Type != shown.Type {
		return Verdict{State: Forged, Seen: seen, Problem: fmt.Sprintf("the result is of %s %s", r.Type, r.ID)}
	}
	if err := workload.VerifyResult(r, shown.NodeID, hash); err != nil {
		return Verdict{State: Forged, Seen: seen, Problem: err.Error()}
	}
	v := Verdict{State: r.State, Verified: true, Error: r.Error, Data: r.Data, Result: r, Seen: seen}
	now := state.Seen{Birth: r.Birth, Sequence: r.Sequence, Created: r.Created}
	if older(now, seen) {
		v.Problem = fmt.Sprintf("the explorer shows result %d of the node (%s), and the newer result %d (%s) was seen before",
			now.Sequence, stamp(now.Created), seen.Sequence, stamp(seen.Created))
		return v
	}
	v.Seen = now
	return v
}

// older reports whether a result comes before one that was seen. Within one
// birth the sequence counts; a store with another birth counts from 1 again,
// so then it is the node's time.
func older(now, seen state.Seen) bool {
	if now.Birth == seen.Birth {
		return now.Sequence < seen.Sequence
	}
	return now.Created.Before(seen.Created)
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// leaving reports whether the user has signed the reservation's deletion.
func leaving(own, shown *workload.Reservation) bool {
	if own != nil && own.Deletion != nil {
		return true
	}
	return shown.Deletion != nil && workload.VerifyDeletion(shown) == nil
}

// Expires is when a reservation ends: the renewal that the explorer shows
// counts only with the user's signature, and only if it ends later than the
// end known here.
func Expires(own *workload.Reservation, shown *workload.Reservation) time.Time {
	base := own
	if base == nil {
		base = shown
	}
	out := base.Created.Add(base.Duration)
	for _, r := range []*workload.Reservation{own, shown} {
		if r != nil && r.Renewal != nil && workload.VerifyRenewal(r) == nil && r.Renewal.Expires.After(out) {
			out = r.Renewal.Expires
		}
	}
	return out
}
