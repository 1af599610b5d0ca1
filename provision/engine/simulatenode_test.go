package engine

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/pkg/clock"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/admit"
	"github.com/croft-edge/croft/provision/drift"
	"github.com/croft-edge/croft/provision/lifecycle"
	"github.com/croft-edge/croft/provision/logonce"
	"github.com/croft-edge/croft/provision/provisioner"
	"github.com/croft-edge/croft/provision/pulse"
	"github.com/croft-edge/croft/provision/source"
	"github.com/croft-edge/croft/provision/store"
)

// Limits of a simulated node, in all and per user.
const (
	simSSD       = 12
	simCPU       = 4
	simWorkloads = 8
)

// simNode is one life of croft's process: it ends at a crash. The desk is driven
// as the loop drives it, by one thread; the loop's goroutines are lists here,
// until the simulation ends their entries.
type simNode struct {
	store   *store.FSStore
	parts   *Config
	desk    *desk
	checker *checker
	beside  *beside
	// flying are the effects that were started and haven't returned.
	flying []*simFlight
	asked  bool
	// looks are the listings that haven't been handled.
	looks []source.Item
	kicks int
	// board is what it shows, from when it has restored its workloads.
	board    *simBoard
	restored bool
}

// simFlight is one effect in flight. It is carried out in one moment; its outcome
// comes back at a later one, or never.
type simFlight struct {
	f    *flight
	ctx  context.Context
	done bool
	left bool
	out  outcome
}

// simLog takes the lines that must never be written.
type simLog struct{ s *simulation }

func (l simLog) Write(line []byte) (int, error) {
	for _, bad := range []string{"can't come in this phase", `"message":"panic"`} {
		if bytes.Contains(line, []byte(bad)) && !bytes.Contains(line, []byte("a module's caller panics")) {
			l.s.fail("the node says: %s", bytes.TrimSpace(line))
		}
	}
	return len(line), nil
}

// demandOf is a reservation's demand in the simulation.
func demandOf(r *workload.Reservation) (provisioner.Demand, error) {
	d := simDataOf(r)
	return provisioner.Demand{SSD: d.Size, CPU: d.Capacity.CPU}, nil
}

// boot begins a life of the node's process on the disk's contents.
func (s *simulation) boot() {
	s.disk.dead = false
	records, err := store.Open(store.Config{
		Disk: s.disk, Clock: &s.clock, BirthClock: vouched{&s.clock}, Demand: demandOf, NewNode: s.lives == 0 && s.newNode,
	})
	if err != nil {
		if !s.disk.dead {
			s.fail("the store can't be opened: %v", err)
		}
		s.node = nil
		return
	}
	if q := records.Quarantined(); len(q) > 0 {
		s.fail("files of the store are damaged: %v", q)
	}
	s.lives++
	n := &simNode{store: records, board: newSimBoard()}
	n.parts, err = s.parts(n)
	if err != nil {
		s.fail("cannot make the node: %v", err)
		return
	}
	notes := &notes{drifts: drift.NewHistory(), progress: newProgress(), orphans: drift.NewOrphans(&s.book), changed: func() {}, pulse: pulse.New("the engine")}
	n.desk = newDesk(n.parts, notes)
	n.checker = &checker{policy: n.parts.Policy, log: n.parts.Log, once: logonce.New(), refusals: n.parts.Refusals}
	n.beside = &beside{parts: n.parts}
	if s.rnd.IntN(2) == 0 {
		n.beside.starting = time.Now().Add(24 * time.Hour) // stepStarted ends it
	}
	n.desk.flights.start = s.start
	n.desk.judging.ask = func() { n.asked = true }
	s.node = n
	s.modules.records = func() store.Records { return n.store }
	recs, err := records.List()
	if err != nil {
		s.fail("cannot list: %v", err)
	}
	s.steps = -1 // the records that were durable at the power cut are checked now
	s.check()
	n.desk.restore(recs, s.lookAtAll)
	n.restored = true
}

