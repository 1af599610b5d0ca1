// Package nodestatus is a node's state as one document, as `croftd status -o json` prints it and /readyz and /metrics
// read it: the resources of the node's state, gathered by Read. It holds no state of its own.
package nodestatus

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/cosi-project/runtime/pkg/controller"
	"github.com/cosi-project/runtime/pkg/controller/generic"
	"github.com/cosi-project/runtime/pkg/safe"
	"github.com/pkg/errors"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/resources/host"
	"github.com/croft-edge/croft/pkg/resources/parts"
	"github.com/croft-edge/croft/pkg/resources/work"
	"github.com/croft-edge/croft/pkg/workload"
)

// Status is the state of a node. Sizes are in bytes.
type Status struct {
	host.NodeConfigSpec

	// Adopted is whether every record of the store was checked since the start.
	Adopted bool `json:"adopted"`

	Store host.StoreSpec `json:"store"`
	// Mirrors are the store's mirrors.
	Mirrors  []host.MirrorSpec `json:"mirrors"`
	Clock    host.ClockSpec    `json:"clock"`
	Explorer host.ExplorerSpec `json:"explorer"`
	Modules  []host.ModuleSpec `json:"modules"`
	Storage  Storage           `json:"storage"`
	// Networks are users' networks, Network the state of their module.
	Networks []node.NetworkInfo `json:"networks"`
	Network  node.NetworkStatus `json:"network"`
	// Containers are users' containers, Images the reservations' images; Container
	// and Image the state of their module. OwnContainers are those that the node
	// runs for itself, such as zdb's.
	Containers    []node.ContainerInfo `json:"containers"`
	OwnContainers []node.ContainerInfo `json:"own_containers"`
	Container     node.ContainerStatus `json:"container"`
	Images        []node.Image         `json:"images"`
	Image         node.ImageStatus     `json:"image"`
	// ZDB are the node's attached zdb containers.
	ZDB     []node.ZDBServer `json:"zdb"`
	Streams []node.DebugInfo `json:"streams"`
	// VMs are the virtual machines, VM and VMImage the state of their module.
	VMs      []node.VMInfo              `json:"vms"`
	VM       node.VMStatus              `json:"vm"`
	VMImage  node.VMImageStatus         `json:"vm_image"`
	Counters workload.ProvisionCounters `json:"counters"`

	Workloads []work.WorkloadSpec `json:"workloads"`
	// Ceilings are the limits of croft's own parts, and of all containers together.
	Ceilings []host.CeilingSpec `json:"ceilings"`

	Undelivered int               `json:"undelivered"`
	Orphans     []work.OrphanSpec `json:"orphans"`
	// Drifts counts by type, since the start, workloads that were gone or changed.
	Drifts map[string]uint64 `json:"drifts"`
	// DoorRestarts counts the restarts of the process of the node's door.
	DoorRestarts uint64 `json:"door_restarts"`
}

// Storage is the node's storage.
type Storage struct {
	Pools         []node.Pool         `json:"pools"`
	BrokenPools   []node.BrokenPool   `json:"broken_pools"`
	BrokenDevices []node.BrokenDevice `json:"broken_devices"`
	Quota         string              `json:"quota"`
}

// Read gathers a node's state. Resources that there aren't yet leave their members empty.
func Read(ctx context.Context, r controller.Reader) (Status, error) {
	s, err := ReadHealth(ctx, r)
	for _, read := range []func() error{
		func() error {
			return each(ctx, r, func(x *work.Workload) { s.Workloads = append(s.Workloads, *x.TypedSpec()) })
		},
		func() error {
			return each(ctx, r, func(x *parts.Network) { s.Networks = append(s.Networks, x.TypedSpec().NetworkInfo) })
		},
		func() error {
			return each(ctx, r, func(x *parts.Container) {
				if c := x.TypedSpec().ContainerInfo; c.User == node.OwnUser {
					s.OwnContainers = append(s.OwnContainers, c)
				} else {
					s.Containers = append(s.Containers, c)
				}
			})
		},
		func() error {
			return each(ctx, r, func(x *parts.Image) {
				if i := x.TypedSpec().Image; i.User != node.OwnUser {
					s.Images = append(s.Images, i)
				}
			})
		},
		func() error {
			return each(ctx, r, func(x *parts.Stream) { s.Streams = append(s.Streams, x.TypedSpec().DebugInfo) })
		},
		func() error {
			return each(ctx, r, func(x *host.Ceiling) { s.Ceilings = append(s.Ceilings, *x.TypedSpec()) })
		},
	} {
		if err == nil {
			err = read()
		}
	}
	slices.SortStableFunc(s.Workloads, func(a, b work.WorkloadSpec) int { return byID(a.ID, b.ID) })
	return s, errors.Wrap(err, "cannot read the node's state")
}

