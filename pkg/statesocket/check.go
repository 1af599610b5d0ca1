package statesocket

import (
	"context"

	"github.com/cosi-project/runtime/pkg/resource"
	"github.com/cosi-project/runtime/pkg/state"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// checked has what clients create checked by the owner of the state.
type checked struct {
	state.CoreState
	check func(resource.Resource) error
}

// Create implements state.CoreState.
func (c checked) Create(ctx context.Context, r resource.Resource, opts ...state.CreateOption) error {
	if c.check != nil {
		if err := c.check(r); err != nil {
			return status.Error(codes.InvalidArgument, err.Error())
		}
	}
	return c.CoreState.Create(ctx, r, opts...)
}
