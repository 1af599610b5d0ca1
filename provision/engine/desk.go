package engine

import (
	"slices"

	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/pkg/clock"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/resources/work"
	"github.com/croft-edge/croft/pkg/supervise"
	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/drift"
	"github.com/croft-edge/croft/provision/lifecycle"
	"github.com/croft-edge/croft/provision/logonce"
	"github.com/croft-edge/croft/provision/provisioner"
	"github.com/croft-edge/croft/provision/pulse"
	"github.com/croft-edge/croft/provision/store"
	"github.com/croft-edge/croft/provision/timers"
	"github.com/croft-edge/croft/provision/uses"
)

// desk makes every decision, on the engine's thread: it takes events, asks the
// table, writes the records of a round in one go, and then starts the effects. It
// starts no goroutine and waits for nothing but the disk.
type desk struct {
	*agenda
	parts   *Config
	ledger  *ledger
	flights *flights
	timers  *timers.Timers
	notes   *notes
	// judging, intake and compared are the parts that produce events.
	judging  *judging
	intake   *intake
	compared *compared
	// uses is who uses whose workload, panel what is shown of all.
	uses  *uses.Uses
	panel *panel
}

// agenda is the state that the events of one round share.
type agenda struct {
	// now is the round's time.
	now clock.Reading
	// after runs once the round is durable; soon are its inputs for the next one.
	after []func()
	soon  []input
	// asked are the IDs of the records whose answer is asked for again: marked once the
	// round is durable, before what is in after.
	asked []string
	// arriving is the arrival of the current input, nil when it has none.
	arriving *arrival
}

// input is one thing for a round to handle. do may be called again when a round
// couldn't be written; done is called once with whether it is durable. arrival is
// nil for an input that doesn't come from outside.
type input struct {
	id      string
	do      func() error
	done    func(error)
	arrival *arrival
}

func (i input) finish(err error) {
	if i.done != nil {
		i.done(err)
	}
}

// notes is the desk's state that other goroutines read.
type notes struct {
	drifts   *drift.History
	progress *progress
	orphans  *drift.Orphans
	changed  func()
	pulse    *pulse.Pulse
}

func newDesk(parts *Config, notes *notes) *desk {
	demand := func(*workload.Reservation) provisioner.Demand { return provisioner.Demand{} }
	if parts.Admission != nil {
		demand = parts.Admission.Demand
	}
	d := &desk{
		agenda: &agenda{}, parts: parts, notes: notes, uses: uses.New(), timers: timers.New(parts.Limits.Look),
		ledger: newLedger(parts.Records, demand), flights: newFlights(parts.Provisioners),
	}
	d.panel = newPanel(parts, notes, d.uses, d.flights, d.ledger)
	d.flights.changed = func(id string) { d.panel.change(id) }
	once := logonce.New()
	d.judging = &judging{agenda: d.agenda, parts: parts, ledger: d.ledger, once: once, apply: d.apply}
	d.intake = &intake{agenda: d.agenda, parts: parts, ledger: d.ledger, timers: d.timers, judging: d.judging, once: once, apply: d.apply, buried: d.buried}
	d.compared = &compared{agenda: d.agenda, parts: parts, notes: notes, ledger: d.ledger, flights: d.flights, panel: d.panel, free: d.freeAll, apply: d.apply}
	return d
}

// apply is how the desk's parts have an event applied: see desk.apply.
type apply func(rec store.Record, ev lifecycle.Event) (store.Record, error)

func (do apply) event(rec store.Record, ev lifecycle.Event) error {
	_, err := do(rec, ev)
	return err
}

// freeAll has every blocked record tried again.
func (d *desk) freeAll() {
	for _, id := range d.uses.Blocked() {
		d.soon = append(d.soon, d.input(id, lifecycle.Event{Kind: lifecycle.Free}))
	}
}

// round handles inputs. When it returns, each is durable or has failed; follow-up
// inputs are handled in the same call. A write has at most Limits.Round inputs,
// however many come at once: each decision looks at all staged records.
func (d *desk) round(inputs []input) {
	for len(inputs) > 0 {
		for part := range slices.Chunk(inputs, max(d.parts.Limits.Round, 1)) {
			d.once(part)
		}
		inputs, d.soon = d.soon, nil
	}
	d.flights.pump()
	d.panel.show()
}

