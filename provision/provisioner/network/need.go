package network

import (
	"context"

	"github.com/croft-edge/croft/pkg/node"
)

// Networks is the part of the network module that a network needs.
type Networks interface {
	Create(ctx context.Context, spec node.NetworkSpec) (node.NetworkInfo, error)
	Delete(ctx context.Context, id string) error
	List(ctx context.Context) ([]node.NetworkInfo, error)
}

// Inspector is the part of the network module that looks at some networks alone.
type Inspector interface {
	Inspect(ctx context.Context, labels []string) ([]node.NetworkInfo, error)
}
