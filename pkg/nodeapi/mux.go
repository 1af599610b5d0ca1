package nodeapi

import (
	"io"
	"net"
	"os"
	"time"

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
func (t *Tunnel) Accept() (net.Conn, error) {
	stream, err := t.session.AcceptStream()
	if err != nil {
		return nil, errors.Wrap(err, "cannot take a connection of the tunnel")
	}
	return branch{stream}, nil
}

// Open opens a connection to the other side.
func (t *Tunnel) Open() (net.Conn, error) {
	stream, err := t.session.OpenStream()
	if err != nil {
		return nil, errors.Wrap(err, "cannot open a connection through the tunnel")
	}
	return branch{stream}, nil
}

// branch is a connection through a tunnel.
type branch struct{ *yamux.Stream }

// Read implements net.Conn. A passed deadline is reported as by other
// connections: TLS takes yamux' own error for the connection's end.
func (b branch) Read(p []byte) (int, error) {
	n, err := b.Stream.Read(p)
	if errors.Is(err, yamux.ErrTimeout) {
		err = os.ErrDeadlineExceeded
	}
	return n, err
}

// CloseWrite closes the sending direction: yamux' first Close does no more.
func (b branch) CloseWrite() error { return b.Stream.Close() }

// Close implements net.Conn: it ends reading, too.
func (b branch) Close() error {
	err := b.Stream.Close()
	_ = b.Stream.SetDeadline(time.Unix(1, 0))
	_ = b.Stream.Close()
	return err
}

// Done is closed when the tunnel is.
func (t *Tunnel) Done() <-chan struct{} { return t.session.CloseChan() }

// Close closes it with all its connections.
func (t *Tunnel) Close() error { return t.session.Close() }