// once handles inputs in one durable write. If the write is refused for good (a full disk
// isn't), each input is handled again by itself, so that one bad record costs no other.
func (d *desk) once(inputs []input) {
	d.now = d.parts.Clock.Read()
	d.notes.pulse.Moved()
	errs := make([]error, len(inputs))
	for i, in := range inputs {
		errs[i] = supervise.Guard(d.parts.Log, "decide "+in.id, in.do)
	}
	touched := d.ledger.touched()
	after, asked := d.after, d.asked
	d.after, d.asked = nil, nil
	written, err := d.write()
	if err != nil && len(inputs) > 1 && node.KindOf(err).Final() && node.KindOf(err) != node.NoSpace {
		d.judging.unpark(inputs)
		for _, in := range inputs {
			d.once([]input{in})
		}
		return
	}
	if err != nil {
		d.failed(inputs, touched, err)
		return
	}
	for _, rec := range written {
		d.written(rec)
	}
	// A tombstone whose answer was asked for again isn't buried in the same round.
	again := d.resend(asked)
	for _, do := range after {
		do()
	}
	for i, in := range inputs {
		if errs[i] == nil {
			errs[i] = again
		}
		if errs[i] != nil {
			d.lookAgain(in.id, errs[i])
		}
		if in.arrival == nil || !in.arrival.parked {
			in.finish(errs[i])
		}
	}
}

func (d *desk) write() (written []store.Record, err error) {
	err = supervise.Guard(d.parts.Log, "record", func() (err error) {
		written, err = d.ledger.commit()
		return err
	})
	d.ledger.drop()
	return written, err
}

// failed handles a round that couldn't be written: nothing has happened, and every record
// that it was about is looked at again, also those that it wouldn't have changed.
func (d *desk) failed(inputs []input, touched []string, err error) {
	d.parts.Log.Error().Err(err).Strs("ids", touched).Msg("cannot write records: tried again")
	d.judging.unpark(inputs)
	for _, id := range touched {
		d.lookAgain(id, nil)
	}
	for _, in := range inputs {
		d.lookAgain(in.id, nil)
		in.finish(err)
	}
}

// lookAgain schedules another look at a record whose event couldn't be handled.
func (d *desk) lookAgain(id string, err error) {
	if err != nil && node.KindOf(err) != node.NotExist {
		d.parts.Log.Error().Str("id", id).Err(err).Msg("cannot handle: tried again")
	}
	if rec, ok, err := d.ledger.record(id); err == nil && ok {
		d.timers.Try(rec, d.now, d.parts.Limits.Retry.Delay(1))
	}
}

// written sets the end timers of a record that is durable now. Its next attempt
// stays as it was: a noted renewal must not cost a retry its turn.
func (d *desk) written(rec store.Record) {
	d.timers.Set(rec, d.now)
	d.used(d.uses.Set(rec))
	d.panel.change(rec.ID())
	d.notes.changed()
	if !rec.Phase.Wanted() {
		d.notes.drifts.Forget(rec.ID())
	}
	if rec.Phase != lifecycle.Fetching && rec.Phase != lifecycle.Intent {
		d.notes.progress.forget(rec.ID())
	}
}

// used handles a change of who uses some records' workloads: one that only waited for its users goes on. One whose removal has begun is tried
// again.
func (d *desk) used(ids []string) {
	d.panel.change(ids...)
	for _, id := range ids {
		rec, ok, err := d.ledger.record(id)
		if err != nil || !ok || d.uses.InUse(rec) {
			continue
		}
		switch rec.Phase {
		case lifecycle.Blocked:
			d.soon = append(d.soon, d.input(id, lifecycle.Event{Kind: lifecycle.Free}))
		case lifecycle.Leaving:
			d.soon = append(d.soon, d.input(id, lifecycle.Event{Kind: lifecycle.Wake}))
		}
	}
}

// apply asks the table about an event, and carries out the effects. It returns the
// record's next state.
func (d *desk) apply(rec store.Record, ev lifecycle.Event) (store.Record, error) {
	facts, err := d.facts(rec)
	if err != nil {
		return rec, err
	}
	next, effects := lifecycle.Next(rec, ev, facts)
	for _, e := range effects {
		if err := d.effect(rec, next, ev, e); err != nil {
			return next, err
		}
	}
	for _, e := range lifecycle.Happened(rec, next, ev) {
		d.after = append(d.after, func() { d.panel.event(next, e.Reason, e.Message) })
	}
	return next, nil
}

