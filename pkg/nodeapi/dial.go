package nodeapi

import (
	"bufio"
	"context"
	"crypto/tls"
	"net"
	"time"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/sign"
)

// directTimeout is how long a node's own address may take to answer before the
// tunnel is tried, lastTimeout how long the last way may take: the tunnel, or the
// address where there is no tunnel.
const (
	directTimeout = 3 * time.Second
	lastTimeout   = 20 * time.Second
)

// Dialer connects one user to one node.
type Dialer struct {
	// Node is the node's ID, User the key that signs.
	Node string
	User sign.KeyPair
	// Address is the address that the node announces (HOST:PORT), or empty. The
	// other side has to show the node's key, so a wrong one costs time only.
	Address string
	// Tunnel opens a connection through the explorer, or is nil. The explorer sees
	// the traffic, and can't read it.
	Tunnel func(ctx context.Context) (net.Conn, error)
	// Now is the user's clock (nil: time.Now).
	Now func() time.Time
	// Pulse is for streams.
	Pulse Pulse
}

// Conn is a connection to a node that has shown its key. Only one goroutine at a
// time may use it, and none after an exec or a stream.
type Conn struct {
	dialer  Dialer
	conn    *tls.Conn
	reader  *bufio.Reader
	binding []byte
	// offset is how far the node's clock is ahead.
	offset time.Duration
	// Tunnelled is whether it goes through the explorer.
	Tunnelled bool
}

// Dial connects to the node: at its address, else through the tunnel. Refused
// when somebody else answers at all of them; Transient when nobody does.
func (d Dialer) Dial(ctx context.Context) (*Conn, error) {
	if d.Now == nil {
		d.Now = time.Now
	}
	if d.Address == "" && d.Tunnel == nil {
		return nil, node.Errorf(node.Transient, "cannot reach node %s: it has no address, and there is no explorer to reach it through", d.Node)
	}
	var direct error
	if d.Address != "" {
		var c *Conn
		within := directTimeout
		if d.Tunnel == nil {
			within = lastTimeout
		}
		if c, direct = d.try(ctx, within, d.direct); direct == nil || d.Tunnel == nil || ctx.Err() != nil {
			return c, direct
		}
	}
	c, err := d.try(ctx, lastTimeout, d.Tunnel)
	if err != nil {
		if direct != nil {
			return nil, node.Errorf(node.KindOf(err), "%w (and before, at %s: %w)", err, d.Address, direct)
		}
		return nil, err
	}
	c.Tunnelled = true
	return c, nil
}

func (d Dialer) direct(ctx context.Context) (net.Conn, error) {
	conn, err := (&net.Dialer{KeepAlive: Beat}).DialContext(ctx, "tcp", d.Address)
	return conn, node.WithKind(node.Transient, errors.Wrapf(err, "cannot reach node %s", d.Node))
}

// try opens a connection and has the other side show the node's key.
func (d Dialer) try(ctx context.Context, within time.Duration, open func(context.Context) (net.Conn, error)) (*Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	config, err := ClientConfig(d.Node)
	if err != nil {
		return nil, err
	}
	raw, err := open(ctx)
	if err != nil {
		return nil, err
	}
	c := &Conn{dialer: d, conn: tls.Client(raw, config)}
	if err := c.shake(ctx); err != nil {
		_ = raw.Close()
		return nil, err
	}
	c.reader = bufio.NewReader(c.conn)
	return c, nil
}

func (c *Conn) shake(ctx context.Context) error {
	if err := c.conn.HandshakeContext(ctx); err != nil {
		if errors.Is(err, node.Refused) {
			return err
		}
		return node.WithKind(node.Transient, errors.Wrapf(err, "cannot reach node %s", c.dialer.Node))
	}
	state := c.conn.ConnectionState()
	var err error
	c.binding, err = Binding(&state)
	return err
}

// Close hangs up.
func (c *Conn) Close() error { return c.conn.Close() }
