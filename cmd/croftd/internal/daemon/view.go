package daemon

import (
	"context"
	"sync/atomic"

	"sync"
	"time"

	"github.com/croft-edge/croft/pkg/node"

	"github.com/cosi-project/runtime/pkg/resource"
	"github.com/threefoldtech/zbus"

	"github.com/croft-edge/croft/cmd/croftd/internal/ceiling"
	"github.com/croft-edge/croft/cmd/croftd/internal/config"
	"github.com/croft-edge/croft/cmd/croftd/internal/module"
	"github.com/croft-edge/croft/pkg/cgroup"
	"github.com/croft-edge/croft/pkg/clock"
	"github.com/croft-edge/croft/pkg/node/stubs"
	"github.com/croft-edge/croft/pkg/resources/host"
	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/lifecycle"
	"github.com/croft-edge/croft/provision/plane"
)

// askModule is how long a module may take to answer before it counts as silent.
const askModule = 2 * time.Second

// clients are the module stubs that the engine's process uses.
type clients struct {
	bus        zbus.Client
	identity   *stubs.IdentityManagerStub
	storage    *stubs.StorageStub
	disks      *stubs.VDisksStub
	host       *stubs.HostMonitorStub
	containers *stubs.ContainersStub
	images     *stubs.ImagesStub
	vms        *stubs.VMsStub
}

func newClients(client zbus.Client) clients {
	return clients{
		bus: client, identity: stubs.NewIdentityManagerStub(client), storage: stubs.NewStorageStub(client), disks: stubs.NewVDisksStub(client),
		host: stubs.NewHostMonitorStub(client), containers: stubs.NewContainersStub(client), images: stubs.NewImagesStub(client),
		vms: stubs.NewVMsStub(client),
	}
}

// view reads the parts of this process, for the node's state. It exists before the engine, so that a node that waits
// for its modules is shown.
type view struct {
	config  Config
	seat    *cgroup.Seat
	started time.Time
	contact *contact
	machine *machine
	// plane shows what the view reads; look is how long it may take to look at all.
	plane *plane.Plane
	// dropped counts the events that weren't recorded.
	dropped func() int64
	modules *plane.Modules
	wake    wakes

	mu sync.Mutex
	// parts is nil until the engine is open.
	parts *engineParts
	// clock is the shown clock: it is shown anew when the trust has changed.
	clock host.ClockSpec
}

// wakes say that something is to be looked at.
type wakes struct {
	// node, clock, store and modules are the node's description, its clock, its store, and its modules' configuration.
	node, clock, store, modules kick
	// things are what modules have, by the modules' names on the bus.
	things map[string][]kick
}

// kick wakes one waiter. Whoever kicks never waits.
type kick chan struct{}

func newKick() kick { return make(kick, 1) }

func (k kick) kick() {
	select {
	case k <- struct{}{}:
	default:
	}
}

func (v *view) set(b *engineParts) {
	v.mu.Lock()
	v.parts = b
	v.mu.Unlock()
	for _, k := range []kick{v.wake.node, v.wake.clock, v.wake.store} {
		k.kick()
	}
}

// clockChanged tells the engine that the trust in the time has changed.
func (v *view) clockChanged() {
	if b := v.get(); b != nil {
		b.engine.ClockChanged()
	}
}

func (v *view) get() *engineParts {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.parts
}

// alive returns an error while the engine is stuck. One that waits for its modules before it is opened isn't.
func (v *view) alive(ctx context.Context) error {
	if b := v.get(); b != nil {
		return b.engine.Alive(ctx)
	}
	return nil
}

// mostLook bounds a look at everything: a module that hangs is shown as it was.
const mostLook = 4 * time.Second

// lookAll has everything looked at that the node shows: first the modules, then what they have.
func (v *view) lookAll(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, mostLook)
	defer cancel()
	v.modules.AskNow(ctx)
	v.plane.Look(ctx)
}

// lookNode is the node's own description of its start.
func (v *view) lookNode(in *settings, at *sockets) ([]resource.Resource, error) {
	c := v.config
	s := host.NodeConfigSpec{
		Version: c.Version.Version, Commit: c.Version.Commit, Started: v.started,
		OneProcess: c.Process == module.Whole, Bus: config.Masked(c.Bus), Farm: c.FarmID, Unserved: at.unserved(),
	}
	if force, needs := in.inForce(); force != nil {
		s.Settings, s.NeedsRestart = force.Checksum(), needs
	}
	if b := v.get(); b != nil {
		s.NodeID = b.nodeID
	}
	return []resource.Resource{host.NewNodeConfig(s)}, nil
}

