package engine

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/pkg/clock"
	"github.com/croft-edge/croft/pkg/resources"
	"github.com/croft-edge/croft/pkg/resources/work"
	"github.com/croft-edge/croft/pkg/supervise"
	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/drift"
	"github.com/croft-edge/croft/provision/lifecycle"
	"github.com/croft-edge/croft/provision/provisioner"
	"github.com/croft-edge/croft/provision/store"
	"github.com/croft-edge/croft/provision/uses"
)

// Board is where the engine shows what it has decided. Its methods are called on the engine's thread: they wait for
// nothing, and a failure of theirs changes nothing.
type Board interface {
	// Workloads replaces what is shown of some workloads. The node has dropped the records of those that are gone. It is
	// called with none of either once the node has restored its workloads.
	Workloads(shown []work.WorkloadSpec, gone []string)
	// Orphans replaces all orphans.
	Orphans(all []work.OrphanSpec)
	// Event shows that something has happened. Last is when.
	Event(e work.EventSpec)
}

// nobody looks: the Board of an engine without one.
type nobody struct{}

// Workloads implements Board.
func (nobody) Workloads([]work.WorkloadSpec, []string) {}

// Orphans implements Board.
func (nobody) Orphans([]work.OrphanSpec) {}

// Event implements Board.
func (nobody) Event(work.EventSpec) {}

// panel gathers what a round has changed, and hands it to the board once the round is over. It is for the engine's
// thread alone.
type panel struct {
	parts   *Config
	notes   *notes
	uses    *uses.Uses
	flights *flights
	ledger  *ledger
	// changed are the records whose workloads are to be shown.
	changed map[string]bool
	// conditions are those that are shown, by ID: they know since when each holds.
	conditions map[string][]resources.Condition
}

func newPanel(parts *Config, notes *notes, used *uses.Uses, flights *flights, ledger *ledger) *panel {
	return &panel{parts: parts, notes: notes, uses: used, flights: flights, ledger: ledger, changed: map[string]bool{}, conditions: map[string][]resources.Condition{}}
}

// change has workloads shown at the end of the round.
func (p *panel) change(ids ...string) {
	for _, id := range ids {
		p.changed[id] = true
	}
}

// show hands what has changed to the board: the durable records, not an arrival that may be refused yet.
func (p *panel) show() {
	if _, nobody := p.parts.Board.(nobody); nobody || len(p.changed) == 0 {
		clear(p.changed)
		return
	}
	now := p.parts.Clock.Read()
	var shown []work.WorkloadSpec
	var gone []string
	for _, id := range slices.Sorted(maps.Keys(p.changed)) {
		rec, ok, err := p.ledger.durable(id)
		if err != nil {
			continue // it stays as it is shown
		}
		if !ok {
			gone = append(gone, id)
			delete(p.conditions, id)
			continue
		}
		s := viewOf(rec, p.parts, p.notes, now)
		s.Users, s.Flights = p.uses.UsersOf(rec), p.flights.of(id)
		p.date(rec, &s, now.Now.UTC())
		shown = append(shown, s)
	}
	clear(p.changed)
	p.tell(func(b Board) { b.Workloads(shown, gone) })
}

// date says since when the conditions of a workload hold. Nothing is remembered of a tombstone whose result is delivered, of which there may be many:
// when it is shown anew, its conditions hold since its result.
func (p *panel) date(rec store.Record, s *work.WorkloadSpec, now time.Time) {
	id := rec.ID()
	before, known := p.conditions[id]
	if !known && rec.Tombstone() && !s.ResultAt.IsZero() {
		now = s.ResultAt
	}
	s.Conditions = resources.Dated(s.Conditions, before, now)
	if delete(p.conditions, id); !rec.Tombstone() || !rec.Delivered {
		p.conditions[id] = slices.Clone(s.Conditions)
	}
}

// event shows and logs that something has happened to a record's workload.
func (p *panel) event(rec store.Record, reason, message string) {
	known, ok := work.ReasonOf(reason)
	if !ok {
		return
	}
	e := work.EventSpec{
		Kind: known.Kind, Reason: reason, Operation: known.Operation, Object: uses.Name(rec), User: rec.Reservation.User,
		Message: workload.ErrorText(message), Last: p.parts.Clock.Read().Now.UTC(),
	}
	p.happened(rec.Reservation.Type, rec.ID(), e)
}

// happened shows an event, and logs it. An explorer that asks for a result again makes a Synced each time, at no cost: that
// one is in the log of level debug alone.
func (p *panel) happened(t workload.Type, id string, e work.EventSpec) {
	level := zerolog.InfoLevel
	if e.Reason == work.ReasonSynced {
		level = zerolog.DebugLevel
	}
	p.parts.Log.WithLevel(level).Str("id", id).Str("type", string(t)).Str("step", "event").Str("operation", e.Operation).Str("reason", e.Reason).
		Msg("event")
	p.tell(func(b Board) { b.Event(e) })
}

