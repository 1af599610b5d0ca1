package container

import (
	"context"

	"github.com/croft-edge/croft/pkg/node"
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
