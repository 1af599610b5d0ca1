package daemon

import (
	"context"
	"sync/atomic"

	"github.com/croft-edge/croft/pkg/node"
)

// machine is what the node's machine is. To tell takes a look at all of its links, of which users
// make thousands: each registration takes one, and arrivals don't wait for it.
type machine struct {
	ask  func(ctx context.Context) (node.HostInfo, error)
	last atomic.Pointer[node.HostInfo]
}

// look asks what the machine is now.
func (m *machine) look(ctx context.Context) (node.HostInfo, error) {
	now, err := m.ask(ctx)
	if err == nil {
		m.last.Store(&now)
	}
	return now, err
}

// known is what the last look that worked has seen; the first one looks.
func (m *machine) known(ctx context.Context) (node.HostInfo, error) {
	if last := m.last.Load(); last != nil {
		return *last, nil
	}
	return m.look(ctx)
}
