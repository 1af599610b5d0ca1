package engine

import (
	"time"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/supervise"
	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/admit"
	"github.com/croft-edge/croft/provision/lifecycle"
	"github.com/croft-edge/croft/provision/logonce"
	"github.com/croft-edge/croft/provision/provisioner"
	"github.com/croft-edge/croft/provision/refusals"
	"github.com/croft-edge/croft/provision/store"
	"github.com/croft-edge/croft/provision/verify"
)

// judging holds the records that wait for the node's offer. One question serves
// all that wait: ask starts it beside the engine's thread.
type judging struct {
	*agenda
	parts  *Config
	ledger *ledger
	once   *logonce.Once
	apply  apply

	ask     func()
	asked   bool
	waiting []waiting
	next    []waiting
}

type waiting struct {
	id   string
	from *arrival
}

// judge begins the judgement of a record that waits.
func (j *judging) judge(rec store.Record) error {
	if err := j.acceptableNow(rec); err != nil {
		return j.judged(rec, err)
	}
	if j.parts.Admission == nil {
		return j.judged(rec, nil)
	}
	id := rec.ID()
	if stored, err := j.parts.Records.Record(id); err != nil || stored.Phase != lifecycle.Waiting {
		j.ledger.parked[id] = rec
	}
	if j.arriving != nil {
		j.arriving.parked = true
	}
	from := j.arriving
	j.after = append(j.after, func() {
		j.next = append(j.next, waiting{id, from})
		j.askOffer()
	})
	return nil
}

// askOffer asks for the node's offer, unless a question is in flight.
func (j *judging) askOffer() {
	if j.asked || len(j.next) == 0 {
		return
	}
	j.asked, j.waiting, j.next = true, j.next, nil
	j.ask()
}

// unpark drops the records that inputs have parked: their round has failed.
func (j *judging) unpark(inputs []input) {
	for _, in := range inputs {
		if in.arrival != nil && in.arrival.parked {
			in.arrival.parked = false
			delete(j.ledger.parked, in.id)
		}
	}
}

// offered handles the node's offer: all records that waited for it are judged.
func (j *judging) offered(offer admit.Offer, failed error) []input {
	all := j.waiting
	j.asked, j.waiting = false, nil
	j.askOffer()
	var out []input
	for _, each := range all {
		parked := j.ledger.parked[each.id]
		in := input{id: each.id, do: func() error {
			j.parkAgain(parked)
			return j.admit(each.id, offer, failed)
		}}
		if each.from != nil {
			each.from.parked = false
			in.done = each.from.done
		}
		out = append(out, in)
	}
	return out
}

// parkAgain parks a record whose judgement is handled a second time, because the
// round of the first couldn't be written: no other copy exists.
func (j *judging) parkAgain(rec store.Record) {
	if rec.Reservation == nil {
		return
	}
	if is, known, err := j.ledger.record(rec.ID()); err == nil && (!known || is.Phase == lifecycle.Dismissed) {
		j.ledger.parked[rec.ID()] = rec
	}
}

// admit judges a record by the node's offer.
func (j *judging) admit(id string, offer admit.Offer, failed error) error {
	rec, ok, err := j.ledger.record(id)
	if err != nil || !ok || rec.Phase != lifecycle.Waiting {
		return err
	}
	if failed != nil {
		return j.judged(rec, node.Errorf(node.Transient, "cannot admit %s: the node's capacity isn't known: %w", id, failed))
	}
	if err := j.acceptableNow(rec); err != nil {
		return j.judged(rec, err)
	}
	of, all := j.ledger.usage(rec.Reservation.User, id)
	if rec.Name != (lifecycle.NameKey{}) {
		replaced, err := j.ledger.replacedBy(rec, provisioner.FactsOf(j.parts.Provisioners[rec.Reservation.Type]).Apart)
		if err != nil {
			return err
		}
		of.Demand, all.Demand = of.Demand.Sub(replaced), all.Demand.Sub(replaced)
	}
	return j.judged(rec, supervise.Guard(j.parts.Log, "admit", func() error {
		return j.parts.Admission.Admit(rec.Reservation, of, all, offer)
	}))
}

// acceptableNow is the judgement except for the question of room.
func (j *judging) acceptableNow(rec store.Record) error {
	r := rec.Reservation
	if err := j.acceptable(r); err != nil {
		return err
	}
	if j.parts.Provisioners[r.Type] == nil {
		return node.Errorf(node.Refused, "cannot provision %s: type %q isn't offered by this node", r.ID, r.Type)
	}
	if err := supervise.Guard(j.parts.Log, "validate", func() error { return j.parts.Policy.Validate(r) }); err != nil {
		return err
	}
	return j.supersedes(rec)
}

