package tunnel

import (
	"context"

	"github.com/croft-edge/croft/modules/network/carrier"
	"github.com/croft-edge/croft/modules/network/wireguard"
)

// userspace is the carrier as a backend.
type userspace struct{ carrier *carrier.Client }

// Name implements wireguard.Backend.
func (userspace) Name() string { return wireguard.UserspaceName }

// Set implements wireguard.Backend.
func (u userspace) Set(ctx context.Context, id string, c wireguard.Config) error {
	return u.carrier.SetDevice(ctx, id, c)
}

// Remove implements wireguard.Backend.
func (u userspace) Remove(ctx context.Context, id string) error {
	return u.carrier.RemoveDevice(ctx, id)
}

// Get implements wireguard.Backend.
func (u userspace) Get(ctx context.Context, id string) (wireguard.Status, error) {
	return u.carrier.Device(ctx, id)
}

// List implements wireguard.Backend.
func (u userspace) List(ctx context.Context) ([]wireguard.Status, error) {
	return u.carrier.Devices(ctx)
}
