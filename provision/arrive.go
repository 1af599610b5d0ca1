package provision

import (
	"context"
	"time"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/store"
)

// arrived handles what came from outside. Nothing of it has been checked.
// The error says that the store could not be asked or told: it must come again.
func (e *NodeEngine) arrived(ctx context.Context, came *workload.Reservation) error {
	r, hash, err := e.authenticate(ctx, came)
	if err != nil {
		e.said.log(e.log.Warn(), came.ID).Str("id", short(came.ID)).Str("type", short(string(came.Type))).
			Str("step", "verify").Err(err).Msg("reservation dropped: nothing shows that its user asked this node for it")
		return nil
	}
	e.ignoreUnsigned(r)
	rec, err := e.records.Record(r.ID)
	switch {
	case node.KindOf(err) == node.NotExist:
		return e.unknown(ctx, r, hash)
	case err != nil:
		return err
	case rec.Hash != hash:
		e.said.log(e.log.Warn(), r.ID).Str("id", r.ID).Str("type", string(r.Type)).Str("step", "verify").
			Msg("reservation refused: its ID belongs to another one, which stays as it is")
		return nil
	}
	return e.known(ctx, rec, r)
}

// authenticate is the step before anything durable: a copy of what came, with
// its ID in the one form that is used, without a deletion or renewal that its
// user didn't sign.
func (e *NodeEngine) authenticate(ctx context.Context, came *workload.Reservation) (*workload.Reservation, workload.Hash, error) {
	var hash workload.Hash
	c := *came
	r := &c
	err := e.step(ctx, "verify", "", e.limits.Judge, func(context.Context) error {
		id, err := workload.ParseID(r.ID)
		if err != nil {
			return err
		}
		r.ID = id.String()
		if err := e.policy.Authentic(r); err != nil {
			return err
		}
		if r.Deletion != nil {
			if err := e.policy.Deletion(r); err != nil {
				e.dropped("deletion", r, err)
				r.Deletion = nil
			}
		}
		hash, err = r.Hash()
		return err
	})
	return r, hash, err
}

func (e *NodeEngine) dropped(what string, r *workload.Reservation, err error) {
	e.said.log(e.log.Warn(), what+r.ID).Str("id", r.ID).Str("type", string(r.Type)).Str("step", "verify").Err(err).
		Msg(what + " ignored")
}

// ignoreUnsigned says once that an unsigned wish was seen.
func (e *NodeEngine) ignoreUnsigned(r *workload.Reservation) {
	if r.ToDelete && r.Deletion == nil {
		e.said.log(e.log.Warn(), "to_delete"+r.ID).Str("id", r.ID).Str("type", string(r.Type)).
			Msg("unsigned to_delete ignored: a deletion must be signed by the user")
	}
}

// unknown handles an authentic reservation whose ID has no record.
func (e *NodeEngine) unknown(ctx context.Context, r *workload.Reservation, hash workload.Hash) error {
	twin, err := e.records.ByHash(hash)
	if err == nil {
		return e.twinned(ctx, r, hash, twin)
	}
	if node.KindOf(err) != node.NotExist {
		return err
	}
	rec := store.Record{Reservation: r, Hash: hash, Accepted: e.now()}
	if r.Deletion != nil {
		// It was deleted before it came: from now on it can't come any more.
		return e.entomb(rec, workload.StateDeleted)
	}
	e.acceptRenewal(&rec, r)
	return e.consider(ctx, rec)
}

// twinned handles a reservation that was taken in under another ID before. A
// deletion that its user signed is over the hash, whatever the ID: it ends the
// one that is here. Then the other ID is refused.
func (e *NodeEngine) twinned(ctx context.Context, r *workload.Reservation, hash workload.Hash, twin store.Record) error {
	if r.Deletion != nil && twin.Reservation.Deletion == nil && twin.Phase != store.Ended {
		twin.Reservation = withDeletion(twin.Reservation, r.Deletion)
		if err := e.leave(ctx, twin, workload.StateDeleted); err != nil {
			return err
		}
	}
	return e.replayed(r, hash, twin)
}

// refusalsKept bounds the answers to replays that wait for the explorer: one
// that brings old reservations under ever new IDs, and takes no answer, fills no disk.
const refusalsKept = 1000

// crowded reports whether as many refusals wait for the explorer as are kept.
func (e *NodeEngine) crowded() (bool, error) {
	waiting, err := e.records.Undelivered()
	if err != nil {
		return false, err
	}
	refusals := 0
	for _, rec := range waiting {
		if rec.Refusal {
			refusals++
		}
	}
	if refusals < refusalsKept {
		return false, nil
	}
	e.said.log(e.log.Warn(), "refusals").Int("refusals", refusals).Str("step", "verify").
		Msg("refusal dropped: the explorer takes no answers to those before")
	return true, nil
}

