package engine

import (
	"context"
	"slices"

	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/pkg/clip"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/supervise"
	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/lifecycle"
	"github.com/croft-edge/croft/provision/logonce"
	"github.com/croft-edge/croft/provision/refusals"
	"github.com/croft-edge/croft/provision/source"
	"github.com/croft-edge/croft/provision/store"
	"github.com/croft-edge/croft/provision/timers"
)

// arrival is a reservation that its user has signed for this node.
type arrival struct {
	// reservation is the document without deletion and renewal, its ID in canonical
	// form.
	reservation *workload.Reservation
	hash        workload.Hash
	// deletion is verified; renewal isn't judged yet.
	deletion *workload.Deletion
	renewal  *workload.Renewal
	// done is called when the arrival is durable; parked is whether that waits for the
	// node's offer.
	done   func(error)
	parked bool
}

// checker verifies items. It runs beside the engine's thread: checking a signature
// takes longer than everything else about most arrivals.
type checker struct {
	policy   Policy
	log      zerolog.Logger
	once     *logonce.Once
	refusals *refusals.Counts
}

// check returns the item's arrival; nil when its user didn't sign it for this
// node, which costs a line in the log and a count, and nothing else.
func (c *checker) check(item source.Item) *arrival {
	came := item.Reservation
	a, cause := &arrival{done: item.Finish}, refusals.Unreadable
	err := supervise.Guard(c.log, "verify", func() (err error) {
		r := *came
		id, err := workload.ParseID(r.ID)
		if err != nil {
			return err
		}
		r.ID, cause = id.String(), refusals.Forged
		if err := c.policy.Authentic(&r); err != nil {
			return err
		}
		if a.deletion = r.Deletion; a.deletion != nil {
			if err := c.policy.Deletion(&r); err != nil {
				c.dropped("deletion", &r, err)
				a.deletion = nil
			}
		}
		if r.ToDelete && a.deletion == nil {
			c.once.Log(c.log.Warn(), "to_delete"+r.ID).Str("id", r.ID).Str("type", string(r.Type)).
				Msg("unsigned to_delete ignored: a deletion must be signed by the user")
		}
		a.renewal = r.Renewal
		r.Deletion, r.Renewal = nil, nil
		a.reservation = &r
		a.hash, err = r.Hash()
		return err
	})
	if err != nil {
		c.refusals.Add(cause)
		c.once.Log(c.log.Warn(), came.ID).Str("id", short(came.ID)).Str("type", short(string(came.Type))).
			Str("step", "verify").Err(err).Msg("reservation dropped: no proof that its user reserved it on this node")
		return nil
	}
	return a
}

func (c *checker) dropped(what string, r *workload.Reservation, err error) {
	c.once.Log(c.log.Warn(), what+r.ID).Str("id", r.ID).Str("type", string(r.Type)).Str("step", "verify").Err(err).
		Msg(what + " ignored")
}

// arrivals checks the sources' items, in their order, ahead of the engine.
func (c *checker) arrivals(ctx context.Context, in <-chan source.Item, ahead int) <-chan *arrival {
	out := make(chan *arrival, ahead)
	go supervise.Do(c.log, "arrivals", func() {
		defer close(out)
		for {
			select {
			case item, open := <-in:
				if !open {
					return
				}
				a := c.check(item)
				if a == nil {
					item.Finish(nil)
					continue
				}
				select {
				case out <- a:
				case <-ctx.Done():
					return
				}
			case <-ctx.Done():
				return
			}
		}
	})
	return out
}

// intake handles arrivals, and looks at records whose timer has fired.
type intake struct {
	*agenda
	parts   *Config
	ledger  *ledger
	timers  *timers.Timers
	judging *judging
	once    *logonce.Once
	apply   apply
	buried  func(store.Record)
}

// arrived makes an input of an arrival.
func (i *intake) arrived(a *arrival) input {
	return input{id: a.reservation.ID, arrival: a, done: a.done, do: func() error {
		i.arriving = a
		defer func() { i.arriving = nil }()
		return i.arrive(a)
	}}
}

