package lifecycle_test

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	"pgregory.net/rapid"

	"github.com/croft-edge/croft/pkg/clock"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/lifecycle"
)

// machine is a node of plain maps: it carries out the table's effects, one of a
// name or reservation at a time, and is stopped at any moment. The promises to
// users are in promises, which knows nothing of the table.
type machine struct {
	t        *rapid.T
	types    lifecycle.TypeFacts
	named    bool
	truth    time.Time
	uptime   time.Duration
	reading  clock.Reading
	saved    map[string]lifecycle.Record
	parked   map[string]lifecycle.Record
	staged   map[string]lifecycle.Record
	buried   time.Time // creation of the newest buried record of the name
	order    []string
	after    []func()
	flights  []*effect
	there    map[string]content
	robbed   map[string]bool // somebody else removed the workload
	promises *promises
	history  []string
	// returns is whether a forgotten reservation could be accepted again.
	returns bool
}

// content is the workload on the node under one name or ID.
type content struct {
	owner   string
	running bool
}

// effect is an effect that waits, or is in flight once it is the first of its key.
type effect struct {
	id   string
	kind lifecycle.EffectKind
	// older is the ID that runs again if this one can't take its place, where each of
	// a name is apart; empty for none.
	older string
}

const (
	grace   = 7 * 24 * time.Hour
	longest = 366 * 24 * time.Hour
	day     = 24 * time.Hour
)

var began = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func newMachine(t *rapid.T, named, apart bool) *machine {
	m := &machine{
		t: t, named: named, truth: began, uptime: 40 * day,
		saved: map[string]lifecycle.Record{}, parked: map[string]lifecycle.Record{}, there: map[string]content{}, robbed: map[string]bool{},
	}
	if !named {
		m.types = rapid.SampledFrom([]lifecycle.TypeFacts{
			{HoldsData: true}, {Stops: true, Prepares: true}, {HoldsData: true, Stops: true}, {},
		}).Draw(t, "type")
	}
	if apart {
		m.types = lifecycle.TypeFacts{Stops: true, Prepares: rapid.Bool().Draw(t, "prepares"), Apart: true}
	}
	m.returns = rapid.Bool().Draw(t, "returns")
	m.promises = newPromises(m)
	m.look()
	return m
}

// look reads the clock: NTP tells the truth, the explorer what it likes.
func (m *machine) look() {
	level := rapid.SampledFrom([]clock.Level{clock.None, clock.Stop, clock.Stop, clock.Remove}).Draw(m.t, "level")
	now := m.truth
	if level != clock.Remove && rapid.IntRange(0, 3).Draw(m.t, "lie") == 0 {
		now = now.Add(time.Duration(rapid.IntRange(-60, 400).Draw(m.t, "days off")) * day)
	}
	m.reading = clock.Reading{Now: now, Level: level, Uptime: m.uptime}
}

// key is the key that a reservation's effects conflict over, spot the place of its workload.
func (m *machine) spot(id string) string {
	if m.types.Apart {
		return id
	}
	return m.key(id)
}

func (m *machine) key(id string) string {
	if m.named {
		return "name"
	}
	return id
}

// view is a record in this round's state; parked ones aren't durable.
func (m *machine) view(id string) (lifecycle.Record, bool) {
	for _, of := range []map[string]lifecycle.Record{m.staged, m.saved, m.parked} {
		if rec, ok := of[id]; ok {
			return rec.Clone(), true
		}
	}
	return lifecycle.Record{}, false
}

func (m *machine) ids() []string {
	all := maps.Clone(m.saved)
	maps.Copy(all, m.staged)
	return slices.Sorted(maps.Keys(all))
}

// holders are the records that were accepted under the name, the oldest first.
func (m *machine) holders() (out []lifecycle.Record) {
	for _, id := range m.ids() {
		if rec, _ := m.view(id); rec.HoldsName() {
			out = append(out, rec)
		}
	}
	slices.SortFunc(out, func(a, b lifecycle.Record) int { return a.Reservation.Created.Compare(b.Reservation.Created) })
	return out
}

