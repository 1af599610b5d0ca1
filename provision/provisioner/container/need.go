package container

import (
	"context"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
)

// Containers is what a container needs of the container module.
type Containers interface {
	Create(ctx context.Context, spec node.ContainerSpec) (node.ContainerInfo, error)
	Start(ctx context.Context, id string) (node.ContainerInfo, error)
	Delete(ctx context.Context, id string) error
	Inspect(ctx context.Context, id string) (node.ContainerInfo, error)
	List(ctx context.Context) ([]node.ContainerInfo, error)
	Logs(ctx context.Context, id string, lines uint64) ([]node.LogLine, error)
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

// Owner is what the node's own records say of a reservation.
type Owner struct {
	User string
	Type workload.Type
	// Hash is what its user signed.
	Hash workload.Hash
}

// Presence is how far a network is on this node.
type Presence int

// The presences.
const (
	// Absent: there is none, and none is about to be.
	Absent Presence = iota
	// Coming: it isn't provisioned yet.
	Coming
	// Accepted: it was provisioned.
	Accepted
)

// Owners tells of the node's own records whose workloads are here.
type Owners interface {
	// Owner returns whose a reservation is that is on this node, or is about to
	// be. NotExist when there is none.
	Owner(reservationID string) (Owner, error)
	// HasNetwork tells how far a user's network of that name is on this node.
	// With a hash other than zero it tells that of the network's reservation of
	// that hash: one that was provisioned stays Accepted after the network was
	// updated or deleted, for as long as the node remembers it.
	HasNetwork(user, name string, hash workload.Hash) (Presence, error)
}