// effect carries out internal effects at once, and defers the others until the round is durable.
func (d *desk) effect(was, rec store.Record, ev lifecycle.Event, e lifecycle.Effect) error {
	id := rec.ID()
	switch e.Kind {
	case lifecycle.Save:
		d.ledger.stage(rec)
	case lifecycle.Judge:
		return d.judging.judge(rec)
	case lifecycle.ReplaceOlder:
		return d.older(rec, lifecycle.Event{Kind: lifecycle.Replace}, anyOlder)
	case lifecycle.OutdoOlder:
		return d.older(rec, lifecycle.Event{Kind: lifecycle.Replace}, neverDeployed)
	case lifecycle.EndOlder:
		return d.older(rec, lifecycle.Event{Kind: lifecycle.EndName, End: e.End}, anyOlder)
	case lifecycle.MendOlder:
		return d.older(rec, lifecycle.Event{Kind: lifecycle.Drift}, standingOlder)
	case lifecycle.FreeOthers:
		d.after = append(d.after, func() {
			for _, blocked := range d.uses.FreedBy(was) {
				d.soon = append(d.soon, d.input(blocked, lifecycle.Event{Kind: lifecycle.Free}))
			}
		})
	case lifecycle.Resend:
		d.asked = append(d.asked, id)
	case lifecycle.Impossible:
		d.parts.Log.Error().Str("id", id).Str("phase", string(was.Phase)).Str("event", string(ev.Kind)).
			Msg("an event came that can't come in this phase: nothing is changed")
	default:
		d.after = append(d.after, func() { d.outside(rec, e) })
	}
	return nil
}

// outside carries out an effect once the record is durable.
func (d *desk) outside(rec store.Record, e lifecycle.Effect) {
	id := rec.ID()
	switch e.Kind {
	case lifecycle.DoFetch, lifecycle.DoProvision, lifecycle.DoStop, lifecycle.DoDecommission:
		d.begin(e.Kind, rec)
	case lifecycle.Cancel:
		d.flights.cancel(id)
	case lifecycle.Later:
		d.timers.Try(rec, d.now, e.After)
	case lifecycle.Tell:
		d.parts.Feedback.Kick()
	case lifecycle.Bury:
		if d.durably(rec, "bury", func() error { return d.parts.Records.Bury(id) }) {
			d.buried(rec)
		}
	}
}

// buried forgets what the engine knew of a record that the store has no more. The end of one that was never accepted is no
// event: anybody can have one refused.
func (d *desk) buried(rec store.Record) {
	id := rec.ID()
	d.timers.Forget(id)
	d.used(d.uses.Drop(id))
	d.panel.change(id)
	if rec.Phase != lifecycle.Refused && rec.Phase != lifecycle.Dismissed {
		d.panel.event(rec, work.ReasonForgotten, "")
	}
	d.notes.changed()
}

// resend marks the answers that were asked for again in a round as undelivered, in one
// write. The error goes to those who asked: they ask once more.
func (d *desk) resend(ids []string) error {
	if len(ids) == 0 {
		return nil
	}
	err := supervise.Guard(d.parts.Log, "resend", func() error { return d.parts.Records.Resend(ids...) })
	if err == nil {
		d.parts.Feedback.Kick()
	}
	return err
}

// durably does one durable step outside the round's write; a failed one is tried again.
func (d *desk) durably(rec store.Record, what string, do func() error) bool {
	err := supervise.Guard(d.parts.Log, what, do)
	if err != nil && node.KindOf(err) != node.NotExist {
		event := d.parts.Log.Error()
		if node.KindOf(err) == node.Busy {
			event = d.parts.Log.Debug() // its time hasn't come
		}
		event.Str("id", rec.ID()).Err(err).Msg("cannot " + what + ": tried again")
		d.timers.Try(rec, d.now, d.parts.Limits.Retry.Delay(1))
		return false
	}
	return true
}

// input makes an input of an event, for the record that has the ID when its turn comes.
func (d *desk) input(id string, ev lifecycle.Event) input {
	return input{id: id, do: func() error {
		rec, ok, err := d.ledger.record(id)
		if err != nil || !ok {
			return err
		}
		_, err = d.apply(rec, ev)
		return err
	}}
}

// Filters for the older records of a name that an event is for.
func anyOlder(store.Record) bool            { return true }
func neverDeployed(other store.Record) bool { return other.Deployed.IsZero() }
func standingOlder(other store.Record) bool { return other.Phase == lifecycle.Deployed }

// older sends an event to the matching older records of a record's name; Drift only
// to the newest of them.
func (d *desk) older(rec store.Record, ev lifecycle.Event, is func(store.Record) bool) error {
	all, err := d.ledger.named(rec.Name)
	if err != nil {
		return err
	}
	for i := len(all) - 1; i >= 0; i-- {
		other := all[i]
		if other.ID() == rec.ID() || !other.Reservation.Created.Before(rec.Reservation.Created) {
			continue
		}
		if !is(other) {
			continue
		}
		if _, err := d.apply(other, ev); err != nil {
			return err
		}
		if ev.Kind == lifecycle.Drift {
			return nil
		}
	}
	return nil
}

// about adds a record's ID and type, and the step, to a log line.
func about(e *zerolog.Event, rec store.Record, step string) *zerolog.Event {
	return e.Str("id", rec.ID()).Str("type", string(rec.Reservation.Type)).Str("step", step)
}
