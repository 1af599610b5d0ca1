package engine

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/supervise"
	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/drift"
	"github.com/croft-edge/croft/provision/logonce"
	"github.com/croft-edge/croft/provision/pulse"
	"github.com/croft-edge/croft/provision/source"
	"github.com/croft-edge/croft/provision/store"
)

// Engine is the engine with all its parts. Run is the one thread that decides;
// the other methods may be called from anywhere.
type Engine struct {
	parts   *Config
	notes   *notes
	changes *broadcast
	orders  chan order
	// acknowledged are the records whose results the explorer has now.
	acknowledged *mailbox
	// clock is full when the trust in the time has changed.
	clock   chan struct{}
	running atomic.Bool
	ready   atomic.Bool
	// starting is until when modules may be silent: Limits.Start after the beginning of Run. A panic doesn't renew it.
	starting time.Time
}

// New makes an engine of its parts.
func New(c Config) (*Engine, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	return Assemble(&c), nil
}

// Assemble makes an engine whose parts may still be missing: they must be in c
// before Run.
func Assemble(c *Config) *Engine {
	c.Limits = c.Limits.withDefaults()
	if c.Board == nil {
		c.Board = nobody{}
	}
	changes := newBroadcast()
	return &Engine{
		parts:        c,
		notes:        &notes{drifts: drift.NewHistory(), progress: newProgress(), orphans: drift.NewOrphans(c.Orphans), changed: changes.tell, pulse: pulse.New("the engine")},
		changes:      changes,
		orders:       make(chan order),
		acknowledged: newMailbox(),
		clock:        make(chan struct{}, 1),
	}
}

// ClockChanged says that the trust in the node's time has changed: what is due by it is looked at now. It doesn't wait.
func (e *Engine) ClockChanged() {
	select {
	case e.clock <- struct{}{}:
	default:
	}
}

// Ready reports whether the node has begun to restore its workloads, and accepts
// the sources' items.
func (e *Engine) Ready() bool { return e.ready.Load() }

// Alive asks the engine's thread whether it turns, and waits for a second at most. An error says that the thread has been at one step for
// longer than Limits.Turn, for which a disk that doesn't answer is the usual reason.
func (e *Engine) Alive(ctx context.Context) error {
	return e.notes.pulse.Check(ctx, e.parts.Limits.Turn)
}

// Run restores the node's workloads, then handles the sources' items until ctx is
// done or all sources have ended and nothing is in flight. It gives effects in
// flight their time, lets feedback try until its deadline, and returns nil. It
// fails only if it runs already: there is one thread. A panic in it is logged, and
// it begins again from the records.
func (e *Engine) Run(ctx context.Context) error {
	if !e.running.CompareAndSwap(false, true) {
		return errors.New("cannot run the engine: it runs already")
	}
	defer e.running.Store(false)
	e.starting = time.Now().Add(e.parts.Limits.Start)
	stop, cancel := context.WithCancel(ctx)
	defer cancel()
	work, done := e.workContext(ctx)
	defer done()
	// Feedback outlives the reservation in hand, whose answer is still sent.
	telling, silence := context.WithCancel(context.WithoutCancel(ctx))
	defer silence()
	told := make(chan error, 1)
	go supervise.Do(e.parts.Log, "feedback", func() {
		told <- supervise.Keep(telling, e.parts.Log, "feedback", supervise.DefaultBackoff(), e.parts.Feedback.Run)
	})
	_ = supervise.Keep(stop, e.parts.Log, "engine", supervise.DefaultBackoff(), func(stop context.Context) error {
		e.life(work, stop)
		return supervise.ErrEnded
	})
	cancel()
	silence()
	return <-told
}

// workContext is the effects' context: it outlives ctx by the shutdown limit, so
// that effects in flight can finish.
func (e *Engine) workContext(ctx context.Context) (context.Context, func()) {
	work, cancel := context.WithCancel(context.WithoutCancel(ctx))
	unhook := context.AfterFunc(ctx, func() {
		late := time.NewTimer(e.parts.Limits.Shutdown)
		defer late.Stop()
		select {
		case <-late.C:
			cancel()
		case <-work.Done():
		}
	})
	return work, func() { unhook(); cancel() }
}

// life is the engine's thread, from the stored records to its end. When it ends by
// a panic, effects in flight are ended before the next life begins them again.
func (e *Engine) life(work, stop context.Context) {
	over, cancel := context.WithCancel(stop)
	defer cancel()
	working, halt := context.WithCancel(work)
	defer halt()
	l := e.loop(working, over)
	whole := false
	defer func() {
		if !whole {
			cancel()
			halt()
			l.beside.wait(e.parts.Limits.Shutdown)
		}
	}()
	e.live(over, l)
	e.notes.pulse.Back() // not after a panic
	whole = true
}

