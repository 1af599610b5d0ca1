package provision

import (
	"context"

	"github.com/croft-edge/croft/provision/provisioner/zdb"
	"github.com/croft-edge/croft/provision/store"
)

// HomesFor is what Run of an engine made by New asks.
func HomesFor(ctx context.Context, records store.Records) zdb.Homes { return homesFor(ctx, records) }
