package talk

import (
	"io"
	"net"

	"github.com/hashicorp/yamux"
	"github.com/pkg/errors"
)

// Tunnel carries many connections over one that a hidden node keeps open.
type Tunnel struct{ session *yamux.Session }

// NodeTunnel is the node's side: it accepts.
func NodeTunnel(conn net.Conn) (*Tunnel, error) { return tunnel(conn, yamux.Server) }

// ExplorerTunnel is the explorer's side: it opens.
func ExplorerTunnel(conn net.Conn) (*Tunnel, error) { return tunnel(conn, yamux.Client) }

func tunnel(conn net.Conn, side func(io.ReadWriteCloser, *yamux.Config) (*yamux.Session, error)) (*Tunnel, error) {
	config := yamux.DefaultConfig()
	config.AcceptBacklog = 64
	config.KeepAliveInterval = Beat
	config.ConnectionWriteTimeout = 2 * Beat
	config.StreamOpenTimeout = 2 * Beat
	config.StreamCloseTimeout = 4 * Beat
	config.LogOutput = io.Discard
	session, err := side(conn, config)
	if err != nil {
		return nil, errors.Wrap(err, "cannot open tunnel")
	}
	return &Tunnel{session}, nil
}

// Accept waits for the next connection.
func (t *Tunnel) Accept() (net.Conn, error) { return t.session.AcceptStream() }

// Open opens a connection to the other side.
func (t *Tunnel) Open() (net.Conn, error) {
	stream, err := t.session.OpenStream()
	if err != nil {
		return nil, errors.Wrap(err, "cannot open a connection through the tunnel")
	}
	return stream, nil
}

// Done is closed when the tunnel is.
func (t *Tunnel) Done() <-chan struct{} { return t.session.CloseChan() }

// Close closes it with all its connections.
func (t *Tunnel) Close() error { return t.session.Close() }
