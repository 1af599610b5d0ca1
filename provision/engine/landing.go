package engine

import (
	"maps"
	"strings"
	"time"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/lifecycle"
	"github.com/croft-edge/croft/provision/store"
	"github.com/croft-edge/croft/provision/uses"
)

// begin puts an effect in flight. One that can't be begun fails as an event.
func (d *desk) begin(kind lifecycle.EffectKind, rec store.Record) {
	one := &flight{kind: kind, rec: rec, queued: time.Now()}
	var err error
	if kind == lifecycle.DoDecommission && d.uses.InUse(rec) {
		err = node.Errorf(node.Busy, "cannot decommission %s: in use by %s", rec.ID(), strings.Join(d.uses.UsersOf(rec), ", "))
	}
	if kind == lifecycle.DoProvision {
		if one.bound, err = d.bindings(rec); err == nil {
			one.place, err = d.place(rec)
		}
	}
	if err != nil {
		d.soon = append(d.soon, d.landed(one, outcome{event: failure(err)}))
		return
	}
	if err = d.flights.begin(one); err != nil {
		d.soon = append(d.soon, d.landed(one, outcome{event: untouched(err)}))
	}
}

// returned turns an outcome into the next round's inputs.
func (d *desk) returned(o outcome) []input {
	one, halted := d.flights.land(o)
	var out []input
	if one != nil && !o.dropped {
		out = append(out, d.landed(one, o))
	}
	for _, each := range halted {
		err := node.Errorf(node.Transient, "cannot %s %s: an earlier effect hasn't ended", each.kind, each.rec.ID())
		out = append(out, d.landed(each, outcome{event: untouched(err)}))
	}
	return out
}

// landed makes an input of an outcome, for the record as it is by then. A record
// with another hash doesn't get the event.
func (d *desk) landed(one *flight, o outcome) input {
	if one.kind == removeOrphan {
		return input{id: one.rec.ID(), do: func() error { return d.compared.orphanEnded(one, o.event.Err) }}
	}
	id := one.rec.ID()
	took := time.Since(one.queued)
	return input{id: id, do: func() error {
		rec, ok, err := d.ledger.record(id)
		if err != nil || !ok || rec.Hash != one.rec.Hash {
			return err
		}
		ev := o.event
		ev.Bound = one.bound
		switch ev.Kind {
		case lifecycle.FetchLater:
			ev.Pause = d.notes.progress.note(id, o.progress)
			d.panel.change(id)
		case lifecycle.Fetched:
			d.notes.progress.forget(id)
		default:
			d.notes.progress.forget(id)
			about(d.parts.Log.Info(), rec, string(one.kind)).Str("end", string(rec.End)).Int("attempts", rec.Attempts).
				Dur("took", took).AnErr("err", ev.Err).Msg("attempt ended")
		}
		if ev.Kind == lifecycle.Provisioned {
			d.compared.righted(rec)
		}
		d.notes.drifts.EffectEnded(id)
		_, err = d.apply(rec, ev)
		return err
	}}
}

// failure is the event of an effect that failed.
func failure(err error) lifecycle.Event {
	kind := lifecycle.FailAgain
	switch k := node.KindOf(err); {
	case k == node.Busy:
		kind = lifecycle.FailBusy
	case k == node.Unknown:
		kind = lifecycle.FailUnknown
	case k.Final():
		kind = lifecycle.FailFinal
	}
	return lifecycle.Event{Kind: kind, Err: err}
}

// untouched is the event of an effect that never began: nothing of the workload
// has changed, as when others need it.
func untouched(err error) lifecycle.Event {
	return lifecycle.Event{Kind: lifecycle.FailBusy, Err: err}
}

// bindings are the hashes of the volumes that a workload refers to, by ID. An ID
// that belongs to another reservation than when the workload was made is refused:
// an explorer, which assigns IDs, can't swap data.
func (d *desk) bindings(rec store.Record) (map[string]workload.Hash, error) {
	_, volumes := uses.References(rec.Reservation)
	if len(volumes) == 0 {
		return nil, nil
	}
	bound := maps.Clone(rec.Bound)
	if bound == nil {
		bound = map[string]workload.Hash{}
	}
	for _, id := range volumes {
		other, ok, err := d.ledger.record(id)
		if err != nil {
			return nil, err
		}
		if !ok || other.Tombstone() || other.Reservation.User != rec.Reservation.User {
			continue // the provisioner reports the error
		}
		if before, known := bound[id]; known && before != other.Hash {
			return nil, node.Errorf(node.Refused, "cannot provision %s: %s is another reservation than the one that it was made with", rec.ID(), id)
		}
		bound[id] = other.Hash
	}
	return bound, nil
}
