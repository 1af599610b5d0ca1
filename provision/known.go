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
	if rec.Refusal {
		return e.tellAgain(rec) // it never was a workload: there is nothing to end or prolong
	}
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

// born is what a store that has a birth tells.
type born interface {
	Birth() store.Birth
}

// changedMind reports whether rec was refused because it is older than the
// node's store, and would be taken in now: the operator has said so since.
func (e *NodeEngine) changedMind(rec store.Record) bool {
	records, ok := e.records.(born)
	if !ok || rec.Attempts > 0 || rec.Refusal {
		return false
	}
	if birth := records.Birth().Time; !birth.IsZero() && rec.Reservation.Created.After(birth) {
		return false
	}
	return e.guard("verify", rec.ID(), func() error { return e.policy.Acceptable(rec.Reservation) }) == nil
}

// tellAgain makes feedback send what it has sent already: whoever asks again may not have it.
func (e *NodeEngine) tellAgain(rec store.Record) error {
	if rec.Result == nil || !rec.Delivered || rec.Phase == store.Leaving && rec.Result.State == workload.StateOK {
		e.feedback.Kick()
		return nil
	}
	if err := e.guard("record", rec.ID(), func() error { return e.records.Resend(rec.ID()) }); err != nil {
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
		if !node.KindOf(err).Final() {
			e.later = true // asked for again when the time can be trusted
		}
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
		again.Created, again.Sequence = e.now(), 0
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
