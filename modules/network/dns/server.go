package dns

import (
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/croft-edge/croft/pkg/netns"
	"github.com/croft-edge/croft/pkg/node"
)

// Server answers the members of any number of networks. New makes one; it is
// safe for concurrent use.
type Server struct {
	cfg       Config
	upstreams *upstreams

	// mu serializes changes: a zone's sockets are free when the call that freed
	// them returns.
	mu     sync.Mutex
	zones  map[string]*zone
	closed bool
}

// New makes a server that serves nothing yet. node.Invalid when c isn't valid.
func New(c Config) (*Server, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	c = c.complete()
	return &Server{cfg: c, upstreams: newUpstreams(c), zones: map[string]*zone{}}, nil
}

// Set listens in z's namespace, or changes the names of the zone of that ID in
// place, which no query notices. When another namespace is behind the path, it
// listens there instead; sockets that have failed are made anew. An error
// leaves all as it was, but for failed sockets. node.Invalid when z isn't valid,
// node.NotExist when the namespace isn't there, node.Busy when something else
// listens on its port 53.
func (s *Server) Set(ctx context.Context, z Zone) error {
	if err := z.Validate(); err != nil {
		return err
	}
	inode, err := netns.Inode(z.Namespace)
	if err != nil {
		return node.Errorf(node.KindOf(err), "cannot serve the names of network resource %s: %w", z.ID, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.usable(ctx, z.ID); err != nil {
		return err
	}
	old := s.zones[z.ID]
	if old != nil && old.sockets.inode == inode && old.health.failure() == nil {
		old.namespace = z.Namespace
		old.names.Store(newNames(z))
		old.forward.servers.Store(&z.Servers)
		return nil
	}
	if old != nil && old.sockets.inode == inode {
		// The same namespace has one port 53: the failed sockets go first.
		delete(s.zones, z.ID)
		old.close()
	}
	made, err := openZone(s.cfg, s.upstreams, z)
	if err != nil {
		return err
	}
	if old != nil {
		old.close()
	}
	s.zones[z.ID] = made
	s.cfg.Log.Info().Str("id", z.ID).Str("type", "network").Str("step", "dns").Str("namespace", z.Namespace).Msg("listening")
	return nil
}

// Remove frees the sockets of a zone. node.NotExist when there is none of that ID.
func (s *Server) Remove(ctx context.Context, id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.usable(ctx, id); err != nil {
		return err
	}
	z, ok := s.zones[id]
	if !ok {
		return node.Errorf(node.NotExist, "cannot stop serving the names of network resource %s: they aren't served", id)
	}
	delete(s.zones, id)
	z.close()
	return nil
}

// List returns all zones in the order of their IDs, or the one of an ID if that isn't empty.
func (s *Server) List(only string) []ZoneStatus {
	s.mu.Lock()
	defer s.mu.Unlock()
	if only != "" {
		z, ok := s.zones[only]
		if !ok {
			return nil
		}
		return []ZoneStatus{z.status()}
	}
	out := make([]ZoneStatus, 0, len(s.zones))
	for _, id := range slices.Sorted(maps.Keys(s.zones)) {
		out = append(out, s.zones[id].status())
	}
	return out
}

// Close frees all sockets and ends all that the server does. Queries in hand
// aren't answered any more.
func (s *Server) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for id, z := range s.zones {
		delete(s.zones, id)
		z.close()
	}
	return nil
}

func (s *Server) usable(ctx context.Context, id string) error {
	if err := ctx.Err(); err != nil {
		return node.Errorf(node.Transient, "cannot change the names of network resource %s: %w", id, err)
	}
	if s.closed {
		return node.Errorf(node.Transient, "cannot change the names of network resource %s: the DNS server is closed", id)
	}
	return nil
}