// replayed refuses a reservation that was taken in under another ID before.
func (e *NodeEngine) replayed(r *workload.Reservation, hash workload.Hash, twin store.Record) error {
	if crowded, err := e.crowded(); err != nil || crowded {
		return err
	}
	text := "cannot provision " + r.ID + ": the same reservation was taken in as " + twin.ID()
	e.said.log(e.log.Warn(), "replay"+r.ID).Str("id", r.ID).Str("type", string(r.Type)).Str("step", "verify").Msg(text)
	rec := store.Record{Reservation: r, Hash: hash, Phase: store.Failed, Refusal: true, Cause: text, Accepted: e.now()}
	rec.Result = e.result(rec, workload.StateError, text, nil)
	return e.finish(rec)
}

// consider judges a reservation that nothing has been done for yet, and
// either refuses it, or waits, or begins.
func (e *NodeEngine) consider(ctx context.Context, rec store.Record) error {
	r := rec.Reservation
	var have []store.Record
	err := e.step(ctx, "admit", r.ID, e.limits.Judge, func(ctx context.Context) (err error) {
		if have, err = e.records.List(); err != nil {
			return err
		}
		return e.judge(ctx, r, have)
	})
	switch kind := node.KindOf(err); {
	case err == nil && e.isSlow(r.Type):
		return e.postpone(rec, have, node.Errorf(node.Transient, "cannot provision %s yet: what provides type %q is slow to answer", r.ID, r.Type))
	case err == nil:
		return e.attempt(ctx, rec)
	case kind.Final():
		return e.refuse(rec, err, have)
	default:
		return e.postpone(rec, have, err)
	}
}

// judge is verify, validate and admit, in that order.
func (e *NodeEngine) judge(ctx context.Context, r *workload.Reservation, have []store.Record) error {
	if err := e.policy.Acceptable(r); err != nil {
		return err
	}
	if e.provisioners[r.Type] == nil {
		return node.Errorf(node.Refused, "cannot provision %s: type %q isn't offered by this node", r.ID, r.Type)
	}
	if err := e.policy.Validate(r); err != nil {
		return err
	}
	if err := e.supersedes(r, have); err != nil {
		return err
	}
	if e.admission == nil {
		return nil
	}
	others := make([]store.Record, 0, len(have))
	for _, rec := range have {
		if rec.ID() != r.ID {
			others = append(others, rec)
		}
	}
	return e.admission.Admit(ctx, r, others)
}

// refuse answers for good: a workload that was never begun leaves nothing.
func (e *NodeEngine) refuse(rec store.Record, cause error, have []store.Record) error {
	if e.forgettable(rec.ID(), have) {
		rec.Refusal = true
		if crowded, err := e.crowded(); err != nil || crowded {
			return err
		}
	}
	rec.Phase = store.Failed
	rec.Cause = cause.Error()
	rec.NextAttempt = time.Time{}
	rec.Result = e.result(rec, workload.StateError, cause.Error(), nil)
	return e.finish(rec)
}

// forgettable reports whether so many refused ones are remembered that the one
// of that ID need not be, once it is answered. Keys cost nothing, so no limit
// of a user's bounds them.
func (e *NodeEngine) forgettable(id string, have []store.Record) bool {
	refused := 0
	for _, rec := range have {
		if rec.ID() == id {
			return false // it has a record already
		}
		if rec.Phase == store.Failed && !rec.Refusal {
			refused++
		}
	}
	return refused >= e.limits.Refused
}

// entomb writes that a reservation has ended without anything on the node.
func (e *NodeEngine) entomb(rec store.Record, end workload.State) error {
	rec.Phase = store.Ended
	rec.End = end
	rec.Cause = ""
	rec.Attempts = 0
	rec.NextAttempt = time.Time{}
	if rec.Result == nil || rec.Result.State != end {
		rec.Result = e.result(rec, end, endText(end), nil)
	}
	return e.finish(rec)
}

// endText is what a result of that end says: its state says all, but for an eviction.
func endText(end workload.State) string {
	if end == workload.StateEvicted {
		return "evicted by the node's owner"
	}
	return ""
}

// short bounds what an unverified sender can put into a log line.
func short(s string) string {
	const most = 64
	if len(s) > most {
		return s[:most] + "…"
	}
	return s
}
