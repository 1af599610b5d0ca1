package lifecycle_test

import (
	"fmt"
	"maps"
	"slices"

	"github.com/croft-edge/croft/pkg/clock"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/provision/lifecycle"
)

// calm lets everything work, with a true clock, until nothing changes.
func (m *machine) calm(level clock.Level) {
	m.reading = clock.Reading{Now: m.truth, Level: level, Uptime: m.uptime}
	for range 100 {
		before := m.picture()
		m.round("settle", func() {
			for _, id := range m.ids() {
				m.land(id, true)
			}
		})
		for _, id := range m.ids() {
			m.round("settle", func() {
				if rec, ok := m.view(id); ok {
					m.settle(rec)
				}
			})
		}
		for _, id := range slices.Sorted(maps.Keys(m.parked)) {
			m.round("settle", func() {
				if rec, _ := m.view(id); rec.Phase == lifecycle.Waiting {
					m.settled(rec)
				}
			})
			delete(m.parked, id)
		}
		if m.picture() == before && len(m.flights) == 0 {
			return
		}
	}
	m.fatalf("it never calms down")
}

// settle is the world's next step for a record when all works.
func (m *machine) settle(rec lifecycle.Record) {
	if rec.Result != nil && !rec.Delivered {
		rec.Delivered = true
		m.stage(rec)
		return
	}
	at, there := m.there[m.spot(rec.ID())]
	gone := !there || at.owner != rec.ID() || !at.running
	switch {
	case rec.Phase == lifecycle.Waiting:
		m.settled(rec)
	case rec.Phase == lifecycle.Dismissed:
		delete(m.saved, rec.ID())
	case rec.Pending != nil && rec.Pending.Expires.After(rec.Reservation.Expires()) && m.truth.Before(rec.Pending.Expires):
		if rec = m.apply(rec, lifecycle.Event{Kind: lifecycle.Renew, Renewal: rec.Pending}); rec.Pending != nil {
			m.apply(rec, lifecycle.Event{Kind: lifecycle.Wake})
		}
	case rec.Pending != nil:
		m.apply(rec, lifecycle.Event{Kind: lifecycle.RenewNever})
	case rec.Phase == lifecycle.Deployed && gone && m.first(rec.ID()) == nil && m.truth.Before(rec.Reservation.Expires()):
		m.apply(rec, lifecycle.Event{Kind: lifecycle.Drift})
	default:
		m.apply(rec, lifecycle.Event{Kind: lifecycle.Wake})
	}
}

// settled is the verdict when the node has room for everything.
func (m *machine) settled(rec lifecycle.Record) {
	r := rec.Reservation
	ev := lifecycle.Event{Kind: lifecycle.Admit}
	if m.outdated(r) || r.ExpiredAt(m.truth) || r.Created.After(m.truth) {
		ev.Kind = lifecycle.Refuse
	}
	if ev.Kind == lifecycle.Refuse {
		ev.Err = node.Errorf(node.Refused, "refused")
	}
	m.apply(rec, ev)
}

// picture shows the durable records and the node's contents.
func (m *machine) picture() string {
	out := ""
	for _, id := range m.ids() {
		rec := m.saved[id]
		out += fmt.Sprintln(id, rec.Phase, rec.End, rec.Delivered, rec.Pending, rec.Reservation.Expires())
	}
	return out + fmt.Sprint(m.there, len(m.flights))
}

// kept asserts that the node has the promised workloads, and runs nothing else.
func (p *promises) kept() {
	m := p.m
	m.oneRuns()
	for _, id := range p.ids() {
		rec, known := m.view(id)
		at, there := m.there[m.spot(id)]
		mine := there && at.owner == id
		live, possibly := p.live(id)
		for _, other := range p.rivals(id) {
			newer, _ := p.live(other)
			live, possibly = live && !newer, possibly && !newer // the newest stands for all of its name
		}
		one := p.get(id)
		switch {
		case live && (!mine || !at.running || rec.Phase != lifecycle.Deployed):
			m.fatalf("%s was promised and isn't on the node: record %s %s, there %+v", id, rec.Phase, rec.End, m.there)
		case !possibly && mine && at.running && (m.types.Stops || !m.types.HoldsData):
			m.fatalf("%s runs and nobody is promised it: record %s %s", id, rec.Phase, rec.End)
		case one.deleted && mine:
			m.fatalf("%s was deleted by its user and is on the node: record %s %s", id, rec.Phase, rec.End)
		case !known && m.truth.Before(one.end) && one.accepted:
			m.fatalf("%s is forgotten before its signed end", id)
		}
		m.keepsData(id, one, live, mine)
	}
}

// oneRuns asserts that at most one of the apart workloads runs.
func (m *machine) oneRuns() {
	running := 0
	for _, at := range m.there {
		if at.running {
			running++
		}
	}
	if m.types.Apart && running > 1 {
		m.fatalf("%d of one name run: %+v", running, m.there)
	}
}

// keepsData asserts that a user's data stays until its end is proven.
func (m *machine) keepsData(id string, one promise, live, mine bool) {
	held := one.accepted && one.deployed && !one.deleted && m.types.HoldsData && !live
	graceLeft := !one.evicted.IsZero() && m.truth.Sub(one.evicted) < grace
	if held && graceLeft && !mine && !m.robbed[id] {
		m.fatalf("the data of %s is gone within its grace", id)
	}
}

// remembered asserts that an ended reservation isn't forgotten while it could be accepted again.
func (p *promises) remembered() {
	for _, id := range p.ids() {
		if _, there := p.m.saved[id]; p.m.returns && p.get(id).ended && !there {
			p.m.fatalf("%s has ended, and is forgotten", id)
		}
	}
}

// forgotten asserts that nothing is left, on the node or in the store, once all ends are proven.
func (p *promises) forgotten() {
	if len(p.m.there) > 0 || len(p.m.saved) > 0 {
		p.m.fatalf("something is left when all is over: on the node %+v, records %s", p.m.there, p.m.picture())
	}
}
