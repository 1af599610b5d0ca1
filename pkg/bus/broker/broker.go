package broker

import (
	"context"
	"net"
	"sync"
	"time"

	"github.com/pkg/errors"
	"github.com/rs/zerolog"
	"github.com/threefoldtech/zbus"

	"github.com/croft-edge/croft/pkg/bus/transport"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/supervise"
)

// maxClients is how many connections a broker holds at once.
const maxClients = 64

// Local is the bus of this process that others may use: a *bus.InProcess.
type Local interface {
	// Serves reports whether a server has answered the queue key.
	Serves(key string) bool
	// Push appends a frame to a queue.
	Push(ctx context.Context, key string, frame []byte, ttl time.Duration) (sent bool, err error)
	// Pop waits for the first frame of the queues keys, and returns its queue's key, too.
	Pop(ctx context.Context, keys []string) (key string, frame []byte, err error)
	// Subscribe reads a channel until ctx ends.
	Subscribe(ctx context.Context, channel string) (<-chan zbus.Event, error)
}

// Broker lets other processes of this machine use a Local bus. It speaks
// as much of redis' protocol as zbus clients and redis-cli need to call the
// objects that are served on the bus, and to read streams. Nobody can serve,
// publish, or take requests through it, and only its owner can connect.
type Broker struct {
	bus      Local
	log      zerolog.Logger
	listener net.Listener
	socket   *socket

	mu      sync.Mutex
	clients map[*client]struct{}
	running sync.WaitGroup
	closed  bool
}

// Listen opens a unix socket, unix:///path, that only the present user
// may use. It replaces a stale socket, but none that is being served
// and no file of another kind.
func Listen(bus Local, url string, log zerolog.Logger) (*Broker, error) {
	e, err := transport.ParseURL(url)
	if err != nil {
		return nil, err
	}
	if e.Network != "unix" || e.Password != "" || e.DB != 0 {
		return nil, node.Errorf(node.Invalid, "cannot listen on %s: only unix:///path is allowed", e.Shown)
	}
	s, err := listenSocket(e.Address)
	if err != nil {
		return nil, err
	}
	return &Broker{
		bus: bus, log: log, listener: s.listener, socket: s,
		clients: map[*client]struct{}{},
	}, nil
}

// Run accepts connections until ctx ends, then closes them all and the socket.
func (b *Broker) Run(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() { _ = b.Close() })
	defer stop()
	defer b.Close() // also after a panic
	retry := transport.NewBackoff()
	for {
		conn, err := b.listener.Accept()
		if err == nil {
			retry.Reset()
			b.start(conn)
			continue
		}
		if b.isClosed() {
			break
		}
		// Too many open files, for one, is temporary.
		if retry.First() {
			b.log.Warn().Str("step", "bus").Err(err).Msg("the broker cannot accept connections, trying again")
		}
		if transport.Pause(ctx, retry.Next()) != nil {
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
	if b.closed || len(b.clients) >= maxClients {
		_ = conn.SetWriteDeadline(time.Now().Add(time.Second))
		_, _ = conn.Write([]byte("-ERR max number of clients reached\r\n"))
		_ = conn.Close()
		return
	}
	c := newClient(b, conn)
	b.clients[c] = struct{}{}
	b.running.Go(func() {
		defer func() {
			b.mu.Lock()
			defer b.mu.Unlock()
			delete(b.clients, c)
		}()
		// No client may take the node down.
		supervise.Do(b.log, "bus broker", c.serve)
	})
}
