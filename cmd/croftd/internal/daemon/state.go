package daemon

import (
	"cmp"
	"context"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/cosi-project/runtime/pkg/controller"
	"github.com/cosi-project/runtime/pkg/resource"
	"github.com/cosi-project/runtime/pkg/resource/meta"
	"github.com/cosi-project/runtime/pkg/safe"
	"github.com/pkg/errors"

	"github.com/croft-edge/croft/cmd/croftd/internal/dump"
	"github.com/croft-edge/croft/cmd/croftd/internal/health"
	"github.com/croft-edge/croft/cmd/croftd/internal/hooks"
	"github.com/croft-edge/croft/cmd/croftd/internal/module"
	"github.com/croft-edge/croft/cmd/croftd/internal/statekey"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/node/stubs"
	"github.com/croft-edge/croft/pkg/nodestatus"
	"github.com/croft-edge/croft/pkg/resources/host"
	"github.com/croft-edge/croft/pkg/resources/work"
	"github.com/croft-edge/croft/pkg/stategraph"
	"github.com/croft-edge/croft/pkg/statesocket"
	"github.com/croft-edge/croft/pkg/supervise"
	"github.com/croft-edge/croft/pkg/workqueue"
	"github.com/croft-edge/croft/provision/plane"
)

// state is the node's state with the controller through which the engine shows itself.
type state struct {
	*plane.Plane
	engine *plane.Engine
	hooks  *hookSet
	events chan hooks.Event
	// sockets are those that the operator reads the state at.
	sockets *sockets
}

// openState makes the node's state and its controllers; Run of it starts them.
func (d *daemon) openState(m clients, v *view) (*state, error) {
	file, lost := filepath.Join(d.StateDir, "history.db"), ""
	key, err := statekey.Get(d.Secrets(), filepath.Join(d.StateDir, "state.key"))
	if err != nil {
		d.Log.Error().Err(err).Msg("the history is kept in memory until the next start")
		file, lost = "", err.Error()
	}
	p, err := plane.Open(plane.Config{History: file, Key: key, Log: d.Log})
	if err != nil {
		return nil, err
	}
	v.plane, v.modules = p, watchModules(d, m, v.wake.modules)
	s := &state{Plane: p, sockets: newSockets(v.wake.node), engine: plane.NewEngine(plane.EngineConfig{
		Orders: orders{v, d.settings}, Needs: needs(d.Modules), Held: v.modules.Again, ClockChanged: v.clockChanged, Log: d.Log,
	})}
	v.dropped = s.engine.Dropped
	s.events = make(chan hooks.Event)
	if s.hooks, err = openHooks(d.Config, s.events, v.mirrorCheck()); err != nil {
		_ = p.Close()
		return nil, err
	}
	d.settings.engine(s.hooks.load, s.engine.Event, func() {
		v.wake.node.kick()
		v.modules.Again()
	})
	p.Add(s.engine, plane.Past{Lost: cmp.Or(p.Lost(), lost), Restored: s.engine.Restored, Log: d.Log})
	d.phases.notify(func(name string, is module.State) {
		if e, happened := moduleEvent(name, is, time.Now().UTC()); happened {
			s.engine.Event(e)
		}
		v.modules.Again()
	})
	p.AddQueued(plane.OrderCleaner(), v.modules)
	for _, o := range append(d.observers(m, v, s.sockets),
		&plane.Observer{Of: &work.Hook{}, Look: s.hooks.lookHooks, Changed: s.hooks.changed, By: []meta.ResourceWithRD{&work.HookRun{}}},
		&plane.Observer{Of: &work.HookRun{}, Look: s.hooks.lookRuns, Changed: s.hooks.ran},
	) {
		o.Log = d.Log
		p.Add(o)
	}
	p.Add(
		plane.Capacity(func(ctx context.Context, machine host.HostSpec) (host.CapacitySpec, error) {
			return d.capacity(ctx, m, v.get(), machine)
		}),
		plane.Readiness(func(ctx context.Context, r controller.Reader) (host.ReadinessSpec, error) {
			s, err := nodestatus.ReadHealth(ctx, r)
			return health.Judge(s, time.Now(), d.Modules), err
		}),
	)
	return s, nil
}