// ReadHealth gathers what the node's health depends on: all but its workloads and what they have made.
func ReadHealth(ctx context.Context, r controller.Reader) (Status, error) {
	s := Status{Streams: []node.DebugInfo{}, Workloads: []work.WorkloadSpec{}, Orphans: []work.OrphanSpec{}}
	for _, read := range []func() error{
		func() error { return each(ctx, r, func(x *host.NodeConfig) { s.NodeConfigSpec = *x.TypedSpec() }) },
		func() error { return each(ctx, r, func(x *host.Store) { s.store(*x.TypedSpec()) }) },
		func() error { return each(ctx, r, func(x *host.Clock) { s.Clock = current(*x.TypedSpec()) }) },
		func() error { return each(ctx, r, func(x *host.Explorer) { s.Explorer = *x.TypedSpec() }) },
		func() error { return each(ctx, r, func(x *host.Module) { s.module(*x.TypedSpec()) }) },
		func() error {
			return each(ctx, r, func(x *parts.Pool) {
				p := x.TypedSpec()
				if p.Broken != "" {
					s.Storage.BrokenPools = append(s.Storage.BrokenPools, node.BrokenPool{Name: p.Name, DiskType: p.DiskType, Cause: p.Broken})
				} else {
					s.Storage.Pools = append(s.Storage.Pools, p.Pool)
				}
			})
		},
		func() error {
			return each(ctx, r, func(x *parts.ZDBServer) { s.ZDB = append(s.ZDB, x.TypedSpec().ZDBServer) })
		},
		func() error {
			return each(ctx, r, func(x *parts.VirtualMachine) { s.VMs = append(s.VMs, x.TypedSpec().VMInfo) })
		},
		func() error {
			return each(ctx, r, func(x *work.Orphan) { s.Orphans = append(s.Orphans, *x.TypedSpec()) })
		},
	} {
		if err := read(); err != nil {
			return s, errors.Wrap(err, "cannot read the node's state")
		}
	}
	return s, nil
}

// each calls use with all resources of a type, by ID.
func each[R generic.ResourceWithRD](ctx context.Context, r controller.Reader, use func(R)) error {
	all, err := safe.ReaderListAll[R](ctx, r)
	if err != nil {
		return err
	}
	for x := range all.All() {
		use(x)
	}
	return nil
}

func (s *Status) store(x host.StoreSpec) {
	if x.Mirror != nil {
		s.Mirrors = append(s.Mirrors, *x.Mirror)
		return
	}
	s.Store, s.Adopted, s.Undelivered, s.Drifts, s.DoorRestarts = x, x.Restored, x.Undelivered, x.Drifts, x.DoorRestarts
	n := x.Deployed
	s.Counters = workload.ProvisionCounters{
		Container: n[string(workload.TypeContainer)], Volume: n[string(workload.TypeVolume)], Network: n[string(workload.TypeNetwork)],
		ZDB: n[string(workload.TypeZDB)], VM: n[string(workload.TypeKubernetes)], Debug: n[string(workload.TypeDebug)],
	}
}

// module adds a module, and its own state to the members of that.
func (s *Status) module(x host.ModuleSpec) {
	if x.Storage != nil {
		s.Storage.Quota, s.Storage.BrokenDevices = x.Storage.Quota, x.Storage.BrokenDevices
	}
	take(&s.Network, x.Network)
	take(&s.Container, x.Container)
	take(&s.Image, x.Image)
	take(&s.VM, x.VM)
	take(&s.VMImage, x.VMImage)
	x.Storage, x.Network, x.Container, x.Image, x.VM, x.VMImage = nil, nil, nil, nil, nil, nil
	s.Modules = append(s.Modules, x)
}

func take[T any](to, from *T) {
	if from != nil {
		*to = *from
	}
}

// ModuleOf is the part of a status that belongs to the module of that name; nil when it has none.
func ModuleOf(s *Status, name string) *host.ModuleSpec {
	for i := range s.Modules {
		if s.Modules[i].Name == name {
			return &s.Modules[i]
		}
	}
	return nil
}

// current is the clock as it is now: the resource is of when its trust last changed.
func current(c host.ClockSpec) host.ClockSpec {
	if c.Now.IsZero() {
		return c
	}
	if gone := time.Since(c.Read); gone > 0 {
		c.Now = c.Now.Add(gone)
		c.Uptime += int64(gone / time.Second)
	}
	return c
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
