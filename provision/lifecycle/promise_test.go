package lifecycle_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/croft-edge/croft/pkg/clock"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/lifecycle"
)

// Random histories of a node's world, with a crash between any two events. At
// every step nothing irreversible is done without proof; once all has calmed down,
// exactly the promised workloads are on the node.
//
// `go test -run Promises -rapid.checks=50000` walks more of them.
func TestPromisesOfOneReservation(t *testing.T) {
	for range series {
		rapid.Check(t, func(t *rapid.T) { history(newMachine(t, false, false), 1) })
	}
}

func TestPromisesUnderOneName(t *testing.T) {
	for range series {
		rapid.Check(t, func(t *rapid.T) { history(newMachine(t, true, false), 4) })
	}
}

// Each workload of a name is apart: until a newer one has taken its place for good,
// the node has the older one, wherever the node is stopped meanwhile.
func TestPromisesOfOneInAnothersPlace(t *testing.T) {
	for range series {
		rapid.Check(t, func(t *rapid.T) { history(newMachine(t, true, true), 4) })
	}
}

// series is how many times a hundred histories are walked.
const series = 5

func history(m *machine, reservations int) {
	ids := make([]string, reservations)
	for i := range ids {
		ids[i] = fmt.Sprintf("%d-1", i+1)
	}
	for range rapid.IntRange(5, 60).Draw(m.t, "steps") {
		m.look()
		m.step(rapid.SampledFrom(ids).Draw(m.t, "id"))
	}
	m.calm(clock.Stop)
	m.promises.kept()
	m.truth, m.uptime = m.truth.Add(3*longest), m.uptime+3*longest
	m.calm(clock.Remove)
	m.promises.remembered()
	m.returns = false
	m.calm(clock.Remove)
	m.promises.forgotten()
}

// step is one random event for one reservation.
func (m *machine) step(id string) {
	rec, known := m.view(id)
	what := rapid.SampledFrom([]string{
		"arrive", "arrive", "land", "land", "land", "land", "wake", "wake", "time", "renew", "delete", "evict", "drift",
		"judge", "deliver", "free", "power", "crash", "redeliver",
	}).Draw(m.t, "what")
	switch {
	case what == "time":
		m.pass(time.Duration(rapid.IntRange(1, 200).Draw(m.t, "hours")) * time.Hour)
	case what == "power":
		m.uptime -= time.Duration(rapid.IntRange(0, 10).Draw(m.t, "minutes")) * time.Minute
		m.crash()
	case what == "crash":
		m.crash()
	case what == "land":
		m.round("land", func() { m.land(id, false) })
	case !known:
		m.round("arrive "+id, func() { m.arrive(id) })
	default:
		m.round(what+" "+id, func() { m.happens(what, rec) })
	}
}

// pass lets time pass; the machine is off for a part of it.
func (m *machine) pass(d time.Duration) {
	m.truth = m.truth.Add(d)
	m.uptime += d * time.Duration(rapid.IntRange(0, 4).Draw(m.t, "quarters up")) / 4
	m.history = append(m.history, "time passes: "+d.String())
}

func (m *machine) arrive(id string) {
	var number int
	_, _ = fmt.Sscanf(id, "%d-1", &number)
	r := &workload.Reservation{
		ID: id, NodeID: "node", User: "user", Type: workload.TypeVolume, Data: json.RawMessage(`{"size":1}`),
		Created: m.truth.Add(time.Duration(number)*time.Second - time.Minute), Duration: time.Duration(rapid.IntRange(1, 30).Draw(m.t, "days")) * day,
	}
	if rapid.IntRange(0, 7).Draw(m.t, "ahead") == 0 {
		r.Created = r.Created.Add(20 * day)
	}
	if before, ok := m.promises.of[id]; ok { // the same document comes again
		r.Created, r.Duration = before.created, before.end.Sub(before.created)
		if !m.truth.Before(before.end) {
			return // its end has passed, and policy refuses it
		}
	}
	ev := lifecycle.Event{Kind: lifecycle.Arrive, Record: lifecycle.Record{Reservation: r, Hash: workload.Hash{byte(number)}}}
	if m.named {
		r.Type, ev.Record.Name = workload.TypeNetwork, lifecycle.NameKey{1}
	}
	if rapid.IntRange(0, 9).Draw(m.t, "deleted") == 0 {
		ev.Deletion = &workload.Deletion{Created: m.truth}
	}
	if rapid.IntRange(0, 9).Draw(m.t, "renewed") == 0 {
		ev.RenewalLater = &workload.Renewal{Expires: r.Expires().Add(10 * day)}
	}
	m.apply(lifecycle.Record{}, ev)
}

