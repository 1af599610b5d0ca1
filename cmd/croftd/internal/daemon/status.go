package daemon

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/threefoldtech/zbus"

	"github.com/croft-edge/croft/cmd/croftd/internal/ceiling"
	"github.com/croft-edge/croft/cmd/croftd/internal/config"
	"github.com/croft-edge/croft/cmd/croftd/internal/module"
	"github.com/croft-edge/croft/pkg/cgroup"
	"github.com/croft-edge/croft/pkg/clock"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/node/stubs"
	"github.com/croft-edge/croft/pkg/nodestatus"
	"github.com/croft-edge/croft/pkg/supervise"
	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision"
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

// statusServer serves the node's status and the operator's orders. It starts before the engine, so that
// a node that waits for its modules can report it.
type statusServer struct {
	config  Config
	seat    *cgroup.Seat
	started time.Time
	contact *contact
	client  zbus.Client

	mu sync.Mutex
	// parts is nil until the engine is open.
	parts *engineParts
}

func (v *statusServer) set(b *engineParts) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.parts = b
}

func (v *statusServer) get() *engineParts {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.parts
}

// Status implements control.Node.
func (v *statusServer) Status(ctx context.Context) (nodestatus.Status, error) {
	c := v.config
	s := nodestatus.Status{
		Version: c.Version.Version, Commit: c.Version.Commit, Started: v.started,
		OneProcess: c.Process == module.Whole, Bus: config.Masked(c.Bus), Streams: []node.DebugInfo{},
		Explorer: v.contact.state(), Workloads: []nodestatus.Workload{}, Orphans: []nodestatus.Orphan{},
		Ceilings: ceiling.All(c.Config, module.Processes(c.Modules), ceiling.Own{Process: c.Process, Seat: v.seat}),
	}
	v.askModules(ctx, &s)
	b := v.get()
	if b == nil {
		return s, nil
	}
	return s, b.fill(ctx, &s)
}

// askModules asks all modules all their questions concurrently. Each fills members of its own.
func (v *statusServer) askModules(ctx context.Context, s *nodestatus.Status) {
	ctx, cancel := context.WithTimeout(ctx, askModule)
	defer cancel()
	failures := make([]chan error, len(v.config.Modules))
	var all sync.WaitGroup
	for i, m := range v.config.Modules {
		failures[i] = make(chan error, len(m.Status))
		s.Modules = append(s.Modules, nodestatus.Module{Name: m.Bus})
	}
	for i, m := range v.config.Modules {
		for _, ask := range m.Status {
			all.Go(func() {
				failures[i] <- supervise.Guard(v.config.Log, "status", func() error { return ask(ctx, v.client, s) })
			})
		}
	}
	all.Wait()
	for i, m := range v.config.Modules {
		for range m.Status {
			if err := <-failures[i]; err != nil {
				s.Modules[i].Error = err.Error()
			}
		}
	}
}

// fill adds the members that the engine, the store and the clock know.
func (b *engineParts) fill(ctx context.Context, s *nodestatus.Status) error {
	verdict := b.clock.Verdict()
	birth := b.store.Birth()
	s.NodeID, s.Adopted = b.nodeID, b.engine.Ready()
	if b.door != nil {
		s.DoorRestarts = b.door.Restarts()
	}
	s.Clock = nodestatus.Clock{
		Now: verdict.Now, Trusted: verdict.Level >= clock.Stop, Level: verdict.Level.String(), Source: string(verdict.Source),
		Uptime: int64(verdict.Uptime / time.Second), Why: verdict.Why,
	}
	s.Store = nodestatus.Store{Birth: birth.ID, Born: birth.Time, AcceptOlder: b.store.AcceptsOlder()}
	for _, q := range b.store.Quarantined() {
		s.Store.Quarantined = append(s.Store.Quarantined, q.Name)
	}
	s.Counters = b.counters(ctx)
	workloads, err := b.engine.Status()
	if err != nil {
		return err
	}
	for _, w := range workloads {
		s.Workloads = append(s.Workloads, shown(w))
		if w.State != "" && !w.Delivered {
			s.Undelivered++
		}
	}
	slices.SortStableFunc(s.Workloads, func(a, b nodestatus.Workload) int { return byID(a.ID, b.ID) })
	s.Drifts = b.engine.Drifts()
	for _, orphan := range b.engine.Orphans() {
		s.Orphans = append(s.Orphans, nodestatus.Orphan{Type: orphan.Type, ID: orphan.ID, Since: orphan.Since})
	}
	return nil
}

func (b *engineParts) counters(ctx context.Context) workload.ProvisionCounters {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	return <-b.engine.Counters(ctx)
}

func shown(w provision.WorkloadStatus) nodestatus.Workload {
	out := nodestatus.Workload{
		ID: w.ID, Type: w.Type, User: w.User, Phase: string(w.Phase), State: w.State, Cause: w.Error, Attempts: w.Attempts,
		Waiting: w.Pending, Expires: w.Expires, Delivered: w.Delivered, Restored: w.Restored,
	}
	if w.Drift != nil {
		out.Drift = &nodestatus.Drift{At: w.Drift.At, What: w.Drift.What}
	}
	if !w.NextAttempt.IsZero() {
		out.NextAttempt = &w.NextAttempt
	}
	return out
}

// byID orders IDs by their numbers.
func byID(a, b string) int {
	x, errA := workload.ParseID(a)
	y, errB := workload.ParseID(b)
	switch {
	case errA != nil || errB != nil:
		return strings.Compare(a, b)
	case x.N != y.N:
		return cmp.Compare(x.N, y.N)
	}
	return cmp.Compare(x.M, y.M)
}

// errStarting is the answer to orders before the engine is open.
func errStarting() error {
	return node.Errorf(node.Transient, "cannot do this yet: the node waits for its modules; see croftd status")
}

// Evict implements control.Node.
func (v *statusServer) Evict(ctx context.Context, id string) error {
	b := v.get()
	if b == nil {
		return errStarting()
	}
	return b.engine.Evict(ctx, id)
}

// AcceptOlder implements control.Node, and restarts the poll for the reservations that were refused for
// their age.
func (v *statusServer) AcceptOlder(context.Context) error {
	b := v.get()
	if b == nil {
		return errStarting()
	}
	if err := b.store.AcceptOlder(); err != nil {
		return err
	}
	b.again()
	return nil
}

// RefuseOlder implements control.Node.
func (v *statusServer) RefuseOlder(context.Context) error {
	b := v.get()
	if b == nil {
		return errStarting()
	}
	return b.store.RefuseOlder()
}

// Restored implements control.Node.
func (v *statusServer) Restored(context.Context) error {
	b := v.get()
	if b == nil {
		return errStarting()
	}
	if err := b.store.Rebirth(); err != nil {
		return err
	}
	b.again()
	return nil
}

// again restarts the poll from the beginning.
func (b *engineParts) again() {
	if b.poll != nil {
		b.poll.Reset()
	}
}
