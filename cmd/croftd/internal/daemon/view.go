package daemon

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/threefoldtech/zbus"

	"github.com/croft-edge/croft/cmd/croftd/internal/config"
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

// modules are the stubs of the modules that the engine's process uses.
type modules struct {
	bus        zbus.Client
	identity   *stubs.IdentityManagerStub
	storage    *stubs.StorageStub
	host       *stubs.HostMonitorStub
	debug      *stubs.DebugStub
	networks   *stubs.NetworksStub
	containers *stubs.ContainersStub
	images     *stubs.ImagesStub
	zdb        *stubs.ZDBNamespacesStub
}

// view is the node as an operator sees and orders it. It is there before the
// engine is, so that a node that waits for its modules can say so.
type view struct {
	config  Config
	started time.Time
	contact *contact
	modules modules

	mu    sync.Mutex
	brain *brain
}

func (v *view) set(b *brain) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.brain = b
}

func (v *view) get() *brain {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.brain
}

// Status implements control.Node.
func (v *view) Status(ctx context.Context) (nodestatus.Status, error) {
	s := nodestatus.Status{
		Version: v.config.Version.Version, Commit: v.config.Version.Commit, Started: v.started,
		OneProcess: v.config.Shape == Whole, Bus: config.Masked(v.config.Bus),
		Explorer: v.contact.state(), Workloads: []nodestatus.Workload{}, Orphans: []nodestatus.Orphan{}, Ceilings: v.config.ceilings(),
	}
	v.askModules(ctx, &s)
	b := v.get()
	if b == nil {
		return s, nil
	}
	return s, b.fill(ctx, &s)
}

// askModules asks every module whether it is there, all at once.
func (v *view) askModules(ctx context.Context, s *nodestatus.Status) {
	ctx, cancel := context.WithTimeout(ctx, askModule)
	defer cancel()
	var status node.StorageStatus
	var errs [8]error
	var all sync.WaitGroup
	ask := func(i int, f func() error) {
		all.Go(func() { errs[i] = supervise.Guard(v.config.Log, "status", f) })
	}
	ask(0, func() (err error) { _, err = v.modules.identity.NodeID(ctx); return err })
	ask(1, func() (err error) { status, err = v.modules.storage.Status(ctx); return err })
	ask(2, func() (err error) { _, err = v.modules.host.Info(ctx); return err })
	ask(3, func() (err error) { s.Streams, err = v.modules.debug.List(ctx); return err })
	ask(4, func() (err error) { s.Networks, s.Network, err = v.modules.askNetworks(ctx); return err })
	ask(5, func() (err error) { s.Containers, s.Container, err = v.modules.askContainers(ctx); return err })
	ask(6, func() (err error) { s.ZDB, err = v.modules.zdb.Servers(ctx); return err })
	ask(7, func() error { s.Images, s.Image = v.modules.askImages(ctx); return nil })
	all.Wait()
	for i, name := range []string{node.IdentityModule, node.StorageModule, node.MonitorModule, node.DebugModule, node.NetworkModule, node.ContainerModule, node.ZDBModule} {
		m := nodestatus.Module{Name: name}
		if errs[i] != nil {
			m.Error = errs[i].Error()
		}
		s.Modules = append(s.Modules, m)
	}
	s.Containers, s.OwnContainers = splitOwn(s.Containers, func(c node.ContainerInfo) bool { return c.User == node.OwnUser })
	s.Images, _ = splitOwn(s.Images, func(i node.Image) bool { return i.User == node.OwnUser })
	if s.Streams == nil {
		s.Streams = []node.DebugInfo{}
	}
	s.Storage = nodestatus.Storage{
		Pools: status.Pools, BrokenPools: status.BrokenPools, BrokenDevices: status.BrokenDevices, Quota: status.Quota,
	}
}

// fill adds what the engine's side knows.
func (b *brain) fill(ctx context.Context, s *nodestatus.Status) error {
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

func (b *brain) counters(ctx context.Context) workload.ProvisionCounters {
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

// errStarting is what an order is answered while there is no engine yet.
func errStarting() error {
	return node.Errorf(node.Transient, "cannot do this yet: the node waits for its modules; see croftd status")
}

// Evict implements control.Node.
func (v *view) Evict(ctx context.Context, id string) error {
	b := v.get()
	if b == nil {
		return errStarting()
	}
	return b.engine.Evict(ctx, id)
}

// AcceptOlder implements control.Node: what was refused for its age is asked
// for again.
func (v *view) AcceptOlder(context.Context) error {
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
func (v *view) RefuseOlder(context.Context) error {
	b := v.get()
	if b == nil {
		return errStarting()
	}
	return b.store.RefuseOlder()
}

// Restored implements control.Node.
func (v *view) Restored(context.Context) error {
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

// again makes the poll start from the beginning.
func (b *brain) again() {
	if b.poll != nil {
		b.poll.Reset()
	}
}
