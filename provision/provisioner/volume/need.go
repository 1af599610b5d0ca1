package volume

import (
	"context"

	"github.com/croft-edge/croft/pkg/node"
)

// Storage is the part of the storage module that a volume needs.
type Storage interface {
	CreateFilesystem(ctx context.Context, spec node.FilesystemSpec) (node.Filesystem, error)
	InspectFilesystem(ctx context.Context, name string) (node.Filesystem, error)
	ReleaseFilesystem(ctx context.Context, name string) error
	ListFilesystems(ctx context.Context) ([]node.Filesystem, error)
}

// Containers tells which volumes are in use.
type Containers interface {
	List(ctx context.Context) ([]node.ContainerInfo, error)
}