func (j *judging) acceptable(r *workload.Reservation) error {
	return supervise.Guard(j.parts.Log, "judge", func() error { return j.parts.Policy.Acceptable(r) })
}

// supersedes refuses an update that isn't signed later than the newest accepted
// one of its name, ended ones too: nobody rolls back by sending an old one again.
func (j *judging) supersedes(rec store.Record) error {
	if rec.Name == (lifecycle.NameKey{}) {
		return nil
	}
	others, err := j.ledger.named(rec.Name)
	if err != nil {
		return err
	}
	r := rec.Reservation
	for _, other := range others {
		if other.ID() != r.ID && !r.Created.After(other.Reservation.Created) {
			return node.Errorf(node.Refused, "cannot provision %s: created is %s, must be after %s of %s, which has the same name",
				r.ID, stamp(r.Created), stamp(other.Reservation.Created), other.ID())
		}
	}
	if newest, ok := j.parts.Records.Newest(rec.Name); ok && newest.After(r.Created) {
		return node.Errorf(node.Refused, "cannot provision %s: created is %s, must be after %s, when the newest of that name was",
			r.ID, stamp(r.Created), stamp(newest))
	}
	return nil
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

// judged applies the verdict as an event.
func (j *judging) judged(rec store.Record, verdict error) error {
	ev := lifecycle.Event{Kind: lifecycle.Admit, Err: verdict}
	_, stored := j.parts.Records.Record(rec.ID())
	fresh := node.KindOf(stored) == node.NotExist
	switch kind := node.KindOf(verdict); {
	case verdict == nil:
	case kind.Final():
		ev.Kind, ev.Older = lifecycle.Refuse, verify.IsOlder(verdict)
	case fresh:
		delete(j.ledger.parked, rec.ID())
		late, err := j.mayWait(rec, verdict)
		if err != nil {
			return err
		}
		ev = late
	default:
		ev.Kind = lifecycle.Postpone
	}
	if ev.Kind == lifecycle.Refuse {
		j.count(refusals.Refused)
	}
	if ev.Kind == lifecycle.Refuse && fresh && j.refusedMost() && j.crowded() {
		delete(j.ledger.parked, rec.ID())
		return nil
	}
	delete(j.ledger.parked, rec.ID())
	_, err := j.apply(rec, ev)
	return err
}

// count counts one that isn't taken, once the round is durable: a round that isn't is decided again.
func (j *judging) count(cause refusals.Cause) {
	j.after = append(j.after, func() { j.parts.Refusals.Add(cause) })
}

// mayWait bounds how many reservations wait: keys cost nothing. A user who has too
// many is refused; when too many wait in all, a new one stays with its source.
func (j *judging) mayWait(rec store.Record, why error) (lifecycle.Event, error) {
	if j.parts.Admission != nil {
		of, all := j.ledger.usage(rec.Reservation.User, rec.ID())
		if err := j.parts.Admission.Wait(rec.Reservation, of, all); err != nil {
			return lifecycle.Event{Kind: lifecycle.Refuse, Err: err}, nil
		}
	}
	if waiting := j.ledger.count(lifecycle.Waiting); waiting >= j.parts.Limits.Postponed {
		return lifecycle.Event{}, node.Errorf(node.Transient, "cannot take in %s: %d reservations wait already; %v", rec.ID(), waiting, why)
	}
	return lifecycle.Event{Kind: lifecycle.Postpone, Err: why}, nil
}

// refusedMost reports whether the limit of remembered refused reservations is
// reached.
func (j *judging) refusedMost() bool {
	return j.ledger.count(lifecycle.Refused) >= j.parts.Limits.Refused
}

// dismissedMost bounds the dismissed records, whose answers wait for the explorer:
// an explorer that sends old reservations under ever new IDs, and accepts no
// answer, can't fill the disk.
const dismissedMost = 1000

// crowded reports whether that bound is reached.
func (j *judging) crowded() bool {
	if j.ledger.count(lifecycle.Dismissed) < dismissedMost {
		return false
	}
	j.once.Log(j.parts.Log.Warn(), "refusals").Int("refusals", dismissedMost).Str("step", "verify").
		Msg("refusal dropped: the explorer takes no answers to those before")
	return true
}