// standing is a record's Standing, as that type's comments define it.
func (m *machine) standing(rec lifecycle.Record) lifecycle.Standing {
	if !m.named || rec.Reservation == nil {
		return lifecycle.Alone
	}
	older := false
	var newest *lifecycle.Record
	for _, other := range m.holders() {
		switch cmp.Compare(other.Reservation.Created.UnixNano(), rec.Reservation.Created.UnixNano()) {
		case 1:
			newest = &other
		case -1:
			older = older || !other.Deployed.IsZero() && other.Phase != lifecycle.Replaced && !other.Tombstone()
		}
	}
	switch {
	case newest == nil && older:
		return lifecycle.Newest
	case newest == nil:
		return lifecycle.Alone
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

func (m *machine) facts(rec lifecycle.Record) lifecycle.Facts {
	flying := rec.Reservation != nil && slices.ContainsFunc(m.flights, func(e *effect) bool { return e.id == rec.ID() })
	return lifecycle.Facts{Time: m.reading, Type: m.types, Name: m.standing(rec), InFlight: flying, Returns: m.returns, Limits: limits()}
}

func limits() lifecycle.Limits {
	return lifecycle.Limits{
		Grace: grace, Look: time.Minute, TellAfter: 3, Longest: longest,
		Backoff: func(n int) time.Duration { return time.Duration(n) * time.Second },
	}
}

// round is one durable write. A crash keeps the records written before it, and loses the rest.
func (m *machine) round(what string, do func()) {
	m.history = append(m.history, fmt.Sprintf("%s (%s, %s)", what, m.reading.Level, m.reading.Now.Sub(began).Round(time.Hour)))
	m.staged, m.after = map[string]lifecycle.Record{}, nil
	do()
	staged, order, after := m.staged, m.order, m.after
	m.staged, m.order, m.after = nil, nil, nil
	crash := rapid.IntRange(0, 11).Draw(m.t, "crash") == 0 && what != "settle"
	if crash {
		order = order[:rapid.IntRange(0, len(order)).Draw(m.t, "written")]
	}
	for _, id := range order {
		m.saved[id] = staged[id]
		m.promises.keep(id)
		if staged[id].Phase != lifecycle.Waiting {
			delete(m.parked, id)
		}
	}
	m.promises.dropAll()
	if crash {
		m.crash()
		return
	}
	for _, f := range after {
		f()
	}
}

// apply asks the table, checks its answer, and carries out the internal effects.
func (m *machine) apply(rec lifecycle.Record, ev lifecycle.Event) lifecycle.Record {
	facts := m.facts(rec)
	next, effects := lifecycle.Next(rec, ev, facts)
	m.promises.check(rec, next, ev, effects)
	m.unswayed(rec, ev, facts)
	m.history = append(m.history, fmt.Sprintf("    %s: %s + %s (%s) -> %s %s %v",
		next.ID(), cmp.Or(rec.Phase, "none"), ev.Kind, facts.Name, next.Phase, next.End, kinds(effects)))
	for _, e := range effects {
		m.do(next, e)
	}
	return next
}

// unswayed asserts that the members for people decide nothing.
func (m *machine) unswayed(rec lifecycle.Record, ev lifecycle.Event, facts lifecycle.Facts) {
	other := rec.Clone()
	other.Attempts, other.Cause, other.NextAttempt = rec.Attempts+7, "another cause", began.Add(-time.Hour)
	a, effectsA := lifecycle.Next(rec, ev, facts)
	b, effectsB := lifecycle.Next(other, ev, facts)
	b.Attempts, b.Cause, b.NextAttempt, b.Result, b.Delivered = a.Attempts, a.Cause, a.NextAttempt, a.Result, a.Delivered
	if !reflect.DeepEqual(a, b) || !slices.Equal(deeds(effectsA), deeds(effectsB)) {
		m.fatalf("%s in %s: Attempts, Cause or NextAttempt decide: %+v %v, else %+v %v",
			ev.Kind, rec.Phase, a, kinds(effectsA), b, kinds(effectsB))
	}
}

// deeds are the effects without those that save, tell or wait.
func deeds(effects []lifecycle.Effect) (out []lifecycle.EffectKind) {
	for _, k := range kinds(effects) {
		if k != lifecycle.Save && k != lifecycle.Tell && k != lifecycle.Resend && k != lifecycle.Later {
			out = append(out, k)
		}
	}
	return out
}

func kinds(effects []lifecycle.Effect) (out []lifecycle.EffectKind) {
	for _, e := range effects {
		out = append(out, e.Kind)
	}
	return out
}

func (m *machine) do(rec lifecycle.Record, e lifecycle.Effect) {
	id := rec.ID()
	switch e.Kind {
	case lifecycle.Save:
		m.stage(rec)
	case lifecycle.Judge:
		m.judge(rec)
	case lifecycle.ReplaceOlder:
		m.older(rec, lifecycle.Event{Kind: lifecycle.Replace}, func(lifecycle.Record) bool { return true })
	case lifecycle.OutdoOlder:
		m.older(rec, lifecycle.Event{Kind: lifecycle.Replace}, func(o lifecycle.Record) bool { return o.Deployed.IsZero() })
	case lifecycle.EndOlder:
		m.older(rec, lifecycle.Event{Kind: lifecycle.EndName, End: e.End}, func(lifecycle.Record) bool { return true })
	case lifecycle.MendOlder:
		m.older(rec, lifecycle.Event{Kind: lifecycle.Drift}, func(o lifecycle.Record) bool { return o.Phase == lifecycle.Deployed })
	case lifecycle.DoFetch, lifecycle.DoProvision, lifecycle.DoStop, lifecycle.DoDecommission:
		m.after = append(m.after, func() {
			m.flights = append(m.flights, &effect{id: id, kind: e.Kind, older: m.standingOlder(rec, e.Kind)})
		})
	case lifecycle.Cancel:
		m.after = append(m.after, func() {
			m.flights = slices.DeleteFunc(m.flights, func(e *effect) bool { return e.id == id && m.first(e.id) != e })
		})
	case lifecycle.Bury:
		m.after = append(m.after, func() { m.bury(rec) })
	}
}

// bury forgets a record, except for its creation date, for its name.
func (m *machine) bury(rec lifecycle.Record) {
	delete(m.saved, rec.ID())
	if rec.HoldsName() && rec.Reservation.Created.After(m.buried) {
		m.buried = rec.Reservation.Created
	}
}

// outdated reports whether a newer reservation was accepted under the name.
func (m *machine) outdated(r *workload.Reservation) bool {
	return m.named && (!r.Created.After(m.buried) || slices.ContainsFunc(m.holders(), func(o lifecycle.Record) bool {
		return o.ID() != r.ID && !r.Created.After(o.Reservation.Created)
	}))
}

func (m *machine) stage(rec lifecycle.Record) {
	id := rec.ID()
	if _, again := m.staged[id]; !again {
		m.order = append(m.order, id)
	}
	m.staged[id] = rec
}

// standingOlder is the ID of the deployed older record while rec is made in its place.
func (m *machine) standingOlder(rec lifecycle.Record, kind lifecycle.EffectKind) (older string) {
	if !m.types.Apart || kind != lifecycle.DoProvision || !rec.Deployed.IsZero() {
		return ""
	}
	for _, other := range m.holders() {
		if other.Reservation.Created.Before(rec.Reservation.Created) && !other.Deployed.IsZero() && other.Phase.Wanted() {
			older = other.ID()
		}
	}
	return older
}

func (m *machine) older(rec lifecycle.Record, ev lifecycle.Event, is func(lifecycle.Record) bool) {
	for _, other := range slices.Backward(m.holders()) {
		if !other.Reservation.Created.Before(rec.Reservation.Created) {
			continue
		}
		if !is(other) {
			continue
		}
		m.apply(other, ev)
		if ev.Kind == lifecycle.Drift {
			return
		}
	}
}

// judge answers at once, or parks a record until the node's offer is there.
func (m *machine) judge(rec lifecycle.Record) {
	if rapid.Bool().Draw(m.t, "at once") {
		m.verdict(rec)
		return
	}
	if _, durable := m.saved[rec.ID()]; !durable {
		m.parked[rec.ID()] = rec
	}
}

// verdict is the verdict of policy and admission: never Admit for a record whose
// time hasn't come or is over, or that is older than another of its name.
func (m *machine) verdict(rec lifecycle.Record) {
	r := rec.Reservation
	judged := m.reading.Now
	older := m.outdated(r)
	refused := lifecycle.Event{Kind: lifecycle.Refuse, Err: node.Errorf(node.Refused, "refused")}
	later := lifecycle.Event{Kind: lifecycle.Postpone, Err: node.Errorf(node.Transient, "it can't be told yet")}
	dated := !r.Created.After(judged) && !r.ExpiredAt(judged)
	switch {
	case m.reading.Level == clock.None && (!dated || r.Created.After(m.truth)):
		m.apply(rec, later)
	case !dated, older, rapid.IntRange(0, 9).Draw(m.t, "refused") == 0:
		m.apply(rec, refused)
	case r.Created.After(m.truth): // the explorer lies, and the user's clock was ahead: nobody is harmed
		m.apply(rec, refused)
	case rapid.IntRange(0, 3).Draw(m.t, "postponed") == 0:
		m.apply(rec, later)
	default:
		m.apply(rec, lifecycle.Event{Kind: lifecycle.Admit})
	}
}

// first is the effect in flight for an ID's key.
func (m *machine) first(id string) *effect {
	for _, e := range m.flights {
		if m.key(e.id) == m.key(id) {
			return e
		}
	}
	return nil
}

// crash loses all but the durable records; effects in flight may have happened.
func (m *machine) crash() {
	m.history = append(m.history, "  CRASH")
	seen := map[string]bool{}
	for _, e := range m.flights {
		if key := m.key(e.id); !seen[key] {
			m.cutShort(e)
		}
		seen[m.key(e.id)] = true
	}
	m.flights, m.parked = nil, map[string]lifecycle.Record{}
	m.look()
	m.round("restart", func() {
		for _, id := range m.ids() {
			if rec, ok := m.view(id); ok {
				m.apply(rec, lifecycle.Event{Kind: lifecycle.Restart})
			}
		}
	})
}

// cutShort has an interrupted effect happen, in part, or not at all.
func (m *machine) cutShort(e *effect) {
	if m.types.Apart && e.kind == lifecycle.DoProvision && rapid.Bool().Draw(m.t, "in part") {
		m.quiesce(e.id)
		m.there[e.id] = content{owner: e.id}
		return
	}
	if rapid.Bool().Draw(m.t, "happened") {
		m.happen(e)
	}
}

// quiesce stops the others of a reservation's name.
func (m *machine) quiesce(id string) {
	for other, at := range m.there {
		if other != id {
			at.running = false
			m.there[other] = at
		}
	}
}

// goBack undoes a failed provision: the older workload whose place it should have
// taken runs again.
func (m *machine) goBack(e *effect) {
	if !m.types.Apart || e.kind != lifecycle.DoProvision || !rapid.Bool().Draw(m.t, "had stopped others") {
		return
	}
	m.quiesce("")
	if e.older != "" {
		m.there[e.older] = content{owner: e.older, running: true}
	}
}

// happen applies an effect to the node.
func (m *machine) happen(e *effect) {
	key := m.spot(e.id)
	switch e.kind {
	case lifecycle.DoProvision:
		if m.types.Apart {
			m.quiesce(e.id)
		}
		m.there[key] = content{owner: e.id, running: true}
	case lifecycle.DoDecommission:
		delete(m.there, key)
	case lifecycle.DoStop:
		at, ok := m.there[key]
		switch {
		case !m.types.Stops && m.types.HoldsData:
			m.fatalf("%s is to be stopped, which would take its data", e.id)
		case ok && m.types.Stops:
			at.running = false
			m.there[key] = at
		default:
			delete(m.there, key)
		}
	}
}

func (m *machine) fatalf(format string, args ...any) {
	m.t.Helper()
	for _, line := range m.history {
		m.t.Log(line)
	}
	for _, id := range m.promises.ids() {
		one := m.promises.get(id)
		m.t.Logf("%s: created %s, ends %s, renewal that waits %s, evicted %s; %s", id, one.created.Sub(began), one.end.Sub(began),
			one.later.Format(time.DateTime), one.evicted.Format(time.DateTime), one.words())
	}
	m.t.Fatalf(format, args...)
}
