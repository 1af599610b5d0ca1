package provision

import (
	"context"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/store"
)

// known handles a reservation that has a record: a deletion, a renewal, its
// end, or a redelivery, which is answered from the record.
func (e *NodeEngine) known(ctx context.Context, rec store.Record, r *workload.Reservation) error {
	if r.Deletion != nil && rec.Reservation.Deletion == nil && rec.Phase != store.Ended {
		rec.Reservation = withDeletion(rec.Reservation, r.Deletion)
		return e.leave(ctx, rec, workload.StateDeleted)
	}
	if rec.Phase == store.Failed && e.changedMind(rec) {
		return e.consider(ctx, rec)
	}
	if lives(rec.Phase) && e.acceptRenewal(&rec, r) {
		return e.renewed(rec)
	}
	if lives(rec.Phase) && e.over(rec) {
		return e.leave(ctx, rec, workload.StateExpired)
	}
	return e.tellAgain(rec)
}

// lives reports whether a workload in that phase is one the node should have.
func lives(p store.Phase) bool {
	return p == store.Intent || p == store.Retry || p == store.Deployed
}

// changedMind reports whether what was refused for its dates, by a store that
// was born after it, would be taken in today: the operator may have said so.
func (e *NodeEngine) changedMind(rec store.Record) bool {
	return rec.Attempts == 0 && rec.Result != nil && rec.Result.State == workload.StateError &&
		rec.Cause != "" && e.refusedForBirth(rec)
}

// tellAgain makes feedback send what it has sent already: whoever asks again may not have it.
func (e *NodeEngine) tellAgain(rec store.Record) error {
	if rec.Result == nil || !rec.Delivered {
		e.feedback.Kick()
		return nil
	}
	rec.Delivered = false
	if err := e.begin(rec); err != nil {
		return err
	}
	e.feedback.Kick()
	return nil
}

// acceptRenewal puts r's renewal into rec if it is its user's and prolongs.
func (e *NodeEngine) acceptRenewal(rec *store.Record, r *workload.Reservation) bool {
	renewal := r.Renewal
	if renewal == nil {
		return false
	}
	base := *rec.Reservation
	if rec.Reservation == r { // it came with its renewal: what it is without is what counts
		base.Renewal = nil
		rec.Reservation = &base
	}
	if !renewal.Expires.After(base.Expires()) {
		return false
	}
	candidate := base
	candidate.Renewal = renewal
	if err := e.guard("renew", r.ID, func() error { return e.policy.Renewal(&candidate) }); err != nil {
		e.dropped("renewal", r, err)
		return false
	}
	rec.Reservation = &candidate
	return true
}

// renewed writes a record that lives longer. The answer is the one there is,
// told again, so that the user sees that the node has heard.
func (e *NodeEngine) renewed(rec store.Record) error {
	if rec.Result == nil {
		if err := e.begin(rec); err != nil {
			return err
		}
	} else {
		again := *rec.Result
		again.Created = e.now()
		rec.Result = &again
		if err := e.finish(rec); err != nil {
			return err
		}
	}
	e.log.Info().Str("id", rec.ID()).Str("type", string(rec.Reservation.Type)).Str("step", "renew").
		Time("expires", rec.Reservation.Expires()).Msg("renewed")
	return nil
}

// over reports whether rec's time has ended by a clock that can be trusted.
func (e *NodeEngine) over(rec store.Record) bool {
	now, trusted := e.clock.Now()
	return trusted && rec.Reservation.ExpiredAt(now)
}

func withDeletion(r *workload.Reservation, d *workload.Deletion) *workload.Reservation {
	c := *r
	c.Deletion = d
	return &c
}

// refusedForBirth reports whether the policy's only objection is gone.
func (e *NodeEngine) refusedForBirth(rec store.Record) bool {
	err := e.guard("verify", rec.ID(), func() error { return e.policy.Acceptable(rec.Reservation) })
	return err == nil && node.KindOf(err) == ""
}