// arrive matches an arrival with the records, by ID and by hash.
func (i *intake) arrive(a *arrival) error {
	r := a.reservation
	rec, ok, err := i.ledger.record(r.ID)
	if err != nil {
		return err
	}
	taken := ok && (rec.Phase != lifecycle.Dismissed || rec.Hash == a.hash && deleted(rec))
	if taken && rec.Hash == a.hash {
		return i.known(rec, a)
	}
	if taken {
		i.once.Log(i.parts.Log.Warn(), r.ID).Str("id", r.ID).Str("type", string(r.Type)).Str("step", "verify").
			Msg("reservation refused: its ID belongs to another one, which stays as it is")
		i.judging.count(refusals.Replayed)
	}
	twin, found, err := i.ledger.byHash(a.hash)
	switch {
	case err != nil:
		return err
	case found && taken:
		return i.endTwin(a, twin)
	case found:
		return i.twinned(a, twin, rec)
	case taken:
		return nil
	}
	return i.take(a)
}

// deleted reports whether a record's result, sent or not, says that it is deleted.
func deleted(rec store.Record) bool {
	return rec.Result != nil && rec.Result.State == workload.StateDeleted
}

// endTwin applies an arrival's deletion to the record of the same reservation
// under another ID: the user's signature is over the hash, whatever the ID.
func (i *intake) endTwin(a *arrival, twin store.Record) error {
	if a.deletion == nil || twin.Reservation.Deletion != nil || twin.Phase == lifecycle.Ended {
		return nil
	}
	return i.apply.event(twin, lifecycle.Event{Kind: lifecycle.Delete, Deletion: a.deletion})
}

// twinned handles a reservation that has a record under another ID: a deletion
// ends that record, then the new ID is refused.
func (i *intake) twinned(a *arrival, twin, before store.Record) error {
	if err := i.endTwin(a, twin); err != nil {
		return err
	}
	if before.Reservation != nil && before.Hash == a.hash {
		_, err := i.apply(before, lifecycle.Event{Kind: lifecycle.Redeliver})
		return err
	}
	if again, err := i.resent(a, twin); again || err != nil {
		return err
	}
	i.judging.count(refusals.Replayed)
	if i.judging.crowded() {
		return nil
	}
	id := a.reservation.ID
	why := node.Errorf(node.Refused, "cannot provision %s: the same reservation was taken in as %s", id, twin.ID())
	i.once.Log(i.parts.Log.Warn(), "replay"+id).Str("id", id).Str("type", string(a.reservation.Type)).Str("step", "verify").Err(why).
		Msg("reservation refused")
	_, err := i.apply(store.Record{}, lifecycle.Event{Kind: lifecycle.Replay, Record: a.record(), Err: why})
	return err
}

// resent accepts a reservation that failed or was refused under another ID and is sent
// again: a reservation of version 1 has no date that would tell the second from the first,
// so a user who means it again can't say so otherwise. One that was deployed, or was
// deleted, stays refused: anybody could bring it back. The old record is buried first:
// after a crash between the two there is no record, and the reservation comes again.
func (i *intake) resent(a *arrival, twin store.Record) (bool, error) {
	nothing := twin.Phase == lifecycle.Refused || twin.Phase == lifecycle.Failed
	if a.reservation.DocumentVersion() != workload.V1 || a.deletion != nil || !nothing || !twin.Delivered || deleted(twin) {
		return false, nil
	}
	if i.ledger.changing(twin.ID()) || slices.Contains(i.asked, twin.ID()) {
		return false, nil
	}
	if err := i.parts.Records.Bury(twin.ID()); err != nil {
		return false, err
	}
	i.buried(twin)
	about(i.parts.Log.Info(), twin, "resent").Str("as", a.reservation.ID).Msg("sent again under another ID, after it had come to nothing")
	return true, i.take(a)
}

// record is an arrival's record before the table has seen it.
func (a *arrival) record() store.Record {
	rec := store.Record{Reservation: a.reservation, Hash: a.hash}
	rec.Name, _ = lifecycle.NameOf(a.reservation)
	return rec
}

// take accepts a reservation that the node doesn't know.
func (i *intake) take(a *arrival) error {
	ev := lifecycle.Event{Kind: lifecycle.Arrive, Record: a.record(), Deletion: a.deletion}
	switch kind := i.renewal(ev.Record, a.renewal); kind {
	case lifecycle.Renew:
		ev.Renewal = a.renewal
	case lifecycle.RenewLater:
		ev.RenewalLater = a.renewal
	}
	_, err := i.apply(store.Record{}, ev)
	return err
}

