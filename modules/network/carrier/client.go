package carrier

import (
	"context"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/modules/network/wireguard"
	"github.com/croft-edge/croft/pkg/carrier"
	"github.com/croft-edge/croft/pkg/cgroup"
	"github.com/croft-edge/croft/pkg/node"
)

// Client speaks to one carrier process. When that has ended, Done is closed
// and all calls are node.Transient: Ensure gives another one.
//
// Errors have the kinds of what was asked; node.Transient when it certainly
// didn't happen, node.Unknown when it may have.
type Client struct {
	dir     carrier.Folder
	process *carrier.Process
}

// PID is the carrier's process ID.
func (c *Client) PID() int { return c.process.PID() }

// Done is closed when the process has ended.
func (c *Client) Done() <-chan struct{} { return c.process.Done() }

// Close lets go of what the client watches the process with. The carrier goes on.
func (c *Client) Close() { c.process.Close() }

// SetDevice makes or changes a device; see wireguard.Backend.
func (c *Client) SetDevice(ctx context.Context, id string, config wireguard.Config) error {
	_, err := c.call(ctx, request{Op: opSetDevice, ID: id, Device: &config})
	return err
}

// RemoveDevice removes a device and its link. NotExist when there is none.
func (c *Client) RemoveDevice(ctx context.Context, id string) error {
	_, err := c.call(ctx, request{Op: opRemoveDevice, ID: id})
	return err
}

// Devices are all devices.
func (c *Client) Devices(ctx context.Context) ([]wireguard.Status, error) {
	r, err := c.call(ctx, request{Op: opDevices})
	return r.Devices, err
}

// Device is the one of that ID. NotExist when there is none. A carrier of
// before this was asked for tells all of them.
func (c *Client) Device(ctx context.Context, id string) (wireguard.Status, error) {
	r, err := c.call(ctx, request{Op: opDevices, ID: id})
	if err != nil {
		return wireguard.Status{}, err
	}
	for _, d := range r.Devices {
		if d.ID == id {
			return d, nil
		}
	}
	return wireguard.Status{}, node.Errorf(node.NotExist, "cannot look at device %s: there is none", id)
}

// SetZone makes or changes the DNS of a network.
func (c *Client) SetZone(ctx context.Context, z Zone) error {
	_, err := c.call(ctx, request{Op: opSetZone, Zone: &z})
	return err
}

// RemoveZone removes the DNS of a network. NotExist when there is none.
func (c *Client) RemoveZone(ctx context.Context, id string) error {
	_, err := c.call(ctx, request{Op: opRemoveZone, ID: id})
	return err
}

// Zones are those of all networks.
func (c *Client) Zones(ctx context.Context) ([]ZoneStatus, error) {
	r, err := c.call(ctx, request{Op: opZones})
	return r.Zones, err
}

// Info is what the carrier says of itself.
func (c *Client) Info(ctx context.Context) (Info, error) {
	r, err := c.call(ctx, request{Op: opInfo})
	if err == nil && r.Info == nil {
		err = node.Errorf(node.Internal, "cannot ask the carrier: its answer says nothing")
	}
	if err != nil {
		return Info{}, err
	}
	return *r.Info, nil
}

// Stop ends the carrier and returns when it has ended. Links stay; devices
// that have to go with theirs are removed before.
func (c *Client) Stop(ctx context.Context) error {
	group := cgroup.Of(c.PID(), c.dir.Group())
	if _, err := c.call(ctx, request{Op: opStop}); err != nil && !errors.Is(err, node.Transient) {
		return err
	}
	select {
	case <-c.Done():
		group.Remove()
		return nil
	case <-ctx.Done():
		return node.Errorf(node.Unknown, "cannot wait for the carrier %d to end: %w", c.PID(), ctx.Err())
	}
}

// call asks one thing. Another process behind the socket isn't asked.
func (c *Client) call(ctx context.Context, r request) (response, error) {
	answer, pid, err := call(ctx, c.dir, r, c.PID())
	if err == nil && pid != c.PID() {
		err = node.Errorf(node.Transient, "cannot ask the carrier %d: it has ended", c.PID())
	}
	return answer, err
}

// call asks whoever serves the socket, and says who that is. Unless that is
// only, when it isn't 0, nothing is asked.
func call(ctx context.Context, dir carrier.Folder, r request, only int) (answer response, pid int, err error) {
	r.Version = protocol
	pid, err = carrier.Call{Socket: dir.Socket(), What: r.Op, Request: r, MaxRequest: maxRequest, MaxAnswer: maxResponse, Only: only}.Do(ctx, &answer)
	if err == nil {
		err = answer.Error.Err()
	}
	return answer, pid, err
}
