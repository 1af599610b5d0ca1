package volume

import (
	"context"

	"github.com/croft-edge/croft/pkg/node"
)

// Storage is what a volume needs of the storage module.
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