// lookModules are the modules' starts.
func (v *view) lookModules(context.Context) ([]resource.Resource, error) {
	var out []resource.Resource
	for _, m := range v.config.Modules {
		out = append(out, host.NewModuleConfig(host.ModuleConfigSpec{Name: m.Bus, Command: m.Name, Summary: m.Summary, Asked: v.modules.Poked()}))
	}
	return out, nil
}

func (v *view) lookExplorer(context.Context) ([]resource.Resource, error) {
	return []resource.Resource{host.NewExplorer(v.contact.state())}, nil
}

func (v *view) lookCeilings(context.Context) ([]resource.Resource, error) {
	var out []resource.Resource
	own := ceiling.Own{Process: v.config.Process, Seat: v.seat}
	for _, c := range ceiling.All(v.config.Config, module.Processes(v.config.Modules), own) {
		out = append(out, host.NewCeiling(c))
	}
	return out, nil
}

// lookClock is the trust in the time, as it was when it last changed.
func (v *view) lookClock(context.Context) ([]resource.Resource, error) {
	b := v.get()
	if b == nil {
		return nil, nil
	}
	verdict := b.clock.Verdict()
	is := host.ClockSpec{
		Now: verdict.Now.UTC(), Trusted: verdict.Level >= clock.Stop, Level: verdict.Level.String(), Source: string(verdict.Source),
		Uptime: int64(verdict.Uptime / time.Second), Why: verdict.Why, Read: time.Now().UTC(),
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if was := v.clock; was.Level != is.Level || was.Source != is.Source || was.Why != is.Why {
		v.clock = is.Judged(was, is.Read)
	}
	return []resource.Resource{host.NewClock(v.clock)}, nil
}

func (v *view) lookStore(context.Context) ([]resource.Resource, error) {
	b := v.get()
	if b == nil {
		return nil, nil
	}
	birth := b.store.Birth()
	s := host.StoreSpec{
		Birth: birth.ID, Born: birth.Time, AcceptOlder: b.store.AcceptsOlder(), Restored: b.engine.Ready(),
		Deployed: counted(b.store.Counters()), Records: map[string]int{}, Drifts: map[string]uint64{}, DroppedEvents: v.dropped(),
		Refused: b.engine.Refused(),
	}
	for _, q := range b.store.Quarantined() {
		s.Quarantined = append(s.Quarantined, q.Name)
	}
	for _, p := range lifecycle.Phases() {
		s.Records[string(p)] = b.store.Count(p)
	}
	owed, err := b.store.Undelivered()
	if err != nil {
		return nil, err
	}
	s.Undelivered = len(owed)
	for t, n := range b.engine.Drifts() {
		s.Drifts[string(t)] = n
	}
	if b.door != nil {
		s.DoorRestarts = b.door.Restarts()
	}
	return append(b.lookMirrors(), host.NewStore(s)), nil
}

// counted are counters by type.
func counted(c workload.ProvisionCounters) map[string]int64 {
	return map[string]int64{
		string(workload.TypeContainer): c.Container, string(workload.TypeVolume): c.Volume, string(workload.TypeNetwork): c.Network,
		string(workload.TypeZDB): c.ZDB, string(workload.TypeKubernetes): c.VM, string(workload.TypeDebug): c.Debug,
	}
}

// lookHost asks the monitor module for the machine, which arrivals use too.
func lookHost(m *machine) func(ctx context.Context) ([]resource.Resource, error) {
	return func(ctx context.Context) ([]resource.Resource, error) {
		info, err := m.look(ctx)
		if err != nil {
			return nil, err
		}
		return []resource.Resource{host.NewHost(info)}, nil
	}
}

// view makes the view of this process.
func (d *daemon) view(m clients) *view {
	return &view{
		config: d.Config, seat: d.seat, started: time.Now(), contact: &contact{url: d.Explorer, changed: newKick()},
		machine: &machine{ask: m.host.Info}, wake: wakes{node: newKick(), clock: newKick(), store: newKick(), modules: newKick(), things: map[string][]kick{}},
	}
}

// machine caches the facts about the node's machine. Reading them scans all its links, of which users
// make thousands: each registration reads them anew, arrivals use the cache.
type machine struct {
	ask  func(ctx context.Context) (node.HostInfo, error)
	last atomic.Pointer[node.HostInfo]
}

// look reads the facts now.
func (m *machine) look(ctx context.Context) (node.HostInfo, error) {
	now, err := m.ask(ctx)
	if err == nil {
		m.last.Store(&now)
	}
	return now, err
}

// known is the last successful reading; without one it reads.
func (m *machine) known(ctx context.Context) (node.HostInfo, error) {
	if last := m.last.Load(); last != nil {
		return *last, nil
	}
	return m.look(ctx)
}
