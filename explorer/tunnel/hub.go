package tunnel

import (
	"net"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/talk"
)

// Limits bound what tunnels take of the explorer.
type Limits struct {
	// Tunnels are nodes with one open, Connections those through all of them,
	// NodeConnections and UserConnections those of one node and of one user.
	Tunnels         int
	Connections     int
	NodeConnections int
	UserConnections int
	// Idle is how long a connection may carry nothing: both of its ends say
	// every 15 seconds that they are there.
	Idle time.Duration
}

// DefaultLimits are those where the operator says nothing.
func DefaultLimits() Limits {
	return Limits{Tunnels: 10000, Connections: 2000, NodeConnections: 64, UserConnections: 32, Idle: 5 * time.Minute}
}

// Hub holds the nodes' tunnels.
type Hub struct {
	limits Limits
	log    zerolog.Logger
	all    sync.WaitGroup

	mu          sync.Mutex
	closed      bool
	tunnels     map[string]*talk.Tunnel
	users       map[string]int
	nodes       map[string]int
	connections int
}

// New makes a hub without tunnels.
func New(l Limits, log zerolog.Logger) *Hub {
	return &Hub{limits: l, log: log, tunnels: map[string]*talk.Tunnel{}, users: map[string]int{}, nodes: map[string]int{}}
}

// Room says whether a tunnel of that node would be taken. A node that has one
// replaces it.
func (h *Hub) Room(nodeID string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return stopping()
	}
	if h.tunnels[nodeID] == nil && len(h.tunnels) >= h.limits.Tunnels {
		return node.Errorf(node.Transient, "cannot keep a tunnel: %d are open, which is the most", len(h.tunnels))
	}
	return nil
}

func stopping() error {
	return node.Errorf(node.Transient, "cannot carry a connection: the explorer is stopping")
}

// Keep takes over a node's connection until it ends. It doesn't block.
func (h *Hub) Keep(nodeID string, conn net.Conn) {
	t, err := talk.ExplorerTunnel(conn)
	if err != nil {
		h.log.Error().Err(err).Str("node", nodeID).Msg("cannot keep a tunnel")
		_ = conn.Close()
		return
	}
	h.mu.Lock()
	old := h.tunnels[nodeID]
	if h.closed || (old == nil && len(h.tunnels) >= h.limits.Tunnels) {
		h.mu.Unlock()
		_ = t.Close()
		return
	}
	h.tunnels[nodeID] = t
	h.all.Add(1)
	h.mu.Unlock()
	if old != nil {
		// The node's newest word counts: the older one may be half dead.
		_ = old.Close()
	}
	go func() {
		defer h.all.Done()
		<-t.Done()
		h.forget(nodeID, t)
	}()
}

func (h *Hub) forget(nodeID string, t *talk.Tunnel) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.tunnels[nodeID] == t {
		delete(h.tunnels, nodeID)
	}
}

// Open reports how many tunnels are open, and how many connections go through them.
func (h *Hub) Open() (tunnels, connections int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.tunnels), h.connections
}

// Connect opens a connection of that user's to the node. Transient when the
// node has no tunnel open, Busy when there are too many.
func (h *Hub) Connect(nodeID, user string) (*Connection, error) {
	t, err := h.enter(nodeID, user)
	if err != nil {
		return nil, err
	}
	far, err := t.Open()
	if err != nil {
		h.leave(nodeID, user)
		return nil, node.WithKind(node.Transient, err)
	}
	return &Connection{idle: h.limits.Idle, tunnel: t, far: far, leave: func() { h.leave(nodeID, user) }}, nil
}

// enter counts a connection; h.leave takes it back.
func (h *Hub) enter(nodeID, user string) (*talk.Tunnel, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	t := h.tunnels[nodeID]
	switch {
	case h.closed:
		return nil, stopping()
	case t == nil:
		return nil, node.Errorf(node.Transient, "cannot reach node %s: it keeps no tunnel open to this explorer now", nodeID)
	case h.connections >= h.limits.Connections:
		return nil, node.Errorf(node.Busy, "cannot carry a connection: %d are open, which is the most", h.connections)
	case h.nodes[nodeID] >= h.limits.NodeConnections:
		return nil, node.Errorf(node.Busy, "cannot carry a connection: %d are open to this node, which is the most", h.nodes[nodeID])
	case h.users[user] >= h.limits.UserConnections:
		return nil, node.Errorf(node.Busy, "cannot carry a connection: you have %d open, which is the most", h.users[user])
	}
	h.connections++
	h.nodes[nodeID]++
	h.users[user]++
	h.all.Add(1)
	return t, nil
}

func (h *Hub) leave(nodeID, user string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.connections--
	less(h.nodes, nodeID)
	less(h.users, user)
	h.all.Done()
}

func less(m map[string]int, key string) {
	if m[key]--; m[key] == 0 {
		delete(m, key)
	}
}

// Close ends all tunnels and what goes through them, now and later.
func (h *Hub) Close() {
	h.mu.Lock()
	h.closed = true
	for _, t := range h.tunnels {
		_ = t.Close()
	}
	h.mu.Unlock()
	h.all.Wait()
}