// orphans shows all orphans, and orphaned shows and logs an event about one.
func (p *panel) orphans(all []drift.Orphan) {
	out := make([]work.OrphanSpec, 0, len(all))
	for _, o := range all {
		out = append(out, work.OrphanSpec{Type: o.Type, ID: o.ID, Hash: hashText(o.Hash), Since: o.Since})
	}
	p.tell(func(b Board) { b.Orphans(out) })
}

func (p *panel) orphaned(o drift.Orphan, reason string) {
	known, _ := work.ReasonOf(reason)
	e := work.EventSpec{
		Kind: known.Kind, Reason: reason, Operation: known.Operation, Object: string(o.Type) + "/" + o.ID,
		Message: hashText(o.Hash), Last: p.parts.Clock.Read().Now.UTC(),
	}
	p.happened(o.Type, o.ID, e)
}

// tell calls the board. A panic of its is logged, and changes nothing.
func (p *panel) tell(do func(b Board)) {
	supervise.Do(p.parts.Log, "board", func() { do(p.parts.Board) })
}

// viewOf is an operator's view of a record, but for what only the engine's thread knows.
func viewOf(rec store.Record, parts *Config, n *notes, now clock.Reading) work.WorkloadSpec {
	s := work.WorkloadSpec{
		ID:          rec.ID(),
		Type:        rec.Reservation.Type,
		User:        rec.Reservation.User,
		Phase:       string(rec.Phase),
		Attempts:    rec.Attempts,
		Error:       rec.Cause,
		NextAttempt: rec.NextAttempt,
		Expires:     rec.Reservation.Expires(),
		Delivered:   rec.Delivered,
		Network:     networkOf(rec.Reservation),
	}
	if rec.Result != nil {
		s.State, s.ResultError, s.ResultAt = rec.Result.State, rec.Result.Error, rec.Result.Created.UTC()
		s.Pool = poolOf(rec.Result, parts.Provisioners[rec.Reservation.Type])
	}
	var seen lifecycle.Observed
	seen.Fetch, _ = n.progress.text(rec.ID())
	var last *drift.Drift
	if s.Restored, last = n.drifts.Last(rec.ID()); last != nil {
		s.Drift = &work.Drift{At: last.At, What: last.What}
		if n.drifts.Open(rec.ID()) {
			seen.Drift = last.What
		}
	}
	s.Pending = pending(rec, n, now)
	s.Conditions = lifecycle.Conditions(rec, seen)
	return s
}

// poolOf is the pool that a workload's result names, empty for none.
func poolOf(r *workload.Result, p provisioner.Provisioner) string {
	placed, ok := p.(provisioner.Placed)
	if !ok || r.State != workload.StateOK {
		return ""
	}
	return placed.Pool(r.Data)
}

// networkOf is the name of the network that a reservation makes or uses.
func networkOf(r *workload.Reservation) string {
	if r.Type == workload.TypeNetwork && len(r.Data) > 0 {
		if data, err := workload.DataOf[workload.Network](r); err == nil {
			return data.Name
		}
		return ""
	}
	if len(r.Data) == 0 {
		return ""
	}
	network, _ := uses.References(r)
	return network
}

// of are the effects of an ID that wait or are under way, the oldest first.
func (f *flights) of(id string) []work.Flight {
	var out []work.Flight
	for _, task := range f.queue.Of(id) {
		one := task.Do.(*flight)
		shown := work.Flight{Kind: string(one.kind), Since: one.queued.UTC(), Abandoned: task.Stuck()}
		if !one.deadline.IsZero() {
			shown.Deadline = one.deadline.UTC()
		}
		out = append(out, shown)
	}
	return out
}

// Acknowledged says that feedback has noted that the explorer has the results of those records. It doesn't wait.
func (e *Engine) Acknowledged(ids ...string) { e.acknowledged.add(ids) }

// acknowledged has records shown whose results the explorer has now.
func (p *panel) acknowledged(ids []string) {
	p.change(ids...)
	for _, id := range ids {
		if rec, ok, err := p.ledger.record(id); err == nil && ok && rec.Delivered && rec.Admitted {
			p.event(rec, work.ReasonSynced, string(rec.Result.State))
		}
	}
}

// mailbox holds IDs for the engine's thread. Whoever adds one never waits.
type mailbox struct {
	wake chan struct{}
	mu   sync.Mutex
	ids  map[string]bool
}

func newMailbox() *mailbox {
	return &mailbox{wake: make(chan struct{}, 1), ids: map[string]bool{}}
}

func (m *mailbox) add(ids []string) {
	m.mu.Lock()
	for _, id := range ids {
		m.ids[id] = true
	}
	m.mu.Unlock()
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

func (m *mailbox) take() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := slices.Collect(maps.Keys(m.ids))
	clear(m.ids)
	return out
}
