package seed

import (
	"context"
	"time"

	"github.com/pkg/errors"
	"github.com/rs/zerolog"
	"github.com/threefoldtech/zbus"

	"github.com/croft-edge/croft/pkg"
	"github.com/croft-edge/croft/pkg/clock"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/node/stubs"
	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/engine"
	"github.com/croft-edge/croft/provision/feedback"
	"github.com/croft-edge/croft/provision/provisioner"
	"github.com/croft-edge/croft/provision/provisioner/container"
	"github.com/croft-edge/croft/provision/provisioner/debug"
	"github.com/croft-edge/croft/provision/provisioner/kubernetes"
	"github.com/croft-edge/croft/provision/provisioner/network"
	"github.com/croft-edge/croft/provision/provisioner/reference"
	"github.com/croft-edge/croft/provision/provisioner/volume"
	"github.com/croft-edge/croft/provision/provisioner/zdb"
	"github.com/croft-edge/croft/provision/source"
	"github.com/croft-edge/croft/provision/store"
	"github.com/croft-edge/croft/provision/verify"
)

// Engine handles one reservation at a time, for as long as its source yields some.
type Engine interface {
	// Run starts the engine. It returns nil when ctx is done or the source has ended, after
	// finishing the work in hand and trying to deliver the pending results.
	Run(ctx context.Context) error
	// Counters streams the number of provisioned workloads by type: the first
	// value at once, then on change and at least every two seconds.
	Counters(ctx context.Context) <-chan pkg.ProvisionCounters
}

// New makes an engine from the published API's parts: see provision.New.
func New(source workload.ReservationSource, rw workload.ReservationCache, fb workload.Feedbacker) Engine {
	e, err := newSeedEngine(source, rw, fb)
	if err != nil {
		return failedEngine{err}
	}
	return e
}

// WithZBus puts the bus's client into a context. Run of an engine made by New
// reads it once, for its provisioners and its signer.
func WithZBus(ctx context.Context, client zbus.Client) context.Context {
	return context.WithValue(ctx, zbusKey, client)
}

// GetZBus returns the bus's client, nil when there is none.
func GetZBus(ctx context.Context) zbus.Client {
	client, _ := ctx.Value(zbusKey).(zbus.Client)
	return client
}

// seedEngine is an engine that gets its last parts from Run's context.
type seedEngine struct {
	*engine.Engine
	parts  *engine.Config
	fb     workload.Feedbacker
	clock  *clock.Trust
	births verify.Births
}

func newSeedEngine(src workload.ReservationSource, rw workload.ReservationCache, fb workload.Feedbacker) (*seedEngine, error) {
	if src == nil || rw == nil || fb == nil {
		return nil, errors.New("cannot make an engine: source, cache and feedbacker are all needed")
	}
	trust, err := clock.New(clock.Config{
		Clock: clock.System{}, Synced: clock.Synced, Log: zerolog.Nop(),
		Record: func(clock.Mark) error { return nil },
	})
	if err != nil {
		return nil, err
	}
	records, ok := rw.(store.Records)
	if !ok {
		if records, err = newCacheRecords(rw); err != nil {
			return nil, err
		}
	}
	births, ok := rw.(verify.Births)
	if !ok {
		births = noBirth{}
	}
	parts := &engine.Config{Records: records, Sources: []source.Source{source.From(src, zerolog.Nop())}, Clock: trust, Log: zerolog.Nop()}
	return &seedEngine{Engine: engine.Assemble(parts), parts: parts, fb: fb, clock: trust, births: births}, nil
}

// Run implements Engine.
func (s *seedEngine) Run(ctx context.Context) error {
	client := GetZBus(ctx)
	if client == nil {
		return errors.New("cannot run the engine: its context has no bus (see WithZBus), and it was made without other parts (see NewEngine)")
	}
	identity := stubs.NewIdentityManagerStub(client)
	asking, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	nodeID, err := identity.NodeID(asking)
	if err != nil {
		return errors.Wrap(err, "cannot run the engine: the node's ID isn't known")
	}
	judge, err := verify.New(verify.Config{
		Policy: verify.Policy{NodeID: nodeID}, Clock: s.clock, Store: s.births, Data: workload.Validate,
	})
	if err != nil {
		return err
	}
	answers, err := feedback.New(feedback.Config{Outbox: s.parts.Records, Signer: identity, Sender: feedback.NewSeed(s.fb), Log: zerolog.Nop()})
	if err != nil {
		return err
	}
	records := s.parts.Records
	s.parts.Policy, s.parts.Feedback = judge, answers
	s.parts.Provisioners = DefaultProvisioners(client, Settings{Owners: OwnersFor(ctx, records), ZDBPlacement: HomesFor(ctx, records), Past: NewOwners(records)})
	return s.Engine.Run(ctx)
}