// live restores, then decides until the end.
func (e *Engine) live(over context.Context, l *loop) {
	e.notes.pulse.Left()
	if !l.restore() {
		return
	}
	checker := &checker{policy: e.parts.Policy, log: e.parts.Log, once: logonce.New(), refusals: e.parts.Refusals}
	arriving := checker.arrivals(over, source.Merge(e.parts.Log, e.parts.Sources...).Items(over), e.parts.Limits.Round)
	drifting := l.watch()
	e.resyncLost()
	e.ready.Store(true)
	l.desk.panel.tell(func(b Board) { b.Workloads(nil, nil) })
	for over.Err() == nil && (arriving != nil || l.desk.busy()) {
		timer := time.NewTimer(l.desk.timers.Wait(e.parts.Clock.Read()))
		var inputs []input
		e.notes.pulse.Back()
		select {
		case <-over.Done():
		case a, open := <-arriving:
			if !open {
				arriving = nil
				break
			}
			inputs = append(inputs, l.desk.intake.arrived(a))
		case o := <-l.beside.ends:
			inputs = l.desk.returned(o)
		case o := <-l.offers:
			inputs = l.desk.judging.offered(o.offer, o.err)
		case o := <-e.orders:
			inputs = append(inputs, l.desk.evicted(o))
		case item, open := <-drifting:
			if !open {
				drifting = nil // no type is watched
				break
			}
			inputs = l.desk.compared.drifted(item)
		case <-e.acknowledged.wake:
			l.desk.panel.acknowledged(e.acknowledged.take())
		case <-e.clock:
			l.desk.panel.change(l.desk.uses.All()...)
		case <-e.notes.pulse.Asked():
		case <-timer.C:
		}
		e.notes.pulse.Left()
		timer.Stop()
		l.desk.round(l.more(inputs, arriving))
	}
	l.drain()
}

// more adds the inputs that are ready to a round, so that they share its durable
// write.
func (l *loop) more(inputs []input, arriving <-chan *arrival) []input {
	for _, id := range l.desk.timers.Due(l.parts.Clock.Read()) {
		inputs = append(inputs, l.desk.intake.woken(id))
	}
	for len(inputs) < l.parts.Limits.Round {
		select {
		case o := <-l.beside.ends:
			inputs = append(inputs, l.desk.returned(o)...)
			continue
		default:
		}
		select {
		case a, open := <-arriving:
			if !open {
				return inputs
			}
			inputs = append(inputs, l.desk.intake.arrived(a))
			continue
		default:
		}
		break
	}
	return inputs
}

// drain waits for the effects in flight, within the shutdown limit: successes are
// recorded, failures stay in the records as under way.
func (l *loop) drain() {
	l.desk.flights.closed = true
	for l.desk.flights.running() > 0 && l.work.Err() == nil {
		select {
		case o := <-l.beside.ends:
			if o.event.Err == nil {
				l.desk.round(l.desk.returned(o))
			} else {
				o.dropped = true
				l.desk.returned(o)
			}
		case <-l.work.Done():
		}
	}
}

// busy reports whether an effect or the judging of an arrival is still under way.
func (d *desk) busy() bool {
	return d.flights.queue.Len() > 0 || d.judging.asked
}

// running is how many effects are in flight.
func (f *flights) running() (n int) {
	for _, t := range workload.Types() {
		n += f.queue.Running(t)
	}
	return n
}

// damaged is implemented by a store that sets damaged files aside.
type damaged interface {
	Quarantined() []store.Quarantine
}

// resyncLost asks the explorer for everything again when a record's file was
// damaged: its reservation comes again and adopts the workload on the node.
func (e *Engine) resyncLost() {
	records, ok := e.parts.Records.(damaged)
	if !ok {
		return
	}
	for _, q := range records.Quarantined() {
		if q.ID == "" {
			continue
		}
		if _, err := e.parts.Records.Record(q.ID); node.KindOf(err) == node.NotExist {
			e.parts.Log.Warn().Str("id", q.ID).Str("cause", q.Cause).Msg("a record was lost: the explorer is asked for everything again")
			for _, s := range e.parts.Sources {
				if r, ok := s.(interface{ Reset() }); ok {
					r.Reset()
				}
			}
			return
		}
	}
}