// reconsidered is the event of a reservation that was refused for its age alone
// and is acceptable now, with the renewal that came with it; nil otherwise.
func (i *intake) reconsidered(rec store.Record, a *arrival) *lifecycle.Event {
	if rec.Phase != lifecycle.Refused || !rec.Older {
		return nil
	}
	r := *a.reservation
	ev := lifecycle.Event{Kind: lifecycle.Reconsider, Reservation: &r}
	switch i.renewal(a.record(), a.renewal) {
	case lifecycle.Renew:
		r.Renewal = a.renewal
	case lifecycle.RenewLater:
		ev.RenewalLater = a.renewal
	}
	if i.judging.acceptable(&r) != nil {
		return nil
	}
	return &ev
}

// renewal judges a renewal for a record: Renew, RenewLater, RenewNever, or empty
// when it prolongs nothing.
func (i *intake) renewal(rec store.Record, renewal *workload.Renewal) lifecycle.Kind {
	if renewal == nil || rec.Tombstone() || !renewal.Expires.After(rec.Reservation.Expires()) {
		return ""
	}
	candidate := *rec.Reservation
	candidate.Renewal = renewal
	err := supervise.Guard(i.parts.Log, "renew", func() error { return i.parts.Policy.Renewal(&candidate) })
	switch {
	case err == nil:
		return lifecycle.Renew
	case node.KindOf(err).Final():
		i.once.Log(i.parts.Log.Warn(), "renewal"+rec.ID()).Str("id", rec.ID()).Str("type", string(rec.Reservation.Type)).
			Str("step", "verify").Err(err).Msg("renewal ignored")
		return lifecycle.RenewNever
	}
	return lifecycle.RenewLater
}

// known handles a reservation that has a record: a deletion, a renewal, its end,
// or a redelivery, which is answered from the record.
func (i *intake) known(rec store.Record, a *arrival) error {
	if a.deletion != nil && rec.Reservation.Deletion == nil && rec.Phase != lifecycle.Ended {
		return i.apply.event(rec, lifecycle.Event{Kind: lifecycle.Delete, Deletion: a.deletion})
	}
	if again := i.reconsidered(rec, a); again != nil {
		return i.apply.event(rec, *again)
	}
	switch kind := i.renewal(rec, a.renewal); kind {
	case lifecycle.Renew:
		about(i.parts.Log.Info(), rec, "renew").Time("expires", a.renewal.Expires).Msg("renewed")
		return i.apply.event(rec, lifecycle.Event{Kind: kind, Renewal: a.renewal})
	case lifecycle.RenewLater:
		return i.apply.event(rec, lifecycle.Event{Kind: kind, Renewal: a.renewal})
	}
	if (lifecycle.Facts{Time: i.now}).Over(rec) && rec.Phase.Wanted() && rec.Phase != lifecycle.Waiting {
		err := i.wake(rec)
		if err != nil {
			return err
		}
		// Its end may have to wait, and then brings no answer yet.
		var ok bool
		if rec, ok, err = i.ledger.record(rec.ID()); err != nil || !ok {
			return err
		}
	}
	return i.apply.event(rec, lifecycle.Event{Kind: lifecycle.Redeliver})
}

// wake looks at a record whose time may have come. A pending renewal is judged
// first, and delays nothing else; a record that is leaving goes on leaving,
// whatever its renewal says.
func (i *intake) wake(rec store.Record) error {
	if rec.Pending != nil && rec.Phase != lifecycle.Leaving {
		var err error
		switch kind := i.renewal(rec, rec.Pending); kind {
		case lifecycle.Renew:
			next, err := i.apply(rec, lifecycle.Event{Kind: kind, Renewal: rec.Pending})
			if err != nil || next.Phase != rec.Phase {
				return err
			}
			rec = next // the record's timer may have fired for another reason too
		case lifecycle.RenewLater:
		default:
			if rec, err = i.apply(rec, lifecycle.Event{Kind: lifecycle.RenewNever}); err != nil {
				return err
			}
		}
	}
	return i.apply.event(rec, lifecycle.Event{Kind: lifecycle.Wake})
}

// woken makes an input of a record's timer.
func (i *intake) woken(id string) input {
	return input{id: id, do: func() error {
		rec, ok, err := i.ledger.record(id)
		if err != nil || !ok {
			return err
		}
		i.timers.Set(rec, i.now)
		return i.wake(rec)
	}}
}

// maxLoggedText bounds the text of an unverified sender in a log line, in bytes.
const maxLoggedText = 64

func short(s string) string { return clip.Text(s, maxLoggedText) }
