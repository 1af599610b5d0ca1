package daemon

import (
	"context"
	"os"
	"path/filepath"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/cmd/croftd/internal/config"
	"github.com/croft-edge/croft/cmd/croftd/internal/mirrors"
	"github.com/croft-edge/croft/cmd/croftd/internal/module"
	"github.com/croft-edge/croft/cmd/croftd/internal/module/identity"
	"github.com/croft-edge/croft/cmd/croftd/internal/userapi"
	"github.com/croft-edge/croft/pkg/clock"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/resources/work"
	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision"
	"github.com/croft-edge/croft/provision/admit"
	"github.com/croft-edge/croft/provision/feedback"
	"github.com/croft-edge/croft/provision/plane"
	"github.com/croft-edge/croft/provision/refusals"
	"github.com/croft-edge/croft/provision/source"
	"github.com/croft-edge/croft/provision/store"
	"github.com/croft-edge/croft/provision/verify"
)

// engineParts are the engine and its dependencies. They exist once the node's modules were reached.
type engineParts struct {
	nodeID  string
	sizes   sizes
	engine  *provision.NodeEngine
	store   *store.FSStore
	mirrors *mirrors.Set
	clock   *clock.Trust
	poll    *source.Changes
	machine *machine
	state   *state
	// push receives the reservations that users bring to the node's own door.
	push *source.Push
	door *userapi.Door
	// endStreams closes the door's connection to containers' streams.
	endStreams func() error
}

// openEngine fills the parts: the store, the clock, the policy, admission, feedback, and the engine
// that uses them.
func (d *daemon) openEngine(b *engineParts, m clients, link *link, v *view) (err error) {
	deferred := &deferredClock{}
	b.sizes = d.sizes(m)
	if err := d.openStore(b, deferred, v.wake.store); err != nil {
		return err
	}
	if b.clock, err = d.openClock(b.store, v.wake.clock.kick); err != nil {
		return err
	}
	deferred.trust.Store(b.clock)
	judge, err := verify.New(verify.Config{
		Policy: verify.Policy{NodeID: b.nodeID, AcceptV1: d.AcceptSignatureV1, MaxDuration: d.MaxDuration},
		Clock:  b.clock, Store: b.store, Data: workload.Validate,
	})
	if err != nil {
		return err
	}
	room, err := d.admission(m, b)
	if err != nil {
		return err
	}
	answers, err := feedback.New(feedback.Config{
		Outbox: outbox{b.store, b}, Signer: m.identity, Sender: link, Log: d.Log, Grace: d.StopTimeout, MaxPause: maxPause,
	})
	if err != nil {
		return err
	}
	b.push = source.NewPush(d.Log)
	sources, counts := []source.Source{b.push}, &refusals.Counts{}
	if link.client != nil {
		b.poll, err = source.NewChanges(source.ChangesConfig{
			NodeID: b.nodeID, Poller: link, Cursors: b.store, Wait: d.PollWait, Refusals: counts, Log: d.Log,
			Backoff: source.Backoff{Base: firstPause, Max: maxPause},
			OnPoll: func(at time.Time, err error) {
				b.clock.Hear(at)
				link.contact.tell(err)
			},
		})
		if err != nil {
			return err
		}
		sources = append(sources, b.poll)
	}
	orphans, err := d.openOrphans()
	if err != nil {
		return err
	}
	owners := provision.NewOwners(b.store)
	b.engine, err = provision.NewEngine(provision.Config{
		Records: b.store, Sources: sources, Policy: judge, Admission: room, Feedback: answers, Clock: b.clock,
		Provisioners: provision.DefaultProvisioners(m.bus, provision.Settings{
			DebugUsers: d.DebugUsers, Owners: owners, Past: owners, ContainerLayer: d.Containers.Layer,
			ZDBPlacement: provision.NewZDBMapping(b.store), ZDBCPU: d.ZDB.CPU, ZDBMemory: d.ZDB.Memory, ZDBSync: d.ZDB.Sync,
		}),
		Orphans: orphans, Board: board{b.state.engine, v.wake.store}, Refusals: counts,
		Limits: provision.Limits{Provision: d.StepTimeout, Decommission: d.StepTimeout, Grace: d.Grace},
		Log:    d.Log,
	})
	return err
}

// The backoff of requests to the explorer: from firstPause, doubling, to maxPause, with jitter. A node
// that was cut off delivers within half a minute of the link's return.
const (
	firstPause = 500 * time.Millisecond
	maxPause   = 30 * time.Second
)

// storeFolder is the store's folder.
func storeFolder(c config.Config) string { return filepath.Join(c.StateDir, "store") }

// openStore opens the store, and makes its mirrors. A node whose key was just made can't have lost records.
func (d *daemon) openStore(b *engineParts, c *deferredClock, changed kick) error {
	_, err := os.Lstat(identity.NewbornFile(d.Config.Config))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return errors.Wrap(err, "cannot tell whether the node is new")
	}
	newNode := err == nil
	var opened atomic.Pointer[store.FSStore]
	b.openMirrors(d.Config, &opened, changed)
	b.store, err = store.Open(store.Config{
		Root: storeFolder(d.Config.Config), Log: d.Log, NewNode: newNode, Clock: c, BirthClock: vouchedClock{c},
		Demand: b.sizes.demand, OnBegin: b.mirrors.Begin, OnChange: b.mirrors.Mark,
	})
	if err != nil {
		return err
	}
	opened.Store(b.store)
	if err := os.Remove(identity.NewbornFile(d.Config.Config)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return errors.Wrap(err, "cannot note that the node has a store")
	}
	return nil
}

