package front

import (
	"net"
	"sync"
)

// inlet is a net.Listener of connections that are handed over.
type inlet struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newInlet() *inlet {
	return &inlet{conns: make(chan net.Conn), closed: make(chan struct{})}
}

func (i *inlet) put(conn net.Conn) {
	select {
	case i.conns <- conn:
	case <-i.closed:
		_ = conn.Close()
	}
}

// Accept implements net.Listener.
func (i *inlet) Accept() (net.Conn, error) {
	select {
	case conn := <-i.conns:
		return tunnelled{conn}, nil
	case <-i.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (i *inlet) Close() error {
	i.once.Do(func() { close(i.closed) })
	return nil
}

// Addr implements net.Listener.
func (i *inlet) Addr() net.Addr { return tunnelAddress{} }

// tunnelled is a connection whose remote address only the explorer knows.
type tunnelled struct{ net.Conn }

func (tunnelled) RemoteAddr() net.Addr { return tunnelAddress{} }

type tunnelAddress struct{}

func (tunnelAddress) Network() string { return "tunnel" }
func (tunnelAddress) String() string  { return "tunnel" }