// OwnerRecords is the part of the node's records that the provisioners need.
type OwnerRecords interface {
	reference.Owners
	kubernetes.Records
}

// Settings configures DefaultProvisioners. With the zero value no user gets log lines, no
// container can mount a volume, and no zdb namespace is known.
type Settings struct {
	// DebugUsers are the IDs of the users that may have a stream of the node's
	// log lines.
	DebugUsers []string
	// Owners tells whose volumes and networks are on the node, and which workloads were deployed.
	Owners OwnerRecords
	// Past tells which workloads an older croft has made; nil means none.
	Past provisioner.Past
	// ContainerLayer is how much a container may write beside its volumes, in
	// bytes; 0 is container.DefaultLayer.
	ContainerLayer uint64
	// ZDBPlacement tells in which containers zdb namespaces live.
	ZDBPlacement zdb.Homes
	// ZDBCPU is in cores, ZDBMemory in bytes: each zdb container's; 0 is
	// zdb.DefaultCPU and zdb.DefaultMemory.
	ZDBCPU    uint64
	ZDBMemory uint64
	// ZDBSync has zdb containers answer a write only once it is on the disk.
	ZDBSync bool
}

// DefaultProvisioners makes the provisioners of all types that croft implements, on the
// modules that the bus's client reaches.
func DefaultProvisioners(client zbus.Client, s Settings) map[workload.Type]provisioner.Provisioner {
	identity, storage := stubs.NewIdentityManagerStub(client), stubs.NewStorageStub(client)
	containers, networks := stubs.NewContainersStub(client), stubs.NewNetworksStub(client)
	images, zdbs := stubs.NewImagesStub(client), stubs.NewZDBNamespacesStub(client)
	vms, disks, taps := stubs.NewVMsStub(client), stubs.NewVDisksStub(client), stubs.NewTapsStub(client)
	hear := hearing(client)
	if s.Owners == nil {
		s.Owners = nobodys{}
	}
	if s.ZDBPlacement == nil {
		s.ZDBPlacement = nowhere{}
	}
	return map[workload.Type]provisioner.Provisioner{
		workload.TypeContainer: container.New(container.Config{
			Containers: containers, Images: images, Networks: networks, Storage: storage,
			Identity: identity, Owners: s.Owners, Past: s.Past, Layer: s.ContainerLayer,
			Hearing: hear(node.ContainerModule, node.StorageModule),
		}),
		workload.TypeDebug: debug.New(stubs.NewDebugStub(client), s.DebugUsers),
		workload.TypeKubernetes: kubernetes.New(kubernetes.Config{
			VMs: vms, Disks: disks, Taps: taps, Networks: networks,
			Identity: identity, Owners: s.Owners, Images: stubs.NewVMImagesStub(client),
			Hearing: hear(node.VMModule, node.StorageModule, node.NetworkModule),
		}),
		workload.TypeNetwork: network.New(network.Config{
			Networks: networks, Inspector: stubs.NewNetworkInspectorStub(client), Identity: identity, Hearing: hear(node.NetworkModule),
		}),
		workload.TypeVolume: volume.New(volume.Config{Storage: storage, Containers: containers, Past: s.Past, Hearing: hear(node.StorageModule)}),
		workload.TypeZDB: zdb.New(zdb.Config{
			Containers: containers, Images: images, Storage: storage, Servers: zdbs, Namespaces: zdbs,
			Identity: identity, Homes: s.ZDBPlacement, Past: s.Past, CPU: s.ZDBCPU, Memory: s.ZDBMemory, Sync: s.ZDBSync,
			Hearing: hear(node.ZDBModule, node.ContainerModule, node.StorageModule),
		}),
	}
}

// hearing returns a func that names the streams of modules' changes: one a module, however
// many types use it.
func hearing(client zbus.Client) func(modules ...string) provisioner.Hearing {
	streams := map[string]provisioner.Changes{}
	return func(modules ...string) (h provisioner.Hearing) {
		for _, m := range modules {
			if streams[m] == nil {
				streams[m] = stubs.NewChangesStub(client, m)
			}
			h.From = append(h.From, streams[m])
		}
		return h
	}
}

// noBirth is the birth of a cache that doesn't know its age.
type noBirth struct{}

func (noBirth) Birth() store.Birth { return store.Birth{} }
func (noBirth) AcceptsOlder() bool { return true }

// failedEngine is an engine that couldn't be made.
type failedEngine struct{ err error }

// Run implements Engine.
func (f failedEngine) Run(context.Context) error { return f.err }

// Counters implements Engine: there is nothing to count.
func (f failedEngine) Counters(context.Context) <-chan pkg.ProvisionCounters {
	out := make(chan pkg.ProvisionCounters)
	close(out)
	return out
}