// openOrphans opens the list of known orphans. An older croft named the file differently.
func (d *daemon) openOrphans() (provision.OrphanBook, error) {
	path := filepath.Join(d.StateDir, "orphans.json")
	if _, err := os.Lstat(path); errors.Is(err, os.ErrNotExist) {
		if err := os.Rename(filepath.Join(d.StateDir, "strays.json"), path); err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, errors.Wrap(err, "cannot take over the known orphans")
		}
	}
	return provision.NewOrphanFile(path), nil
}

// openClock restores the clock from its last record.
func (d *daemon) openClock(s *store.FSStore, changed func()) (*clock.Trust, error) {
	boot, err := clock.BootID()
	if err != nil {
		d.Log.Warn().Err(err).Msg("cannot tell a restart from a reboot")
	}
	return clock.New(clock.Config{
		Clock: clock.System{}, Synced: clock.Synced, BootID: boot, Last: s.Mark(), Record: s.SetMark, Log: d.Log,
		Build: buildTime(debug.ReadBuildInfo()), TrustExplorer: d.TrustExplorerClock, OnChange: changed,
	})
}

// buildTime is the time of the commit that the program was built from: no correct clock is earlier.
// Zero when it is unknown.
func buildTime(info *debug.BuildInfo, known bool) time.Time {
	if !known {
		return time.Time{}
	}
	for _, s := range info.Settings {
		if s.Key != "vcs.time" {
			continue
		}
		if at, err := time.Parse(time.RFC3339, s.Value); err == nil {
			return at
		}
	}
	return time.Time{}
}

// admission decides whether there is room for a reservation. It asks for the pools each time: they may
// break and recover.
func (d *daemon) admission(m clients, b *engineParts) (*admit.Admission, error) {
	limit := d.UserLimit
	policy := admit.Defaults()
	policy.AllowUsers, policy.Without = d.AllowUsers, d.Containers.Without
	policy.Workloads, policy.Records, policy.AllRecords = int(limit.Workloads), int(limit.Records), int(d.MaxRecords)
	policy.PerUser.CPU, policy.PerUser.Memory, policy.PerUser.SSD, policy.PerUser.HDD = limit.CPU, limit.Memory, limit.SSD, limit.HDD
	return admit.New(admit.Config{
		Policy: policy, Demand: b.sizes.demand,
		Off: func(t workload.Type) string { return module.SwitchedOff(d.Modules, d.settings.off(), t) },
		Offer: func(ctx context.Context) (admit.Offer, error) {
			host, err := b.machine.known(ctx)
			if err != nil {
				return admit.Offer{}, err
			}
			room, err := m.room(ctx, host, d.Config.Config, b)
			return room.Offer, err
		},
	})
}

// room is the machine's room for workloads, from the storage module's status.
func (m clients) room(ctx context.Context, host node.HostInfo, c config.Config, b *engineParts) (room, error) {
	status, err := m.storage.Status(ctx)
	if err != nil {
		return room{}, err
	}
	filesystems, err := m.storage.ListFilesystems(ctx)
	if err != nil {
		return room{}, err
	}
	disks, err := m.disks.List(ctx)
	if err != nil {
		return room{}, err
	}
	return roomOf(offered(host, status.Pools, c), status, b.sizes.beside(status.Pools, filesystems, disks, b.present)), nil
}

// brokenPools are the unusable pools in admission's form. The disk type of one may be unknown.
func brokenPools(broken []node.BrokenPool) []admit.BrokenPool {
	out := make([]admit.BrokenPool, 0, len(broken))
	for _, b := range broken {
		out = append(out, admit.BrokenPool{
			Name: b.Name, Cause: b.Cause, SSD: b.DiskType != workload.HDD, HDD: b.DiskType != workload.SSD,
		})
	}
	return out
}

// deferredClock lets the store open before the clock, whose last record is in the store: until then no
// time is trusted.
type deferredClock struct {
	trust atomic.Pointer[clock.Trust]
}

// Now implements store.Clock.
func (l *deferredClock) Now() (time.Time, bool) {
	if t := l.trust.Load(); t != nil {
		return t.Now()
	}
	return time.Now(), false
}

// Read implements store.Clock. Before the clock is open, no time counts as passed.
func (l *deferredClock) Read() clock.Reading {
	if t := l.trust.Load(); t != nil {
		return t.Read()
	}
	return clock.Reading{Now: time.Now()}
}

// vouchedClock is the same clock, for decisions that must not depend on the explorer's time alone.
type vouchedClock struct{ *deferredClock }

// Now implements store.Clock.
func (v vouchedClock) Now() (time.Time, bool) {
	if t := v.trust.Load(); t != nil {
		return t.Vouched()
	}
	return time.Now(), false
}

// outbox tells the engine what the explorer has.
type outbox struct {
	*store.FSStore
	parts *engineParts
}

// Acknowledge implements feedback.Outbox.
func (o outbox) Acknowledge(receipts ...store.Receipt) error {
	err := o.FSStore.Acknowledge(receipts...)
	if err == nil {
		ids := make([]string, 0, len(receipts))
		for _, r := range receipts {
			ids = append(ids, r.ID)
		}
		o.parts.engine.Acknowledged(ids...)
	}
	return err
}

// board has the store looked at with each change of a workload, and once all are restored.
type board struct {
	*plane.Engine
	store kick
}

// Workloads implements engine.Board.
func (b board) Workloads(shown []work.WorkloadSpec, gone []string) {
	b.Engine.Workloads(shown, gone)
	b.store.kick()
}
