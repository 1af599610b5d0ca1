package zdb

import (
	"context"
	"os"
	"slices"
	"syscall"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/pkg/node"
)

// choose finds a listener for a container that has no port yet: the one that its
// zdb has already, from before the record was lost, else one at the lowest port
// of the range that nobody has. NoSpace when there is none.
func (m *Module) choose(ctx context.Context, theirs []*os.File) (*listener, error) {
	for _, f := range theirs {
		at, here := boundHere(f)
		if here && alike(at.Addr(), m.cfg.Listen) && at.Port() >= m.cfg.FirstPort && at.Port() <= m.cfg.LastPort && !slices.Contains(m.ports(), at.Port()) {
			return adopt(f)
		}
	}
	var last error
	for port := int(m.cfg.FirstPort); port <= int(m.cfg.LastPort); port++ {
		if slices.Contains(m.ports(), uint16(port)) {
			continue
		}
		l, err := bind(ctx, m.cfg.Listen, uint16(port))
		if err == nil {
			return l, nil
		}
		if !errors.Is(err, syscall.EADDRINUSE) {
			last = err
		}
	}
	if last != nil {
		return nil, node.Errorf(node.Transient, "no port from %d to %d can be listened on: %w", m.cfg.FirstPort, m.cfg.LastPort, last)
	}
	return nil, node.Errorf(node.NoSpace, "all ports from %d to %d are taken", m.cfg.FirstPort, m.cfg.LastPort)
}

// ports are those that containers keep.
func (m *Module) ports() []uint16 {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []uint16
	for _, s := range m.servers {
		if s.known {
			out = append(out, s.record.Port)
		}
	}
	return out
}

// again makes the listener of a port that a container keeps: the one that its zdb
// has, else it is bound anew. It never is another port.
func (m *Module) again(ctx context.Context, port uint16, theirs []*os.File) (*listener, error) {
	for _, f := range theirs {
		at, here := boundHere(f)
		if !here || at.Port() != port {
			continue
		}
		l, err := adopt(f)
		if err != nil || alike(at.Addr(), m.cfg.Listen) {
			return l, err
		}
		l.end() // it listens where zdbs answered before the settings were changed
	}
	l, err := bind(ctx, m.cfg.Listen, port)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, node.Errorf(node.Busy, "its port %d is taken by somebody else", port)
	case err != nil:
		return nil, node.Errorf(node.Transient, "its port %d can't be listened on: %w", port, err)
	}
	return l, nil
}