func (s *simulation) parts(n *simNode) (*Config, error) {
	policy, err := newSimPolicy(&s.clock, n.store, s.nodeID, s.toy)
	if err != nil {
		return nil, err
	}
	offer := admit.Offer{Total: provisioner.Demand{SSD: simSSD, CPU: simCPU}}
	admission, err := admit.New(admit.Config{
		Policy: admit.Policy{Workloads: simWorkloads, Waiting: 20, AllWaiting: 40}, Demand: demandOf,
		Offer: func(context.Context) (admit.Offer, error) { return offer, nil },
	})
	if err != nil {
		return nil, err
	}
	parts := &Config{
		Records: n.store, Provisioners: s.modules.provisioners(), Policy: policy, Admission: admission, Feedback: simFeedback{n},
		Clock: &s.clock, Orphans: &s.book, Board: n.board, Log: zerolog.New(simLog{s}).Level(zerolog.ErrorLevel),
	}
	parts.Limits = Limits{Refused: s.refused, Round: 1 + s.rnd.IntN(8), Retry: source.Backoff{Chance: s.chance}}.withDefaults()
	return parts, nil
}

type simFeedback struct{ n *simNode }

func (simFeedback) Run(context.Context) error { return nil }
func (f simFeedback) Kick()                   { f.n.kicks++ }

// lookAtAll is the modules' answer at a start.
func (s *simulation) lookAtAll() drift.Seen {
	there := drift.Seen{}
	for _, t := range simTypes() {
		if !s.modules.silent && s.rnd.IntN(10) > 0 {
			there[t] = s.modules.look(t)
		}
	}
	return there
}

func simTypes() []workload.Type {
	return []workload.Type{workload.TypeNetwork, workload.TypeZDB, workload.TypeVolume, workload.TypeContainer}
}

