package container

import (
	"context"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
)

// Containers is the part of the container module that a container needs.
type Containers interface {
	Create(ctx context.Context, spec node.ContainerSpec) (node.ContainerInfo, error)
	Start(ctx context.Context, id string) (node.ContainerInfo, error)
	Delete(ctx context.Context, id string) error
	Inspect(ctx context.Context, id string) (node.ContainerInfo, error)
	List(ctx context.Context) ([]node.ContainerInfo, error)
	Logs(ctx context.Context, id string, lines uint64) ([]node.LogLine, error)
}

// Images is the part of the image API that a container needs.
type Images interface {
	Pull(ctx context.Context, spec node.ImageSpec) (node.Image, error)
	Inspect(ctx context.Context, label string) (node.Image, error)
	Release(ctx context.Context, label string) error
	List(ctx context.Context) ([]node.Image, error)
}

// Networks is the part of the network module that a container needs.
type Networks interface {
	Gateway(ctx context.Context, id string) (string, error)
	Join(ctx context.Context, spec node.MemberSpec) (node.Member, error)
	Leave(ctx context.Context, network, member string) error
	List(ctx context.Context) ([]node.NetworkInfo, error)
}

// Storage is the part of the storage module that a container needs.
type Storage interface {
	CreateFilesystem(ctx context.Context, spec node.FilesystemSpec) (node.Filesystem, error)
	ReleaseFilesystem(ctx context.Context, name string) error
	InspectFilesystem(ctx context.Context, name string) (node.Filesystem, error)
	ListFilesystems(ctx context.Context) ([]node.Filesystem, error)
	Status(ctx context.Context) (node.StorageStatus, error)
}

// Identity opens boxes sealed to the node.
type Identity interface {
	Decrypt(ctx context.Context, box []byte) ([]byte, error)
}

// Owner is a reservation's owner by the node's own records.
type Owner struct {
	User string
	Type workload.Type
	// Hash is the hash that its user signed.
	Hash workload.Hash
}

// Presence is the state of a network on this node.
type Presence int

// The presences.
const (
	// Absent: there is none, and none is pending.
	Absent Presence = iota
	// Coming: it is reserved but not provisioned yet.
	Coming
	// Accepted: it was provisioned.
	Accepted
)

// Owners looks up the workloads' owners in the node's own records.
type Owners interface {
	// Owner returns the owner of a reservation that is on this node or pending.
	// NotExist when there is none.
	Owner(reservationID string) (Owner, error)
	// HasNetwork returns the presence of a user's network of that name. With a
	// nonzero hash it is that of the network's reservation of that hash: once
	// provisioned, a reservation stays Accepted after the network was updated or
	// deleted, for as long as the node remembers it.
	HasNetwork(user, name string, hash workload.Hash) (Presence, error)
}