// observers show what this process and the modules know.
func (d *daemon) observers(m clients, v *view, at *sockets) []*plane.Observer {
	workloads := []meta.ResourceWithRD{&work.Workload{}}
	out := []*plane.Observer{
		{Of: &host.NodeConfig{}, Changed: v.wake.node, Look: func(context.Context) ([]resource.Resource, error) { return v.lookNode(d.settings, at) }},
		{Of: &host.ModuleConfig{}, Look: v.lookModules, Changed: v.wake.modules},
		{Of: &host.Host{}, Look: lookHost(v.machine), Module: node.MonitorModule, Every: time.Minute},
		{Of: &host.Clock{}, Look: v.lookClock, Changed: v.wake.clock, Every: 10 * time.Second},
		{Of: &host.Explorer{}, Look: v.lookExplorer, Changed: v.contact.changed},
		{Of: &host.Store{}, Look: v.lookStore, Changed: v.wake.store, Every: 30 * time.Second},
		{Of: &host.Ceiling{}, Look: v.lookCeilings, Every: 2 * time.Minute},
	}
	for _, each := range d.Modules {
		for _, part := range each.Parts {
			changed := newKick()
			v.wake.things[each.Bus] = append(v.wake.things[each.Bus], changed)
			out = append(out, &plane.Observer{
				Of: part.Of, Module: each.Bus, By: workloads, Every: part.Every, Changed: changed,
				Look: func(ctx context.Context) ([]resource.Resource, error) { return part.List(ctx, m.bus) },
			})
		}
	}
	return out
}

// startState runs the state and serves it. It is the first to start and the last to stop of the engine's parts.
func (d *daemon) startState(ctx context.Context, parts *supervise.Group, m clients, v *view, s *state) {
	parts.Start(supervise.Part{Name: "state", Again: true, Run: func(ctx context.Context) error {
		// Its failure stops nothing: it is started again, and until then what was last shown is read.
		_ = supervise.Keep(ctx, d.Log, "state", supervise.DefaultBackoff(), s.Run) // Keep logs what ends it
		return s.Close()
	}})
	s.sockets.start(ctx, parts, "state socket", func(ctx context.Context) (server, error) {
		return statesocket.Listen(ctx, statesocket.Config{Path: d.StateSocket, State: s.State(), Check: plane.CheckOrder, Log: d.Log})
	})
	parts.Start(changesPart(m, v))
}

// sockets serve the operator. None of them ends the process: one that can't be served is shown, and tried again.
type sockets struct {
	// changed says that other sockets can't be served.
	changed kick

	mu     sync.Mutex
	faults map[string]error
}

func newSockets(changed kick) *sockets { return &sockets{changed: changed, faults: map[string]error{}} }

// start keeps a socket served that listen opens. It returns after the first try, so that a node that tells its start is reached.
func (s *sockets) start(ctx context.Context, parts *supervise.Group, name string, listen func(ctx context.Context) (server, error)) {
	tried := make(chan struct{})
	done := sync.OnceFunc(func() { close(tried) })
	parts.Start(supervise.Part{Name: name, Again: true, Run: func(ctx context.Context) error {
		defer done()
		err := supervise.Catch(name, func() error {
			socket, err := listen(ctx)
			switch {
			case err != nil && ctx.Err() != nil:
				return nil // the node stops
			case err != nil:
				return err
			}
			s.set(name, nil)
			done()
			return socket.Run(ctx)
		})
		if ctx.Err() == nil {
			s.set(name, cmp.Or(err, errors.New("it ended by itself")))
		}
		return err
	}})
	select {
	case <-tried:
	case <-ctx.Done():
	}
}

// set keeps why a socket isn't served; nil when it is.
func (s *sockets) set(name string, fault error) {
	s.mu.Lock()
	if fault != nil {
		s.faults[name] = fault
	} else {
		delete(s.faults, name)
	}
	s.mu.Unlock()
	s.changed.kick()
}

// unserved are the sockets that aren't served, with the reasons, by name.
func (s *sockets) unserved() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []string
	for _, name := range slices.Sorted(maps.Keys(s.faults)) {
		out = append(out, name+": "+s.faults[name].Error())
	}
	return out
}

func changesPart(m clients, v *view) supervise.Part {
	return supervise.Part{Name: "changes", Again: true, Run: func(ctx context.Context) error { return followChanges(ctx, m, v) }}
}

