package network

import (
	"context"

	"github.com/croft-edge/croft/pkg/node"
)

// Networks is what a network needs of the network module.
type Networks interface {
	Create(ctx context.Context, spec node.NetworkSpec) (node.NetworkInfo, error)
	Delete(ctx context.Context, id string) error
	List(ctx context.Context) ([]node.NetworkInfo, error)
}

// Identity opens what was sealed to the node.
type Identity interface {
	Decrypt(ctx context.Context, box []byte) ([]byte, error)
}
