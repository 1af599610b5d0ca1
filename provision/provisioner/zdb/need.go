package zdb

import (
	"context"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
)

// Containers is the part of the container module that a zdb container needs.
type Containers interface {
	Create(ctx context.Context, spec node.ContainerSpec) (node.ContainerInfo, error)
	Start(ctx context.Context, id string) (node.ContainerInfo, error)
	Delete(ctx context.Context, id string) error
	Inspect(ctx context.Context, id string) (node.ContainerInfo, error)
	List(ctx context.Context) ([]node.ContainerInfo, error)
}

// Images is the part of the image API that a zdb container needs.
type Images interface {
	Pull(ctx context.Context, spec node.ImageSpec) (node.Image, error)
	Inspect(ctx context.Context, label string) (node.Image, error)
	Release(ctx context.Context, label string) error
	List(ctx context.Context) ([]node.Image, error)
}

// Storage is the part of the storage module that a zdb container needs.
type Storage interface {
	CreateFilesystem(ctx context.Context, spec node.FilesystemSpec) (node.Filesystem, error)
	ReleaseFilesystem(ctx context.Context, name string) error
	ResizeFilesystem(ctx context.Context, name string, size uint64) (node.Filesystem, error)
	InspectFilesystem(ctx context.Context, name string) (node.Filesystem, error)
	ListFilesystems(ctx context.Context) ([]node.Filesystem, error)
	Status(ctx context.Context) (node.StorageStatus, error)
}

// Servers is the part of the zdb module that a zdb container needs.
type Servers interface {
	Attach(ctx context.Context, spec node.ZDBServerSpec) (node.ZDBServer, error)
	Detach(ctx context.Context, container string) error
	Servers(ctx context.Context) ([]node.ZDBServer, error)
}

// Namespaces is the part of the zdb module that a namespace needs.
type Namespaces interface {
	Create(ctx context.Context, spec node.ZDBNamespaceSpec) (node.ZDBNamespace, error)
	Delete(ctx context.Context, container, name string) error
	List(ctx context.Context, container string) ([]node.ZDBNamespace, error)
}

// Homes looks up the namespaces' zdb containers in the node's own records.
type Homes interface {
	workload.ZDBMapping
	// All returns all known homes, by the ID of the namespace's reservation.
	All() (map[string]Home, error)
	// Was reports whether the user was told that the namespace exists: then some
	// zdb container has it, whether or not Get knows which.
	Was(namespace string) (bool, error)
}

// Home is the zdb container and the reservation of a namespace.
type Home struct {
	Container   string
	Reservation *workload.Reservation
	// Address is the IP address that its user was told; empty when the newest answer tells none.
	Address string
}