// start begins an effect for the desk.
func (s *simulation) start(f *flight) {
	if s.disk.dead {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	f.cancel = cancel
	s.overlaps(f)
	s.node.flying = append(s.node.flying, &simFlight{f: f, ctx: ctx})
	s.effects++
	s.say("  begins: %s %s", f.kind, f.rec.ID())
}

// act carries out an effect now.
func (s *simulation) act(one *simFlight, how fault) {
	if one.done {
		return
	}
	if one.ctx.Err() != nil && how == faultNone && s.rnd.IntN(2) == 0 {
		how = faultInternal // it was cancelled
	}
	ctx, cancel := one.ctx, context.CancelFunc(func() {})
	if how == faultSilent {
		ctx, cancel = context.WithDeadline(ctx, time.Time{})
	}
	defer cancel()
	s.modules.fault, s.acting = how, one.f
	one.out, one.done = s.node.beside.effect(ctx, one.f), true
	s.modules.fault, s.acting = faultNone, nil
	if how == faultSilent {
		s.silent(one)
	}
	s.say("  %s %s happens (fault %d): %v", one.f.kind, one.f.rec.ID(), how, one.out.event.Err)
}

// silent checks the outcome of an effect whose module didn't answer: a fetch of the node's start is asked for again, all else is a failed attempt.
func (s *simulation) silent(one *simFlight) {
	ev := one.out.event
	later := one.f.kind == lifecycle.DoFetch && !s.node.beside.starting.IsZero()
	if one.ctx.Err() == nil && later != (ev.Kind == lifecycle.FetchLater && ev.Err == nil) {
		s.fail("%s %s ends as %s (%v) beside a silent module; later: %t", one.f.kind, one.f.rec.ID(), ev.Kind, ev.Err, later)
	}
	if later {
		s.later++
	}
}

// land hands an effect's outcome to the desk.
func (s *simulation) land(one *simFlight) []input {
	n := s.node
	n.flying = slices.DeleteFunc(n.flying, func(other *simFlight) bool { return other == one })
	one.out.returned = one.left
	return n.desk.returned(one.out)
}

// leave marks an effect as left behind.
func (s *simulation) leave(one *simFlight) []input {
	if one.left {
		return nil
	}
	one.left = true
	s.say("  %s %s is left behind", one.f.kind, one.f.rec.ID())
	err := node.Errorf(node.Unknown, "cannot %s %s: no answer", one.f.kind, one.f.rec.ID())
	return s.node.desk.returned(outcome{token: one.f.token, left: true, event: failure(err)})
}

// round has the desk handle inputs, and records that are due.
func (s *simulation) round(inputs []input) {
	n := s.node
	if n == nil || s.disk.dead {
		return
	}
	for _, id := range n.desk.timers.Due(s.clock.Read()) {
		inputs = append(inputs, n.desk.intake.woken(id))
	}
	n.desk.round(inputs)
	s.check()
}

// crash ends the process; with power, the machine too: containers and networks are
// gone, and some of the uptime is forgotten.
func (s *simulation) crash(power bool) {
	s.crashes++
	if n := s.node; n != nil {
		for _, one := range n.flying {
			if !one.done && s.rnd.IntN(2) == 0 {
				s.act(one, faultNone) // the module already had the call
			}
		}
	}
	s.node = nil
	s.explorer.crashed()
	if power {
		s.modules.reboot()
		s.clock.now = s.clock.now.Add(time.Duration(s.rnd.IntN(3600)) * time.Second)
		s.clock.up = max(0, s.clock.up-time.Duration(s.rnd.IntN(600))*time.Second)
		s.clock.level = clock.Level(s.rnd.IntN(3))
	}
	if s.disk.left >= 0 {
		s.disk.left = -1
	}
	s.disk.full = false
	s.boot()
}

// overlaps checks that a new effect may run beside those in flight.
func (s *simulation) overlaps(f *flight) {
	running := 0
	mine := holds(f.rec.Reservation)
	for _, other := range s.node.flying {
		if other.f.rec.Reservation.Type == f.rec.Reservation.Type {
			running++
		}
		for key, alone := range holds(other.f.rec.Reservation) {
			if also, both := mine[key]; both && (also || alone) {
				s.fail("%s %s begins while %s %s holds %s", f.kind, f.rec.ID(), other.f.kind, other.f.rec.ID(), key)
			}
		}
	}
	most := 1
	if f.rec.Reservation.Type == workload.TypeContainer {
		most = 4
	}
	if running >= most {
		s.fail("%s %s begins while %d of its type are in flight", f.kind, f.rec.ID(), running)
	}
	if rec, err := s.node.store.Record(f.rec.ID()); f.kind == lifecycle.DoProvision && (err != nil || rec.Phase.Tombstone() || !rec.Begun) {
		s.fail("provision %s begins without a durable intent: %s %v", f.rec.ID(), rec.Phase, err)
	}
}

// holds are an effect's keys, and whether it holds each alone.
func holds(r *workload.Reservation) map[string]bool {
	out := map[string]bool{"id " + r.ID: true}
	if len(r.Data) == 0 {
		return out
	}
	d := simDataOf(r)
	switch r.Type {
	case workload.TypeNetwork:
		out[simKey(r)] = true
	case workload.TypeContainer:
		out["network "+r.User+"/"+d.Network.NetworkID] = false
		for _, m := range d.Mounts {
			out["volume "+r.User+"/"+m.VolumeID] = false
		}
	case workload.TypeVolume:
		out["volume "+r.User+"/"+r.ID] = true
	}
	return out
}

// describe formats a record as one line.
func describe(rec store.Record) string {
	renewal := ""
	if rec.Reservation.Renewal != nil {
		renewal = " renewed"
	}
	if rec.Pending != nil {
		renewal += " pending"
	}
	return fmt.Sprintf("%s %s %x %s%s end=%q attempts=%d cause=%q", rec.Reservation.Type, rec.ID(), rec.Hash[:3], rec.Phase, renewal, rec.End, rec.Attempts, rec.Cause)
}
