package tunnel

import (
	"net"
	"sync"

	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/nodeapi"
)

// Hub holds the nodes' tunnels.
type Hub struct {
	limits Limits
	log    zerolog.Logger
	all    sync.WaitGroup
	places places

	mu      sync.Mutex
	closed  bool
	tunnels map[string]*kept
}

// kept is a node's tunnel and its users' connections.
type kept struct {
	*nodeapi.Tunnel
	places nodePlaces
	leave  func()
}

// New makes a hub without tunnels.
func New(l Limits, log zerolog.Logger) *Hub {
	return &Hub{limits: l, log: log, places: l.places(), tunnels: map[string]*kept{}}
}

// Room reports whether the hub still accepts tunnels; see Keep.
func (h *Hub) Room() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return stopping()
	}
	return nil
}

func stopping() error {
	return node.Errorf(node.Transient, "cannot carry a connection: the explorer is stopping")
}

// Keep takes over a node's connection, which came from that source, until it ends. It doesn't
// block. It replaces the node's older tunnel. Where all places are taken, the source that has most
// of them loses its oldest, unless that is this source.
func (h *Hub) Keep(nodeID, source string, conn net.Conn) {
	t, err := nodeapi.ExplorerTunnel(conn)
	if err != nil {
		h.log.Error().Err(err).Str("node", nodeID).Msg("cannot keep a tunnel")
		_ = conn.Close()
		return
	}
	if !h.keep(nodeID, source, t) {
		_ = t.Close()
	}
}

func (h *Hub) keep(nodeID, source string, t *nodeapi.Tunnel) bool {
	h.mu.Lock()
	old := h.tunnels[nodeID]
	h.mu.Unlock()
	if old != nil {
		// The node's newest tunnel counts: the older one may be half dead.
		old.leave()
		_ = old.Close()
	}
	leave, err := h.places.tunnels.Take(source, func() { go t.Close() })
	if err != nil {
		h.log.Warn().Err(err).Str("node", nodeID).Msg("cannot keep a tunnel")
		return false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		leave()
		return false
	}
	k := &kept{Tunnel: t, places: h.limits.nodePlaces(), leave: leave}
	if other := h.tunnels[nodeID]; other != nil && other != old {
		_ = other.Close()
	}
	h.tunnels[nodeID] = k
	h.all.Go(func() {
		<-t.Done()
		leave()
		h.forget(nodeID, k)
	})
	return true
}

func (h *Hub) forget(nodeID string, k *kept) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.tunnels[nodeID] == k {
		delete(h.tunnels, nodeID)
	}
}

// Open reports how many tunnels are open, and how many connections go through them.
func (h *Hub) Open() (tunnels, connections int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.tunnels), int(h.places.owners.Total() + h.places.strangers.Total())
}

// Connect opens a connection to the node. Transient when the node has no tunnel open, Busy when the
// caller has too many connections.
func (h *Hub) Connect(nodeID string, by Caller) (*Connection, error) {
	h.mu.Lock()
	t := h.tunnels[nodeID]
	if h.closed {
		h.mu.Unlock()
		return nil, stopping()
	}
	if t == nil {
		h.mu.Unlock()
		return nil, node.Errorf(node.Transient, "cannot reach node %s: it keeps no tunnel open to this explorer now", nodeID)
	}
	h.all.Add(1)
	h.mu.Unlock()
	c := &Connection{idle: h.limits.Idle, tunnel: t.Tunnel, over: make(chan struct{})}
	leave, err := h.places.enter(t.places, by, c.end)
	if err != nil {
		h.all.Done()
		return nil, err
	}
	c.leave = sync.OnceFunc(func() { leave(); h.all.Done() })
	far, err := t.Tunnel.Open()
	if err != nil {
		c.leave()
		return nil, node.WithKind(node.Transient, err)
	}
	c.far = far
	return c, nil
}

// Close ends all tunnels and their connections, and refuses new ones.
func (h *Hub) Close() {
	h.mu.Lock()
	h.closed = true
	for _, t := range h.tunnels {
		_ = t.Close()
	}
	h.mu.Unlock()
	h.all.Wait()
}
