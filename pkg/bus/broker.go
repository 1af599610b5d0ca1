package bus

import (
	"context"
	"net"
	"sync"
	"time"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/supervise"
	"github.com/pkg/errors"
)

// maxBrokerClients is how many connections a broker holds at once.
const maxBrokerClients = 64

// Broker lets other processes of this machine use an InProcess bus. It speaks
// as much of redis' protocol as zbus clients and redis-cli need to call the
// objects that are served on the bus, and to read streams. Nobody can serve,
// publish, or take requests through it, and only its owner can connect.
type Broker struct {
	bus      *InProcess
	options  Options
	listener net.Listener
	socket   *socket

	mu      sync.Mutex
	clients map[*brokerClient]struct{}
	running sync.WaitGroup
	closed  bool
}

// ListenBroker opens a unix socket, unix:///path, that only the present user
// may use. A socket that was left behind is replaced; one that is being served
// is not, nor is a file of another kind.
func ListenBroker(b *InProcess, url string, options Options) (*Broker, error) {
	if err := options.Validate(); err != nil {
		return nil, err
	}
	e, err := parseURL(url)
	if err != nil {
		return nil, err
	}
	if e.network != "unix" || e.password != "" || e.db != 0 {
		return nil, node.Errorf(node.Invalid, "cannot listen on %s: only unix:///path is allowed", e.shown)
	}
	s, err := listenSocket(e.address)
	if err != nil {
		return nil, err
	}
	return &Broker{
		bus: b, options: options.withDefaults(), listener: s.listener, socket: s,
		clients: map[*brokerClient]struct{}{},
	}, nil
}

// Run accepts connections until ctx ends, then closes them all and the socket.
func (b *Broker) Run(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() { _ = b.Close() })
	defer stop()
	retry := newBackoff()
	for {
		conn, err := b.listener.Accept()
		if err == nil {
			retry.reset()
			b.start(conn)
			continue
		}
		if b.isClosed() {
			break
		}
		// Too many open files, for one, passes.
		if retry.first() {
			b.options.Log.Warn().Str("step", "bus").Err(err).Msg("the broker can't accept connections, trying again")
		}
		if pause(ctx, retry.next()) != nil {
			break
		}
	}
	err := b.Close()
	b.running.Wait()
	return err
}

// Close ends all connections and removes the socket.
func (b *Broker) Close() error {
	b.mu.Lock()
	if b.closed {
		b.mu.Unlock()
		return nil
	}
	b.closed = true
	for c := range b.clients {
		c.hangUp()
	}
	b.mu.Unlock()
	return errors.Wrap(b.socket.close(), "cannot close the broker's socket")
}

func (b *Broker) isClosed() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.closed
}

func (b *Broker) start(conn net.Conn) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed || len(b.clients) >= maxBrokerClients {
		_ = conn.SetWriteDeadline(time.Now().Add(time.Second))
		_, _ = conn.Write([]byte("-ERR max number of clients reached\r\n"))
		_ = conn.Close()
		return
	}
	c := newBrokerClient(b, conn)
	b.clients[c] = struct{}{}
	b.running.Go(func() {
		defer func() {
			b.mu.Lock()
			defer b.mu.Unlock()
			delete(b.clients, c)
		}()
		// Nothing that a client sends may take the node down.
		supervise.Do(b.options.Log, "bus broker", c.serve)
	})
}
