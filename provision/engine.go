package provision

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/pkg/errors"
	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/provisioner"
	"github.com/croft-edge/croft/provision/source"
	"github.com/croft-edge/croft/provision/store"
)

// NodeEngine is the engine with all its parts. Run is the one thread that
// changes anything; the other methods may be called from anywhere.
type NodeEngine struct {
	records      store.Records
	sources      []source.Source
	provisioners map[workload.Type]provisioner.Provisioner
	policy       Policy
	admission    Admission
	feedback     Feedback
	clock        Clock
	log          zerolog.Logger
	limits       Limits

	// expiry yields what ends, retries what is to be tried again.
	expiry  *source.Schedule
	retries *source.Schedule
	orders  chan order
	changes *broadcast
	strays  *strays
	drifts  *drifts
	fetches *fetches
	said    *saidOnce

	// later is set while a renewal waits for a time that can be trusted.
	later bool
	// slow holds until when the types are spared whose module used up a deadline.
	slow map[workload.Type]time.Time
	// stuck holds the IDs whose last step never came back.
	stuck map[string]<-chan error
	// waiting holds the workloads that couldn't leave because others use what
	// is theirs.
	waiting map[string]workload.Type

	running atomic.Bool
	ready   atomic.Bool
}

// NewEngine makes an engine of its parts.
func NewEngine(c Config) (*NodeEngine, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	return assemble(c), nil
}

// assemble makes an engine; what of c is missing must be set before Run.
func assemble(c Config) *NodeEngine {
	e := &NodeEngine{
		records:      c.Records,
		sources:      c.Sources,
		provisioners: c.Provisioners,
		policy:       c.Policy,
		admission:    c.Admission,
		feedback:     c.Feedback,
		clock:        c.Clock,
		log:          c.Log,
		limits:       c.Limits.withDefaults(),
		orders:       make(chan order),
		changes:      newBroadcast(),
		strays:       newStrays(c.Strays),
		drifts:       newDrifts(),
		fetches:      newFetches(),
		said:         newSaidOnce(),
		stuck:        map[string]<-chan error{},
		slow:         map[workload.Type]time.Time{},
		waiting:      map[string]workload.Type{},
	}
	e.expiry = source.NewExpiry(c.Clock.Now, e.limits.Look)
	e.retries = source.NewRetry()
	return e
}

// Run restores what the node should have, then handles what the sources yield
// until ctx is done or all sources have ended. It finishes what it has in hand,
// lets feedback try until its deadline, and returns nil. An error says that it
// runs already: there is one thread.
func (e *NodeEngine) Run(ctx context.Context) error {
	if !e.running.CompareAndSwap(false, true) {
		return errors.New("cannot run the engine: it runs already")
	}
	defer e.running.Store(false)
	stop, cancel := context.WithCancel(ctx)
	defer cancel()
	work, done := e.workContext(ctx)
	defer done()
	// Feedback outlives the reservation in hand, whose answer is still sent.
	telling, silence := context.WithCancel(context.WithoutCancel(ctx))
	defer silence()
	told := make(chan error, 1)
	go func() { told <- e.feedback.Run(telling) }()

	e.restore(work, stop)
	e.loop(work, stop)
	cancel()
	silence()
	return <-told
}

// workContext is what the engine's steps run under: it outlives ctx by the
// shutdown limit, so that what is in hand can be finished.
func (e *NodeEngine) workContext(ctx context.Context) (context.Context, func()) {
	work, cancel := context.WithCancel(context.WithoutCancel(ctx))
	unhook := context.AfterFunc(ctx, func() {
		late := time.NewTimer(e.limits.Shutdown)
		defer late.Stop()
		select {
		case <-late.C:
			cancel()
		case <-work.Done():
		}
	})
	return work, func() { unhook(); cancel() }
}

// loop is the engine's thread.
func (e *NodeEngine) loop(work, stop context.Context) {
	arriving := source.Merge(e.log, e.sources...).Items(stop)
	ending, retrying := e.expiry.Items(stop), e.retries.Items(stop)
	drifting := e.watch(stop)
	look := time.NewTicker(e.limits.Look)
	defer look.Stop()
	for stop.Err() == nil {
		select {
		case <-stop.Done():
		case item, open := <-arriving:
			if !open {
				return
			}
			item.Finish(e.handle(work, item))
		case item := <-ending:
			item.Finish(e.handle(work, item))
		case item := <-retrying:
			item.Finish(e.handle(work, item))
		case o := <-e.orders:
			o.answer <- e.evict(work, o.id)
		case item, open := <-drifting:
			if !open {
				drifting = nil // nothing is watched
				continue
			}
			item.Finish(e.drifted(work, stop, item.Type))
		case <-look.C:
			e.look()
		}
	}
}

// look is what no source says: that the time can be trusted again.
func (e *NodeEngine) look() {
	if _, trusted := e.clock.Now(); trusted && e.later {
		e.later = false
		e.resync()
	}
}

// handle does what one item asks for.
func (e *NodeEngine) handle(ctx context.Context, item source.Item) error {
	switch item.Kind {
	case source.Arrived:
		return e.arrived(ctx, item.Reservation)
	case source.Expiry:
		return e.again(item.ID, e.due(ctx, item.ID))
	case source.Retry:
		return e.again(item.ID, e.retry(ctx, item.ID))
	}
	return nil
}

// again makes what could not be handled for the store's sake come back.
func (e *NodeEngine) again(id string, err error) error {
	if err != nil && node.KindOf(err) != node.NotExist {
		e.log.Error().Str("id", id).Err(err).Msg("cannot handle: tried again")
		e.retries.Set(id, "", time.Now().Add(e.limits.Retry.Delay(1)))
	}
	return err
}
