package provision

import (
	"context"

	"github.com/croft-edge/croft/provision/provisioner/container"
	"github.com/croft-edge/croft/provision/store"
)

// OwnersFor is what an engine made by New asks.
func OwnersFor(ctx context.Context, records store.Records) container.Owners {
	return ownersFor(ctx, records)
}
