package node

import (
	"context"

	"github.com/croft-edge/croft/pkg/workload"
)

// Where the modules of the other workload types are found on the bus.
const (
	FlistModule  = "flist"
	FlistObject  = "flist"
	FlistVersion = "0.1.0"

	VMModule  = "vmd"
	VMObject  = "manager"
	VMVersion = "0.1.0"

	ZDBModule  = "zdbd"
	ZDBObject  = "namespace"
	ZDBVersion = "0.1.0"
)

// FlistSpec asks for an flist's root file system.
type FlistSpec struct {
	// Name labels the mount: the reservation's ID.
	Name string
	// URL is the flist's, Storage that of the store its blocks lie in.
	URL     string
	Storage string
	// Size is that of the writable layer in bytes; 0 mounts read-only.
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
	// Unmount takes it away with its writable layer. NotExist when there is none.
	Unmount(name string) error
	// List returns all mounts.
	List() ([]FlistMount, error)
}

// VMDisk is a disk of a VM, in boot order.
type VMDisk struct {
	Path     string
	ReadOnly bool
}

// VMSpec asks for a virtual machine.
type VMSpec struct {
	Name string
	// CPU is in cores, Memory in bytes.
	CPU       uint64
	Memory    uint64
	Kernel    string
	Initrd    string
	Arguments string
	Disks     []VMDisk
	// Tap names the device made by the network module.
	Tap string
}

// VMInfo is what is known of a VM.
type VMInfo struct {
	Name  string
	State string
	PID   uint64
	// Accelerator is "kvm" or "tcg".
	Accelerator string
}

// VMs runs virtual machines. Bus: vmd.manager@0.1.0.
type VMs interface {
	// Run starts it, or returns the one of that name.
	Run(spec VMSpec) (VMInfo, error)
	// Inspect returns it. NotExist when there is none.
	Inspect(name string) (VMInfo, error)
	// Delete shuts it down and removes it; its disks stay. NotExist when there is none.
	Delete(name string) error
	// List returns all that carry croft's label.
	List() ([]VMInfo, error)
}

// ZDBServerSpec tells of a zdb container that runs.
type ZDBServerSpec struct {
	// Container is its ID, Mode that of all its namespaces, Data the path on the
	// node of the volume that it keeps them on, where its sockets lie too.
	Container string
	Mode      workload.ZDBMode
	Data      string
}

// ZDBServer is a zdb container that the module has in hand.
type ZDBServer struct {
	Container string
	Mode      workload.ZDBMode
	Data      string
	// IPv4 and IPv6 are the node's own addresses at which its Port answers from
	// outside; empty where the node has none.
	IPv4 string
	IPv6 string
	Port uint16
	// Namespaces counts those of reservations.
	Namespaces uint64
	// Drift says what of it isn't as it should be, empty when all is: Attach
	// makes it right.
	Drift string
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
	// Hash is the reservation's, AdoptUnlabelled whether one that was made
	// without a hash is its too: see Claim.
	Hash            string
	AdoptUnlabelled bool
}

// ZDBNamespace is a namespace in a zdb container.
type ZDBNamespace struct {
	Container string
	Name      string
	Mode      workload.ZDBMode
	// Size is its limit, Used the live values, Disk what it takes of the volume;
	// bytes.
	Size   uint64
	Used   uint64
	Disk   uint64
	Public bool
	// Protected is whether it has a password.
	Protected bool
	// Hash is that of the reservation that it belongs to (see Claim), empty when
	// it belongs to none or was made by a croft that wrote none.
	Hash string
}

// ZDBNamespaces manages zdb containers' ports, and namespaces through the
// containers' admin sockets. Bus: zdbd.namespace@0.1.0.
type ZDBNamespaces interface {
	// Attach takes a zdb container that runs in hand: it gets a port of the node,
	// which it keeps until Detach. What is in hand is made right. Transient while
	// the zdb doesn't answer, Exist when it is of another mode, NoSpace when no port
	// is free, Busy while the one that it keeps is somebody else's.
	Attach(spec ZDBServerSpec) (ZDBServer, error)
	// Detach lets go of it and gives back its port. NotExist when it isn't in hand.
	Detach(container string) error
	// Servers returns all that are in hand.
	Servers() ([]ZDBServer, error)
	// Create makes it, or sets what differs on the one of that name. NotExist
	// when the container isn't in hand, Exist when the one of that name is of another
	// mode, or is another's: then it isn't touched.
	Create(spec ZDBNamespaceSpec) (ZDBNamespace, error)
	// Delete removes it with its data. NotExist when there is none.
	Delete(container, name string) error
	// Inspect returns it. NotExist when there is none.
	Inspect(container, name string) (ZDBNamespace, error)
	// List returns all namespaces of a container, but for its default one; those
	// of all containers in hand when container is empty.
	List(container string) ([]ZDBNamespace, error)
}

// Where the node's counters are found on the bus.
const (
	ProvisionModule  = "provision"
	ProvisionObject  = "provision"
	ProvisionVersion = "0.0.1"
)

// Provision is all that the engine shows on the bus. Bus:
// provision.provision@0.0.1.
type Provision interface {
	// Counters streams the deployed workloads by type: the first value at
	// once, then on change and at least every 2 s. Newest wins for a slow reader.
	Counters(ctx context.Context) <-chan workload.ProvisionCounters
}
