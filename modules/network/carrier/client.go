package carrier

import (
	"context"

	"github.com/croft-edge/croft/modules/network/wireguard"
	"github.com/croft-edge/croft/pkg/carrier"
	"github.com/croft-edge/croft/pkg/node"
)

// Config configures Ensure.
type Config = carrier.Config

// Client speaks to one carrier process; see carrier.Client.
type Client struct{ *carrier.Client }

// Ensure returns a client of the running carrier, or starts one. Several at
// the same time, also of several processes, start one. A carrier of another
// protocol is replaced: its links stay. node.Transient when none answers in time.
func Ensure(ctx context.Context, c Config) (*Client, error) {
	client, err := carrier.Ensure(ctx, kind(), c, func(i Info) (bool, error) { return i.Protocol == protocol, nil })
	if err != nil {
		return nil, err
	}
	return &Client{client}, nil
}

// End ends the carrier of a run folder, if there is one. Its links stay.
func End(ctx context.Context, runDir string) error { return carrier.End(ctx, kind(), runDir) }

// SetDevice makes or changes a device; see wireguard.Backend.
func (c *Client) SetDevice(ctx context.Context, id string, config wireguard.Config) error {
	return c.change(ctx, opSetDevice, deviceRequest{ID: id, Device: &config})
}

// RemoveDevice removes a device and its link. NotExist when there is none.
func (c *Client) RemoveDevice(ctx context.Context, id string) error {
	return c.change(ctx, opRemoveDevice, idRequest{ID: id})
}

// Devices are all devices.
func (c *Client) Devices(ctx context.Context) ([]wireguard.Status, error) {
	answer, err := carrier.Ask[devicesAnswer](ctx, c.Client, opDevices, idRequest{})
	return answer.Devices, err
}

// Device is the one of that ID. NotExist when there is none. Carriers of older
// versions of croft answer with all devices.
func (c *Client) Device(ctx context.Context, id string) (wireguard.Status, error) {
	answer, err := carrier.Ask[devicesAnswer](ctx, c.Client, opDevices, idRequest{ID: id})
	if err != nil {
		return wireguard.Status{}, err
	}
	for _, d := range answer.Devices {
		if d.ID == id {
			return d, nil
		}
	}
	return wireguard.Status{}, node.Errorf(node.NotExist, "cannot look at device %s: there is none", id)
}

// SetZone makes or changes the DNS of a network.
func (c *Client) SetZone(ctx context.Context, z Zone) error {
	return c.change(ctx, opSetZone, zoneRequest{Zone: &z})
}

// RemoveZone removes the DNS of a network. NotExist when there is none.
func (c *Client) RemoveZone(ctx context.Context, id string) error {
	return c.change(ctx, opRemoveZone, idRequest{ID: id})
}

// Zones are those of all networks.
func (c *Client) Zones(ctx context.Context) ([]ZoneStatus, error) {
	answer, err := carrier.Ask[zonesAnswer](ctx, c.Client, opZones, idRequest{})
	return answer.Zones, err
}

// Zone is the one of that ID; none when there is none. Carriers of older versions of croft refuse to be asked for one, and
// answer with all zones.
func (c *Client) Zone(ctx context.Context, id string) ([]ZoneStatus, error) {
	answer, err := carrier.Ask[zonesAnswer](ctx, c.Client, opZones, idRequest{ID: id})
	if node.KindOf(err) == node.Invalid {
		return c.Zones(ctx)
	}
	return answer.Zones, err
}

// Info asks the carrier about itself.
func (c *Client) Info(ctx context.Context) (Info, error) { return carrier.AskInfo[Info](ctx, c.Client) }

// change makes a request whose answer has no document.
func (c *Client) change(ctx context.Context, op string, request any) error {
	_, err := carrier.Ask[carrier.Nothing](ctx, c.Client, op, request)
	return err
}
