package debug

import (
	"context"

	"github.com/croft-edge/croft/pkg/node"
)

// Streams is the part of the debug module that a stream of log lines needs.
type Streams interface {
	Start(ctx context.Context, spec node.DebugSpec) (node.DebugInfo, error)
	Stop(ctx context.Context, id string) error
	List(ctx context.Context) ([]node.DebugInfo, error)
}