// followChanges wakes those who look at a module's things when the module says that some have changed.
func followChanges(ctx context.Context, m clients, v *view) error {
	var all sync.WaitGroup
	for _, each := range v.config.Modules {
		if !each.Changes {
			continue
		}
		all.Go(func() {
			_ = supervise.Keep(ctx, v.config.Log, "changes of "+each.Name, supervise.DefaultBackoff(), func(ctx context.Context) error {
				return follow(ctx, stubs.NewChangesStub(m.bus, each.Bus), v.wake.things[each.Bus])
			})
		})
	}
	<-ctx.Done() // also when no module tells changes
	all.Wait()
	return nil
}

// follow kicks at each change of one stream, until the stream ends.
func follow(ctx context.Context, module *stubs.ChangesStub, wake []kick) error {
	changes, err := module.Changes(ctx)
	if err != nil {
		return err
	}
	for c := range changes {
		if len(c.IDs) == 0 && !c.Lost {
			continue
		}
		for _, k := range wake {
			k.kick()
		}
	}
	return ctx.Err()
}

// startDebug serves the debug socket: what this process knows, for people who look for a fault.
func (s *state) startDebug(ctx context.Context, parts *supervise.Group, d *daemon) {
	config := dump.Config{
		Path: filepath.Join(d.RunDir, "debug.sock"), Resources: dump.NewResources(s.State()), Log: d.Log,
		Sections: []dump.Section{
			{Name: "settings", Read: func(context.Context) (any, error) {
				force, _ := d.settings.inForce()
				return force.Show(), nil
			}},
			{Name: "queues", Read: func(ctx context.Context) (any, error) { return s.queues(ctx, d.settings.modules) }},
			{Name: "hooks", Read: func(context.Context) (any, error) { return s.hooks.runner.State(), nil }},
			{Name: "graph", Read: func(context.Context) (any, error) { return s.graph() }},
		},
	}
	s.sockets.start(ctx, parts, "debug socket", func(ctx context.Context) (server, error) { return dump.Listen(ctx, config) })
}

// queues are what waits in this process, with how often it failed.
type queues struct {
	// Modules are the modules of this process, where one that runs is being handled; nil in a process without any. Hooks are the runs of
	// hooks.
	Modules *workqueue.State[string]     `json:"modules"`
	Hooks   []workqueue.State[hooks.Key] `json:"hooks"`
	Engine  engineQueue                  `json:"engine"`
	// Undelivered counts the results that wait for the explorer.
	Undelivered int               `json:"undelivered"`
	Mirrors     []host.MirrorSpec `json:"mirrors"`
}

// engineQueue counts the engine's effects that wait for their turn, that are under way, and that haven't returned by their deadlines;
// and the workloads that wait for the time of their next attempt, with their failed attempts.
type engineQueue struct {
	Waiting   int `json:"waiting"`
	Running   int `json:"running"`
	Abandoned int `json:"abandoned"`
	Retrying  int `json:"retrying"`
	Failures  int `json:"failures"`
}

// queues reads the queues: those of the engine and of the mirrors as the state shows them, so that a dump asks nothing of the engine's thread.
func (s *state) queues(ctx context.Context, modules *module.Supervisor) (queues, error) {
	out := queues{Hooks: s.hooks.runner.State().Queues, Mirrors: []host.MirrorSpec{}}
	if modules != nil {
		starts := modules.Queue()
		out.Modules = &starts
	}
	workloads, err := safe.StateListAll[*work.Workload](ctx, s.State())
	if err != nil {
		return out, err
	}
	for w := range workloads.All() {
		out.Engine.add(*w.TypedSpec())
	}
	stores, err := safe.StateListAll[*host.Store](ctx, s.State())
	if err != nil {
		return out, err
	}
	for one := range stores.All() {
		if mirror := one.TypedSpec().Mirror; mirror != nil {
			out.Mirrors = append(out.Mirrors, *mirror)
		} else {
			out.Undelivered = one.TypedSpec().Undelivered
		}
	}
	return out, nil
}

// add counts a workload.
func (q *engineQueue) add(w work.WorkloadSpec) {
	for _, f := range w.Flights {
		switch {
		case f.Abandoned:
			q.Abandoned++
		case f.Deadline.IsZero():
			q.Waiting++
		default:
			q.Running++
		}
	}
	if !w.NextAttempt.IsZero() {
		q.Retrying++
		q.Failures += w.Attempts
	}
}

// graph is what the state's controllers read and write.
func (s *state) graph() (stategraph.Graph, error) {
	graph, err := s.Graph()
	if err != nil {
		return stategraph.Graph{}, err
	}
	return stategraph.New(graph), nil
}
