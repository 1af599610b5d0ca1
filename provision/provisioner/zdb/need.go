package zdb

import (
	"context"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
)

// Containers is what a zdb container needs of the container module.
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

// Storage is what it needs of the storage module.
type Storage interface {
	CreateFilesystem(ctx context.Context, spec node.FilesystemSpec) (node.Filesystem, error)
	ReleaseFilesystem(ctx context.Context, name string) error
	ResizeFilesystem(ctx context.Context, name string, size uint64) (node.Filesystem, error)
	InspectFilesystem(ctx context.Context, name string) (node.Filesystem, error)
	ListFilesystems(ctx context.Context) ([]node.Filesystem, error)
	Status(ctx context.Context) (node.StorageStatus, error)
}

// Namespaces is what it needs of the zdb module.
type Namespaces interface {
	Attach(ctx context.Context, spec node.ZDBServerSpec) (node.ZDBServer, error)
	Detach(ctx context.Context, container string) error
	Servers(ctx context.Context) ([]node.ZDBServer, error)
	Create(ctx context.Context, spec node.ZDBNamespaceSpec) (node.ZDBNamespace, error)
	Delete(ctx context.Context, container, name string) error
	List(ctx context.Context, container string) ([]node.ZDBNamespace, error)
}

// Identity opens what was sealed to the node.
type Identity interface {
	Decrypt(ctx context.Context, box []byte) ([]byte, error)
}

// Homes tells of the node's own records in which zdb containers the namespaces live.
type Homes interface {
	workload.ZDBMapping
	// All returns those of all that are known, by the namespace's reservation.
	All() (map[string]Home, error)
	// Was reports whether its user was told that it is there: then it lives
	// somewhere, whether or not Get knows where.
	Was(namespace string) (bool, error)
}

// Home is where a namespace lives.
type Home struct {
	Container   string
	Reservation *workload.Reservation
}
