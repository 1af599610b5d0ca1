package node

import (
	"context"

	"github.com/croft-edge/croft/pkg/workload"
)

// The addresses on the bus of the modules of the other workload types.
const (
	FlistModule  = "flist"
	FlistObject  = "flist"
	FlistVersion = "0.1.0"

	ZDBModule  = "zdbd"
	ZDBObject  = "namespace"
	ZDBVersion = "0.1.0"
)

// FlistSpec asks for an flist's root file system.
type FlistSpec struct {
	// Name labels the mount: the reservation's ID.
	Name string
	// URL is the flist's, Storage its block store's.
	URL     string
	Storage string
	// Size is the writable layer's in bytes; 0 mounts read-only.
	Size uint64
}

// FlistMount is a mounted flist.
type FlistMount struct {
	Name string
	URL  string
	Path string
}

// Flists mounts flists. Bus: flist.flist@0.1.0.
type Flists interface {
	// Mount mounts it, or returns the mount of that name.
	Mount(spec FlistSpec) (FlistMount, error)
	// Unmount removes it with its writable layer. NotExist when there is none.
	Unmount(name string) error
	// List returns all mounts.
	List() ([]FlistMount, error)
}

// ZDBServerSpec describes a running zdb container.
type ZDBServerSpec struct {
	// Container is its ID, Mode that of all its namespaces, Data the path on the
	// node of the volume that holds them and its sockets.
	Container string
	Mode      workload.ZDBMode
	Data      string
}

// ZDBServer is an attached zdb container.
type ZDBServer struct {
	Container string           `yaml:"container" protobuf:"1"`
	Mode      workload.ZDBMode `yaml:"mode" protobuf:"2"`
	Data      string           `yaml:"data" protobuf:"3"`
	// IPv4 and IPv6 are the node's own addresses at which Port is reachable from
	// outside; empty where the node has none.
	IPv4 string `yaml:"ipv4" protobuf:"4"`
	IPv6 string `yaml:"ipv6" protobuf:"5"`
	Port uint16 `yaml:"port" protobuf:"6"`
	// Namespaces counts those of reservations.
	Namespaces uint64 `yaml:"namespaces" protobuf:"7"`
	// Drift describes its faults, empty without any: Attach repairs
	// them.
	Drift string `yaml:"drift" protobuf:"8"`
}

// ZDBNamespaceSpec asks for a namespace in a zdb container.
type ZDBNamespaceSpec struct {
	// Container is the zdb container's ID.
	Container string
	// Name is the reservation's ID.
	Name string
	// Size is the limit in bytes.
	Size     uint64
	Password string
	Public   bool
	// Hash is the reservation's, AdoptUnlabelled whether a namespace without a
	// hash counts as its own: see Claim.
	Hash            string
	AdoptUnlabelled bool
}

// ZDBNamespace is a namespace in a zdb container.
type ZDBNamespace struct {
	Container string
	Name      string
	Mode      workload.ZDBMode
	// Size is its limit, Used the live values' size, Disk its space on the
	// volume; bytes.
	Size   uint64
	Used   uint64
	Disk   uint64
	Public bool
	// Protected is whether it has a password.
	Protected bool
	// Hash is the hash of its reservation (see Claim), empty without a reservation or
	// when a croft that recorded none made it.
	Hash string
}

// ZDBNamespaces manages zdb containers' ports, and namespaces through the
// containers' admin sockets. Bus: zdbd.namespace@0.1.0.
type ZDBNamespaces interface {
	// Attach takes over a running zdb container: it gets a port of the node, which
	// it keeps until Detach. An attached one is repaired. Transient while the zdb
	// doesn't answer, Exist when it is of another mode, NoSpace when no port is
	// free, Busy while somebody else uses its port.
	Attach(spec ZDBServerSpec) (ZDBServer, error)
	// Detach releases it and its port. NotExist when it isn't attached.
	Detach(container string) error
	// Servers returns all attached containers.
	Servers() ([]ZDBServer, error)
	// Create makes it, or updates the one of that name. NotExist when the
	// container isn't attached, Exist when the one of that name is of another
	// mode, or belongs to another reservation: it stays untouched.
	Create(spec ZDBNamespaceSpec) (ZDBNamespace, error)
	// Delete removes it with its data. NotExist when there is none.
	Delete(container, name string) error
	// Inspect returns it. NotExist when there is none.
	Inspect(container, name string) (ZDBNamespace, error)
	// List returns all namespaces of a container, but for its default one; those
	// of all attached containers when container is empty.
	List(container string) ([]ZDBNamespace, error)
}

// The address on the bus of the node's counters.
const (
	ProvisionModule  = "provision"
	ProvisionObject  = "provision"
	ProvisionVersion = "0.0.1"
)

// Provision is the engine's interface on the bus. Bus:
// provision.provision@0.0.1.
type Provision interface {
	// Counters streams the deployed workloads by type: the first value at
	// once, then on change and at least every 2 s. Newest wins for a slow reader.
	Counters(ctx context.Context) <-chan workload.ProvisionCounters
}
