package engine

import (
	"time"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/run"
	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/admit"
	"github.com/croft-edge/croft/provision/lifecycle"
	"github.com/croft-edge/croft/provision/provisioner"
	"github.com/croft-edge/croft/provision/store"
	"github.com/croft-edge/croft/provision/verify"
)

// judging is who waits for what the node offers. It is asked once for all that
// wait: ask starts the question beside the engine's thread.
type judging struct {
	ask     func()
	asked   bool
	waiting []waiting
	next    []waiting
}

type waiting struct {
	id   string
	from *arrival
}

// judge asks whether a record that waits may be taken in.
func (d *desk) judge(rec store.Record) error {
	if err := d.acceptableNow(rec); err != nil {
		return d.judged(rec, err)
	}
	if d.parts.Admission == nil {
		return d.judged(rec, nil)
	}
	id := rec.ID()
	if stored, err := d.parts.Records.Record(id); err != nil || stored.Phase != lifecycle.Waiting {
		d.ledger.parked[id] = rec
	}
	if d.arriving != nil {
		d.arriving.parked = true
	}
	from := d.arriving
	d.after = append(d.after, func() {
		d.judging.next = append(d.judging.next, waiting{id, from})
		d.askOffer()
	})
	return nil
}

// askOffer asks what the node offers, unless that is being asked.
func (d *desk) askOffer() {
	j := d.judging
	if j.asked || len(j.next) == 0 {
		return
	}
	j.asked, j.waiting, j.next = true, j.next, nil
	j.ask()
}

// unpark takes back what inputs have parked: their round has failed.
func (d *desk) unpark(inputs []input) {
	for _, in := range inputs {
		if in.arrival != nil && in.arrival.parked {
			in.arrival.parked = false
			delete(d.ledger.parked, in.id)
		}
	}
}

// offered takes in what the node offers: all that waited for it are judged.
func (d *desk) offered(offer admit.Offer, failed error) []input {
	j := d.judging
	all := j.waiting
	j.asked, j.waiting = false, nil
	d.askOffer()
	var out []input
	for _, each := range all {
		in := input{id: each.id, do: func() error { return d.admit(each.id, offer, failed) }}
		if each.from != nil {
			each.from.parked = false
			in.done = each.from.done
		}
		out = append(out, in)
	}
	return out
}

// admit judges a record by what the node offers.
func (d *desk) admit(id string, offer admit.Offer, failed error) error {
	rec, ok, err := d.ledger.record(id)
	if err != nil || !ok || rec.Phase != lifecycle.Waiting {
		return err
	}
	if failed != nil {
		return d.judged(rec, node.Errorf(node.Transient, "cannot admit %s: it isn't known what the node offers: %w", id, failed))
	}
	if err := d.acceptableNow(rec); err != nil {
		return d.judged(rec, err)
	}
	of, all := d.ledger.usage(rec.Reservation.User, id)
	return d.judged(rec, run.Guard(d.parts.Log, "admit", func() error {
		return d.parts.Admission.Admit(rec.Reservation, of, all, offer)
	}))
}

// acceptableNow is all of the judgement but whether there is room.
func (d *desk) acceptableNow(rec store.Record) error {
	r := rec.Reservation
	if err := d.acceptable(r); err != nil {
		return err
	}
	if d.parts.Provisioners[r.Type] == nil {
		return node.Errorf(node.Refused, "cannot provision %s: type %q isn't offered by this node", r.ID, r.Type)
	}
	if err := run.Guard(d.parts.Log, "validate", func() error { return d.parts.Policy.Validate(r) }); err != nil {
		return err
	}
	return d.supersedes(rec)
}

func (d *desk) acceptable(r *workload.Reservation) error {
	return run.Guard(d.parts.Log, "judge", func() error { return d.parts.Policy.Acceptable(r) })
}

