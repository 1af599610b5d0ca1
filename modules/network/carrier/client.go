package carrier

import (
	"context"
	"encoding/json"
	"net"
	"os"
	"time"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/modules/network/wireguard"
	"github.com/croft-edge/croft/pkg/node"
)

// callTime bounds a call whose context has no deadline of its own.
const callTime = 30 * time.Second

// Client speaks to one carrier process. When that has ended, Done is closed
// and all calls are node.Transient: Ensure gives another one.
//
// Errors have the kinds of what was asked; node.Transient when it certainly
// didn't happen, node.Unknown when it may have.
type Client struct {
	dir     folder
	process *process
}

// PID is the carrier's process ID.
func (c *Client) PID() int { return c.process.pid }

// Done is closed when the process has ended.
func (c *Client) Done() <-chan struct{} { return c.process.done }

// Close lets go of what the client watches the process with. The carrier goes on.
func (c *Client) Close() { c.process.close() }

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
	groups := groupsOf(c.process.pid, c.dir.group())
	if _, err := c.call(ctx, request{Op: opStop}); err != nil && !errors.Is(err, node.Transient) {
		return err
	}
	select {
	case <-c.Done():
		removeGroups(groups)
		return nil
	case <-ctx.Done():
		return node.Errorf(node.Unknown, "cannot wait for the carrier %d to end: %w", c.process.pid, ctx.Err())
	}
}

// call asks one thing. Another process behind the socket isn't asked.
func (c *Client) call(ctx context.Context, r request) (response, error) {
	answer, pid, err := call(ctx, c.dir.socket(), r, c.process.pid)
	if err == nil && pid != c.process.pid {
		err = node.Errorf(node.Transient, "cannot ask the carrier %d: it has ended", c.process.pid)
	}
	return answer, err
}

// call asks whoever serves the socket, and says who that is. Unless that is
// only, when it isn't 0, nothing is asked.
func call(ctx context.Context, socket string, r request, only int) (answer response, pid int, err error) {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", socket)
	if err != nil {
		return response{}, 0, node.Errorf(node.Transient, "cannot reach the carrier: %w", err)
	}
	defer conn.Close()
	cred, err := peer(conn.(*net.UnixConn))
	if err != nil || int(cred.Uid) != os.Geteuid() && cred.Uid != 0 {
		return response{}, 0, node.Errorf(node.Refused, "cannot trust the carrier's socket: it isn't this user's")
	}
	if pid = int(cred.Pid); only != 0 && pid != only {
		return response{}, pid, nil
	}
	interrupt := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer interrupt()
	answer, err = exchange(conn, r)
	if err != nil && ctx.Err() != nil {
		err = node.Errorf(node.Unknown, "cannot wait for the carrier's answer to %s: %w", r.Op, ctx.Err())
	}
	return answer, pid, err
}

// exchange says one line and reads one.
func exchange(conn net.Conn, r request) (response, error) {
	r.Version = protocol
	line, err := json.Marshal(r)
	if err != nil {
		return response{}, node.Errorf(node.Invalid, "cannot ask the carrier for %s: %w", r.Op, err)
	}
	if len(line) >= maxRequest {
		return response{}, node.Errorf(node.Invalid, "cannot ask the carrier for %s: the request has %d bytes, %d are allowed", r.Op, len(line), maxRequest)
	}
	if _, err := conn.Write(append(line, '\n')); err != nil {
		// A carrier that refuses may answer before it has read all.
		if !errors.Is(err, unix.EPIPE) {
			return response{}, node.Errorf(node.Unknown, "cannot ask the carrier for %s: %w", r.Op, err)
		}
	}
	raw, err := readLine(conn, maxResponse)
	if err != nil {
		return response{}, node.Errorf(node.Unknown, "cannot read the carrier's answer to %s: %w", r.Op, err)
	}
	var answer response
	if err := json.Unmarshal(raw, &answer); err != nil {
		return response{}, node.Errorf(node.Unknown, "cannot read the carrier's answer to %s: %w", r.Op, err)
	}
	if f := answer.Error; f != nil {
		kind := f.Kind
		if !kind.Known() {
			kind = node.Internal
		}
		return answer, node.Errorf(kind, "%s", f.Message)
	}
	return answer, nil
}
