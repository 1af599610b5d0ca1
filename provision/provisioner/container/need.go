package container

import (
	"context"

	"github.com/croft-edge/croft/pkg/node"
)

// Containers is what a container needs of the container module.
type Containers interface {
	Create(ctx context.Context, spec node.ContainerSpec) (node.ContainerInfo, error)
	Start(ctx context.Context, id string) (node.ContainerInfo, error)
	Delete(ctx context.Context, id string) error
	Inspect(ctx context.Context, id string) (node.ContainerInfo, error)
	List(ctx context.Context) ([]node.ContainerInfo, error)
}

// Images is what it needs of the module's images.
type Images interface {
	Pull(ctx context.Context, spec node.ImageSpec) (node.Image, error)
	Inspect(ctx context.Context, label string) (node.Image, error)
	Release(ctx context.Context, label string) error
	List(ctx context.Context) ([]node.Image, error)
}

// Networks is what it needs of the network module.
type Networks interface {
	Gateway(ctx context.Context, id string) (string, error)
	Join(ctx context.Context, spec node.MemberSpec) (node.Member, error)
	Leave(ctx context.Context, network, member string) error
	List(ctx context.Context) ([]node.NetworkInfo, error)
}

// Storage is what it needs of the storage module.
type Storage interface {
	CreateFilesystem(ctx context.Context, spec node.FilesystemSpec) (node.Filesystem, error)
	ReleaseFilesystem(ctx context.Context, name string) error
	InspectFilesystem(ctx context.Context, name string) (node.Filesystem, error)
	ListFilesystems(ctx context.Context) ([]node.Filesystem, error)
	Status(ctx context.Context) (node.StorageStatus, error)
}

// Identity opens what was sealed to the node.
type Identity interface {
	Decrypt(ctx context.Context, box []byte) ([]byte, error)
}

// Owners tells of the node's own records whose workloads are here.
type Owners interface {
	// OwnerOf returns the user of a reservation that is on this node, or is
	// about to be. NotExist when there is none.
	OwnerOf(reservationID string) (string, error)
	// HasNetwork reports the same of a user's network.
	HasNetwork(user, name string) (bool, error)
}
