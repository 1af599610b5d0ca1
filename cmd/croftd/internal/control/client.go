package control

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/nodestatus"
)

// ErrNotRunning is the cause when no process serves the socket.
var ErrNotRunning = errors.New("no node is running here")

// Client is a Node that calls a running node.
type Client struct {
	socket string
	http   http.Client
}

// NewClient makes a client for the socket; it doesn't connect.
func NewClient(socket string) *Client {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{Timeout: 5 * time.Second}).DialContext(ctx, "unix", socket)
	}
	return &Client{socket: socket, http: http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}}}
}

// Status requests the node's status.
func (c *Client) Status(ctx context.Context) (nodestatus.Status, error) {
	var out nodestatus.Status
	return out, c.call(ctx, http.MethodGet, pathStatus, nil, &out)
}

// Evict ends a workload.
func (c *Client) Evict(ctx context.Context, id string) error {
	return c.call(ctx, http.MethodPost, pathEvict, evictRequest{ID: id}, nil)
}

// AcceptOlder makes the node accept reservations from before the store's birth.
func (c *Client) AcceptOlder(ctx context.Context) error {
	return c.call(ctx, http.MethodPost, pathAcceptOlder, nil, nil)
}

// RefuseOlder makes the node refuse reservations from before the store's birth.
func (c *Client) RefuseOlder(ctx context.Context) error {
	return c.call(ctx, http.MethodPost, pathRefuseOlder, nil, nil)
}

// Restored gives the store a new birth.
func (c *Client) Restored(ctx context.Context) error {
	return c.call(ctx, http.MethodPost, pathRestored, nil, nil)
}

func (c *Client) call(ctx context.Context, method, path string, in, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return errors.Wrap(err, "cannot ask the node")
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://croftd"+path, bytes.NewReader(body))
	if err != nil {
		return errors.Wrap(err, "cannot ask the node")
	}
	resp, err := c.http.Do(req)
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "dial" {
		return errors.Wrapf(ErrNotRunning, "cannot open %s (%s)", c.socket, op.Err)
	}
	if err != nil {
		return errors.Wrap(err, "cannot ask the node")
	}
	defer resp.Body.Close()
	return read(resp, out)
}

func read(resp *http.Response, out any) error {
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		return errors.Wrap(err, "cannot read the node's answer")
	}
	if resp.StatusCode != http.StatusOK {
		var f failure
		if err := json.Unmarshal(raw, &f); err != nil || !f.Kind.Known() {
			return errors.Errorf("cannot read the node's answer: %s", resp.Status)
		}
		return node.Errorf(f.Kind, "%s", f.Error)
	}
	if out == nil {
		return nil
	}
	return errors.Wrap(json.Unmarshal(raw, out), "cannot read the node's answer")
}
