package daemon

import (
	"context"
	"sync/atomic"

	"github.com/croft-edge/croft/pkg/node"
)

// machine caches the facts about the node's machine. Reading them scans all its links, of which users
// make thousands: each registration reads them anew, arrivals use the cache.
type machine struct {
	ask  func(ctx context.Context) (node.HostInfo, error)
	last atomic.Pointer[node.HostInfo]
}

// look reads the facts now.
func (m *machine) look(ctx context.Context) (node.HostInfo, error) {
	now, err := m.ask(ctx)
	if err == nil {
		m.last.Store(&now)
	}
	return now, err
}

// known is the last successful reading; without one it reads.
func (m *machine) known(ctx context.Context) (node.HostInfo, error) {
	if last := m.last.Load(); last != nil {
		return *last, nil
	}
	return m.look(ctx)
}
