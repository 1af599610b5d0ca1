package explorer

import (
	"context"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/croft-edge/croft/pkg/node"
)

// TunnelUpgrade is the protocol of a tunnel's connection, and of one through it.
const TunnelUpgrade = "croft-tunnel"

// TunnelClient opens tunnels and connections through them.
type TunnelClient struct{ connection *connection }

// OpenTunnel offers to take connections for the node; the client's signer must
// be it. What comes of it is the connection that the explorer opens them on.
func (c TunnelClient) OpenTunnel(ctx context.Context, nodeID string) (net.Conn, error) {
	return c.upgrade(ctx, call{what: "open a tunnel", method: http.MethodGet, path: nodePath(nodeID, "/tunnel"), signed: true})
}

// ConnectNode opens a connection to a node that has a tunnel open; the client's
// signer must be a user. Transient when it has none.
func (c TunnelClient) ConnectNode(ctx context.Context, nodeID string) (net.Conn, error) {
	return c.upgrade(ctx, call{what: "reach node " + nodeID, method: http.MethodGet, path: nodePath(nodeID, "/connect"), signed: true})
}

// upgrade sends a signed request that switches protocols.
func (c TunnelClient) upgrade(ctx context.Context, k call) (net.Conn, error) {
	k.upgrade = TunnelUpgrade
	a, err := c.connection.do(ctx, k)
	if err != nil {
		return nil, err
	}
	if a.stream == nil {
		return nil, garbage(k.what, "it doesn't switch protocols")
	}
	return &hose{ReadWriteCloser: a.stream}, nil
}

// hose makes a net.Conn of what an HTTP client hands over. That has no
// deadlines: one that passes closes it, which is what its users do next.
type hose struct {
	io.ReadWriteCloser

	mu          sync.Mutex
	read, write *time.Timer
	late        bool
}

// Read implements net.Conn.
func (h *hose) Read(p []byte) (int, error) {
	n, err := h.ReadWriteCloser.Read(p)
	return n, h.why(err)
}

// Write implements net.Conn.
func (h *hose) Write(p []byte) (int, error) {
	n, err := h.ReadWriteCloser.Write(p)
	return n, h.why(err)
}

func (h *hose) why(err error) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err != nil && err != io.EOF && h.late { //nolint:errorlint // a reader's, bare
		return node.WithKind(node.Transient, context.DeadlineExceeded)
	}
	return err
}

// Close implements net.Conn.
func (h *hose) Close() error {
	_ = h.SetDeadline(time.Time{})
	return h.ReadWriteCloser.Close()
}

// LocalAddr implements net.Conn.
func (h *hose) LocalAddr() net.Addr { return hoseAddress{} }

// RemoteAddr implements net.Conn.
func (h *hose) RemoteAddr() net.Addr { return hoseAddress{} }

type hoseAddress struct{}

func (hoseAddress) Network() string { return "tunnel" }
func (hoseAddress) String() string  { return "explorer" }

// SetDeadline implements net.Conn.
func (h *hose) SetDeadline(t time.Time) error {
	_ = h.SetReadDeadline(t)
	return h.SetWriteDeadline(t)
}

// SetReadDeadline implements net.Conn.
func (h *hose) SetReadDeadline(t time.Time) error { return h.set(&h.read, t) }

// SetWriteDeadline implements net.Conn.
func (h *hose) SetWriteDeadline(t time.Time) error { return h.set(&h.write, t) }

func (h *hose) set(timer **time.Timer, t time.Time) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if *timer != nil {
		(*timer).Stop()
		*timer = nil
	}
	if !t.IsZero() {
		*timer = time.AfterFunc(time.Until(t), h.expire)
	}
	return nil
}

func (h *hose) expire() {
	h.mu.Lock()
	h.late = true
	h.mu.Unlock()
	_ = h.ReadWriteCloser.Close()
}
