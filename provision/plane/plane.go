package plane

import (
	"context"
	"sync"

	"github.com/cosi-project/runtime/pkg/controller"
	"github.com/cosi-project/runtime/pkg/controller/runtime"
	"github.com/cosi-project/runtime/pkg/controller/runtime/options"
	"github.com/cosi-project/runtime/pkg/resource"
	"github.com/cosi-project/runtime/pkg/resource/meta"
	"github.com/cosi-project/runtime/pkg/state"
	"github.com/cosi-project/runtime/pkg/state/impl/inmem"
	"github.com/cosi-project/runtime/pkg/state/impl/namespaced"
	stateregistry "github.com/cosi-project/runtime/pkg/state/registry"
	"github.com/pkg/errors"
	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/pkg/resources"
	"github.com/croft-edge/croft/pkg/resources/registry"
	"github.com/croft-edge/croft/pkg/supervise"
)

// Config configures a Plane.
type Config struct {
	// History is the file of what has happened; empty: it is kept in memory. Key is the secret of 32 bytes that
	// seals the file.
	History string
	Key     []byte
	Log     zerolog.Logger
}

// Plane is the state and its controllers.
type Plane struct {
	cfg         Config
	state       state.State
	history     *history
	controllers []controller.Controller
	observers   []*Observer
	queued      []controller.QController
}

// The changes of a type that the state remembers for those who watch it: one who is further behind is told that it
// has lost some, and the library's runtime, which watches the controllers' inputs, ends. Each remembered change keeps two versions of a resource in memory.
const (
	firstChanges = 64
	mostChanges  = 512
	changesGap   = 32
)

// How many changes a second one controller makes, and at once after a pause. Without that bound a controller that shows thousands of things could be
// further ahead than is remembered before a reader runs at all: on one processor, or on a busy one. So a reader of what one controller writes has
// (512-128)/3000 s, 128 ms, and of events, which two write, (512-2·128)/6000 s, 43 ms. Clients' orders, of which there are few, aren't bounded.
const (
	changesPerSecond = 3000
	changesAtOnce    = 128
)

// Open makes the state. It reads the history; one that can't be read is set aside, and a new one begins, in memory where no file can be made.
func Open(c Config) (*Plane, error) {
	if err := registry.Register(); err != nil {
		return nil, err
	}
	past := openHistory(c.History, c.Key, c.Log)
	p := &Plane{cfg: c, history: past, state: state.WrapCore(namespaced.NewState(func(ns resource.Namespace) state.CoreState {
		remembered := []inmem.StateOption{
			inmem.WithHistoryMaxCapacity(mostChanges), inmem.WithHistoryInitialCapacity(firstChanges), inmem.WithHistoryGap(changesGap),
		}
		if ns == resources.History {
			remembered = append(remembered, past.options()...)
		}
		return inmem.NewStateWithOptions(remembered...)(ns)
	}))}
	if err := p.define(context.Background()); err != nil {
		_ = past.Close()
		return nil, err
	}
	return p, nil
}

// define makes the namespaces and types known to readers.
func (p *Plane) define(ctx context.Context) error {
	namespaces, types := stateregistry.NewNamespaceRegistry(p.state), stateregistry.NewResourceRegistry(p.state)
	err := namespaces.RegisterDefault(ctx)
	for _, each := range []struct {
		name resource.Namespace
		what string
	}{
		{resources.Node, "what the node is, has and does"},
		{resources.Orders, "the orders of the machine's owner"},
		{resources.History, "what has happened"},
	} {
		if err == nil {
			err = namespaces.Register(ctx, each.name, each.what)
		}
	}
	if err == nil {
		err = types.RegisterDefault(ctx)
	}
	for _, t := range registry.Types() {
		if err == nil {
			err = types.Register(ctx, t.ResourceWithRD)
		}
	}
	return errors.Wrap(err, "cannot define the types of the state")
}

// State is the state. Its writers are the controllers, and the clients that make orders.
func (p *Plane) State() state.State { return p.state }

// Add adds controllers, before Run.
func (p *Plane) Add(all ...controller.Controller) {
	for _, c := range all {
		if o, ok := c.(*Observer); ok {
			o.now = make(chan chan struct{})
			p.observers = append(p.observers, o)
		}
	}
	p.controllers = append(p.controllers, all...)
}

// Look has all observers look now, beside each other, and returns once they have, or ctx is done.
func (p *Plane) Look(ctx context.Context) {
	var all sync.WaitGroup
	for _, o := range p.observers {
		all.Go(func() { supervise.Do(p.cfg.Log, "look", func() { o.LookNow(ctx) }) })
	}
	all.Wait()
}

// AddQueued adds controllers that handle one resource at a time, before Run.
func (p *Plane) AddQueued(all ...controller.QController) { p.queued = append(p.queued, all...) }

// Run runs the controllers until ctx is done. One that fails or panics is started again by itself; an error of
// Run is one of all.
func (p *Plane) Run(ctx context.Context) error {
	controllers, err := p.runtime()
	if err != nil {
		return err
	}
	err = controllers.Run(ctx)
	if ctx.Err() != nil {
		return nil
	}
	return errors.Wrap(err, "cannot run the state's controllers")
}

// Graph is the graph of the controllers' declared inputs and outputs.
func (p *Plane) Graph() (*controller.DependencyGraph, error) {
	controllers, err := p.runtime()
	if err != nil {
		return nil, err
	}
	graph, err := controllers.GetDependencyGraph()
	return graph, errors.Wrap(err, "cannot read the graph of controllers")
}

// Lost is why the history of before couldn't be read, or isn't written now; empty when it is.
func (p *Plane) Lost() string { return p.history.lost }

// Close closes the history.
func (p *Plane) Close() error { return p.history.Close() }

func (p *Plane) runtime() (*runtime.Runtime, error) {
	all, err := runtime.NewRuntime(p.state, logger(p.cfg.Log), options.WithMetrics(false), options.WithChangeRateLimit(changesPerSecond, changesAtOnce))
	if err != nil {
		return nil, errors.Wrap(err, "cannot make the state's controllers")
	}
	for _, c := range p.controllers {
		if err := all.RegisterController(c); err != nil {
			return nil, errors.Wrapf(err, "cannot add the controller %s", c.Name())
		}
	}
	for _, c := range p.queued {
		if err := all.RegisterQController(c); err != nil {
			return nil, errors.Wrapf(err, "cannot add the controller %s", c.Name())
		}
	}
	return all, nil
}

// weak is an input whose changes wake a controller.
func weak(r meta.ResourceWithRD) controller.Input { return input(r, controller.InputWeak) }

// strong is an input that stays until the controller has released it.
func strong(r meta.ResourceWithRD) controller.Input { return input(r, controller.InputStrong) }

func input(r meta.ResourceWithRD, kind controller.InputKind) controller.Input {
	d := r.ResourceDefinition()
	return controller.Input{Namespace: d.DefaultNamespace, Type: d.Type, Kind: kind}
}

// guarded runs a part of a controller: its panic is logged with its stack and becomes an error, after which the
// controller is started again.
func guarded(log zerolog.Logger, name string, f func() error) error {
	return supervise.Guard(log, name, f)
}
