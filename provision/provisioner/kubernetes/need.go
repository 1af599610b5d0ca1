package kubernetes

import (
	"context"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/provision/provisioner/reference"
)

// VMs is the part of the vm module that a Kubernetes VM needs.
type VMs interface {
	Run(ctx context.Context, spec node.VMSpec) (node.VMInfo, error)
	Inspect(ctx context.Context, id string) (node.VMInfo, error)
	Delete(ctx context.Context, id string) error
	List(ctx context.Context) ([]node.VMInfo, error)
}

// Disks is the part of the storage module that it needs.
type Disks interface {
	Allocate(ctx context.Context, spec node.VDiskSpec) (node.VDisk, error)
	Deallocate(ctx context.Context, name string) error
	Inspect(ctx context.Context, name string) (node.VDisk, error)
	List(ctx context.Context) ([]node.VDisk, error)
}

// Taps is the part of the network module that it needs.
type Taps interface {
	Setup(ctx context.Context, spec node.TapSpec) (node.Tap, error)
	Remove(ctx context.Context, vm string) error
	List(ctx context.Context) ([]node.Tap, error)
}

// Networks finds the VM's network.
type Networks interface {
	reference.Gateways
	Subnet(ctx context.Context, id string) (string, error)
}

// Records is the node's own records.
type Records interface {
	reference.Networks
	// WasDeployed reports whether the workload of that ID was ever deployed: then its disk has data.
	WasDeployed(reservationID string) (bool, error)
}

// Images is the part of the vm module that has the image that VMs boot.
type Images interface {
	// Current returns it. NotExist when the node is given none, Transient while it isn't there yet.
	Current(ctx context.Context) (node.VMImage, error)
}
