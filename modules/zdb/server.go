package zdb

import (
	"context"
	"slices"
	"strings"

	"github.com/croft-edge/croft/pkg/limit"
	"github.com/croft-edge/croft/pkg/node"
)

// server is a zdb container in the hands of this process.
type server struct {
	id string
	// op lets one change happen at a time: it holds one token. Pairing lets one
	// goroutine at a time bring listener and zdb together.
	op, pairing chan struct{}

	// These are guarded by Module.mu.
	record record
	known  bool // whether there is a record
	// damaged says that there was a record once, and what was wrong with it.
	damaged string
	// fault is why listener and zdb aren't together, as of the last try.
	fault    string
	listener *listener
	// namespaces is how many there were when the zdb last said.
	namespaces uint64
	// limits are those of its process.
	limits  limit.Elsewhere
	watcher *watcher
	users   int // who hold or wait for op
}

// server is that of an ID, made when there is none. mu is held, or nobody else
// has the module.
func (m *Module) server(id string) *server {
	s := m.servers[id]
	if s == nil {
		s = &server{id: id, op: make(chan struct{}, 1), pairing: make(chan struct{}, 1)}
		m.servers[id] = s
	}
	return s
}

// hold takes a container for a change, which release ends.
func (m *Module) hold(ctx context.Context, id string) (*server, error) {
	m.mu.Lock()
	s := m.server(id)
	s.users++
	m.mu.Unlock()
	select {
	case s.op <- struct{}{}:
		return s, nil
	case <-ctx.Done():
		m.leave(s)
		return nil, node.Errorf(node.Busy, "cannot change zdb %s: another change of it takes its time (%w)", id, ctx.Err())
	}
}

func (m *Module) release(s *server) {
	<-s.op
	m.leave(s)
}

// leave forgets a server that nobody uses and of which there is nothing.
func (m *Module) leave(s *server) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s.users--
	if s.users == 0 && !s.known && s.damaged == "" {
		delete(m.servers, s.id)
	}
}

// known are all servers with a record, in the order of their IDs.
func (m *Module) known() []*server {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []*server
	for _, s := range m.servers {
		if s.known {
			out = append(out, s)
		}
	}
	slices.SortFunc(out, func(a, b *server) int { return strings.Compare(a.id, b.id) })
	return out
}

// state is what is known of a server now.
func (m *Module) state(s *server) (r record, l *listener, known bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return s.record, s.listener, s.known
}

// recordOf is the record of a container in hand. NotExist when it isn't.
func (m *Module) recordOf(id string) (record, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.servers[id]
	switch {
	case s != nil && s.known:
		return s.record, nil
	case s != nil && s.damaged != "":
		return record{}, node.Errorf(node.Transient, "it must be attached again: %s", s.damaged)
	}
	return record{}, node.Errorf(node.NotExist, "it isn't in hand")
}