func (m *machine) happens(what string, rec lifecycle.Record) {
	switch what {
	case "arrive", "redeliver":
		m.apply(rec, lifecycle.Event{Kind: lifecycle.Redeliver})
	case "delete":
		if rec.Reservation.Deletion == nil && rec.Phase != lifecycle.Ended {
			m.apply(rec, lifecycle.Event{Kind: lifecycle.Delete, Deletion: &workload.Deletion{Created: m.truth}})
		}
	case "renew":
		m.renew(rec)
	case "evict":
		if rec.Phase.Wanted() || rec.Phase == lifecycle.Replaced {
			m.apply(rec, lifecycle.Event{Kind: lifecycle.Evict})
		}
	case "judge":
		if rec.Phase == lifecycle.Waiting {
			m.verdict(rec)
		}
	case "drift":
		m.drift(rec)
	case "free":
		m.apply(rec, lifecycle.Event{Kind: lifecycle.Free})
	case "deliver":
		if rec.Result != nil && m.saved[rec.ID()].Result != nil {
			rec.Delivered, rec.Result.Sequence = true, 1
			m.stage(rec)
		}
	default:
		m.wake(rec)
	}
}

func (m *machine) renew(rec lifecycle.Record) {
	if rec.Tombstone() {
		return
	}
	renewal := &workload.Renewal{Expires: rec.Reservation.Expires().Add(time.Duration(rapid.IntRange(1, 20).Draw(m.t, "longer")) * day)}
	kind := lifecycle.Renew
	if m.reading.Level == clock.None || rapid.Bool().Draw(m.t, "judged later") {
		kind = lifecycle.RenewLater
	}
	m.apply(rec, lifecycle.Event{Kind: kind, Renewal: renewal})
}

// wake judges a pending renewal, then looks at the time.
func (m *machine) wake(rec lifecycle.Record) {
	if rec.Pending != nil {
		verdict := rapid.SampledFrom([]lifecycle.Kind{lifecycle.Renew, lifecycle.RenewLater, lifecycle.RenewNever}).Draw(m.t, "renewal is")
		switch {
		case m.reading.Level == clock.None:
		case !rec.Pending.Expires.After(rec.Reservation.Expires()), verdict == lifecycle.RenewNever && m.reading.Level == clock.Remove:
			rec = m.apply(rec, lifecycle.Event{Kind: lifecycle.RenewNever})
		case verdict == lifecycle.Renew:
			if rec = m.apply(rec, lifecycle.Event{Kind: lifecycle.Renew, Renewal: rec.Pending}); rec.Pending == nil {
				return
			}
		}
	}
	m.apply(rec, lifecycle.Event{Kind: lifecycle.Wake})
}

// drift removes a workload from the node, and sends Drift.
func (m *machine) drift(rec lifecycle.Record) {
	if rec.Phase == lifecycle.Deployed && m.first(rec.ID()) == nil {
		delete(m.there, m.spot(rec.ID()))
		m.robbed[rec.ID()] = true
		m.apply(rec, lifecycle.Event{Kind: lifecycle.Drift})
	}
}

// land ends the effect in flight for an ID's key.
func (m *machine) land(id string, well bool) {
	e := m.first(id)
	if e == nil {
		return
	}
	how := "well"
	if !well {
		how = rapid.SampledFrom([]string{"well", "well", "again", "unknown", "final", "busy"}).Draw(m.t, "ends")
	}
	ev := lifecycle.Event{Err: node.Errorf(node.Transient, "it failed")}
	switch {
	case how == "well", how == "busy" && e.kind != lifecycle.DoDecommission:
		m.happen(e)
		ev = lifecycle.Event{Kind: ends()[e.kind], Data: json.RawMessage(`{}`)}
	case how == "final" && (e.kind == lifecycle.DoProvision || e.kind == lifecycle.DoFetch):
		ev.Kind = lifecycle.FailFinal
		m.goBack(e)
	case how == "busy":
		ev.Kind = lifecycle.FailBusy
	case how == "unknown":
		ev.Kind = lifecycle.FailUnknown
		m.cutShort(e)
	default:
		ev.Kind = lifecycle.FailAgain
		m.goBack(e)
	}
	m.flights = slices.DeleteFunc(m.flights, func(o *effect) bool { return o == e })
	again := slices.ContainsFunc(m.flights, func(o *effect) bool { return o.id == e.id })
	if rec, ok := m.view(e.id); ok && !again {
		m.apply(rec, ev)
	}
}

func ends() map[lifecycle.EffectKind]lifecycle.Kind {
	return map[lifecycle.EffectKind]lifecycle.Kind{
		lifecycle.DoFetch: lifecycle.Fetched, lifecycle.DoProvision: lifecycle.Provisioned,
		lifecycle.DoStop: lifecycle.Stopped, lifecycle.DoDecommission: lifecycle.Decommissioned,
	}
}