// supersedes refuses an update that isn't signed later than the newest one that
// was accepted under its name, ended ones too: nobody goes back by bringing an
// old one again.
func (d *desk) supersedes(rec store.Record) error {
	if rec.Name == (lifecycle.NameKey{}) {
		return nil
	}
	others, err := d.ledger.named(rec.Name)
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
	if newest, ok := d.parts.Records.Newest(rec.Name); ok && newest.After(r.Created) {
		return node.Errorf(node.Refused, "cannot provision %s: created is %s, must be after %s, when the newest of that name was",
			r.ID, stamp(r.Created), stamp(newest))
	}
	return nil
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

// judged tells the table what the judgement is.
func (d *desk) judged(rec store.Record, verdict error) error {
	ev := lifecycle.Event{Kind: lifecycle.Admit, Err: verdict}
	_, stored := d.parts.Records.Record(rec.ID())
	fresh := node.KindOf(stored) == node.NotExist
	switch kind := node.KindOf(verdict); {
	case verdict == nil:
	case kind.Final():
		ev.Kind, ev.Older = lifecycle.Refuse, verify.IsOlder(verdict)
	case fresh:
		delete(d.ledger.parked, rec.ID())
		late, err := d.mayWait(rec, verdict)
		if err != nil {
			return err
		}
		ev = late
	default:
		ev.Kind = lifecycle.Postpone
	}
	if ev.Kind == lifecycle.Refuse && fresh && d.refusedMost() && d.crowded() {
		delete(d.ledger.parked, rec.ID())
		return nil
	}
	delete(d.ledger.parked, rec.ID())
	_, err := d.apply(rec, ev)
	return err
}

// mayWait bounds how many wait: keys cost nothing. A user who has too many is
// refused; when too many wait in all, a new one stays with its source.
func (d *desk) mayWait(rec store.Record, why error) (lifecycle.Event, error) {
	if d.parts.Admission != nil {
		of, all := d.ledger.usage(rec.Reservation.User, rec.ID())
		if err := d.parts.Admission.Wait(rec.Reservation, of, all); err != nil {
			return lifecycle.Event{Kind: lifecycle.Refuse, Err: err}, nil
		}
	}
	if waiting := d.ledger.count(lifecycle.Waiting); waiting >= d.parts.Limits.Postponed {
		return lifecycle.Event{}, node.Errorf(node.Transient, "cannot take in %s: %d reservations wait already; %v", rec.ID(), waiting, why)
	}
	return lifecycle.Event{Kind: lifecycle.Postpone, Err: why}, nil
}

// refusedMost reports whether as many refused reservations are remembered until
// their signed end as may be.
func (d *desk) refusedMost() bool { return d.ledger.count(lifecycle.Refused) >= d.parts.Limits.Refused }

// facts is what the table is told about a record.
func (d *desk) facts(rec store.Record) (lifecycle.Facts, error) {
	name, err := d.standing(rec)
	f := lifecycle.Facts{
		Time: d.now, Name: name, InFlight: rec.Reservation != nil && d.flights.flying(rec.ID()), Crowded: d.refusedMost(),
		Limits: lifecycle.Limits{
			Grace: d.parts.Limits.Grace, Look: d.parts.Limits.Look, Longest: longest,
			Backoff: d.parts.Limits.Retry.Delay, TellAfter: tellAfter,
		},
	}
	if rec.Reservation != nil {
		f.Type = provisioner.FactsOf(d.parts.Provisioners[rec.Reservation.Type])
	}
	return f, err
}

const (
	// tellAfter is how many attempts fail before the user hears of it: a module
	// that restarts needs no message.
	tellAfter = 3
	// longest is how long past its end what a renewal might prolong is kept, while
	// no time is good enough to judge that.
	longest = 366 * 24 * time.Hour
)

// standing is how a record stands to the others of its name.
func (d *desk) standing(rec store.Record) (lifecycle.Standing, error) {
	if rec.Name == (lifecycle.NameKey{}) || rec.Reservation == nil {
		return lifecycle.Alone, nil
	}
	others, err := d.ledger.named(rec.Name)
	if err != nil {
		return lifecycle.Alone, err
	}
	older := false
	for i := len(others) - 1; i >= 0; i-- {
		other := others[i]
		if other.ID() == rec.ID() {
			continue
		}
		if other.Reservation.Created.After(rec.Reservation.Created) {
			return standingBehind(other), nil
		}
		older = older || !other.Deployed.IsZero() && other.Phase != lifecycle.Replaced && !other.Tombstone()
	}
	if older {
		return lifecycle.Newest, nil
	}
	return lifecycle.Alone, nil
}

// standingBehind is the standing of a record behind the newest of its name.
func standingBehind(newest store.Record) lifecycle.Standing {
	switch {
	case newest.Phase == lifecycle.Ended:
		return lifecycle.Gone
	case newest.Phase == lifecycle.Leaving && newest.End == workload.StateError:
		return lifecycle.Awaited
	case newest.Phase == lifecycle.Leaving, newest.Phase == lifecycle.Blocked:
		return lifecycle.Doomed
	case newest.Deployed.IsZero():
		return lifecycle.Awaited
	}
	return lifecycle.Outdone
}
