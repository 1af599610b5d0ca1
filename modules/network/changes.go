package network

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/modules/network/events"
	"github.com/croft-edge/croft/modules/network/resource"
	"github.com/croft-edge/croft/modules/network/tunnel"
	"github.com/croft-edge/croft/modules/network/vouched"
	"github.com/croft-edge/croft/pkg/changes"
	"github.com/croft-edge/croft/pkg/mounts"
	"github.com/croft-edge/croft/pkg/node"
)

// mountPause is how long changes of the mount table wait for others.
const mountPause = 200 * time.Millisecond

// hearing hears of changes of networks from the kernel.
type hearing struct {
	hub  *changes.Hub
	book *vouched.Book
	*events.Listener
}

func newHearing(log zerolog.Logger) *hearing {
	hub := changes.New()
	book := vouched.New(hub.Tell, hub.Lost)
	return &hearing{hub: hub, book: book, Listener: events.New(events.Config{
		Watched: book.Outside, Began: book.Began, Lost: book.Lost, Changed: book.Changed, Log: log,
	})}
}

// watchMounts hears of namespaces that aren't kept any more, until ctx is done.
func (h *hearing) watchMounts(ctx context.Context) error {
	return mounts.Watch(ctx, mountPause, h.book.Mounts)
}

// Changes is the object network.changes of the bus.
func (m *Module) Changes() node.Changes { return m.hearing.hub }

// Inspector is the object network.inspector of the bus.
func (m *Module) Inspector() node.NetworkInspector { return inspector{m} }

// inspector is the module as node.NetworkInspector.
type inspector struct{ m *Module }

// Inspect implements node.NetworkInspector.
func (i inspector) Inspect(labels []string) ([]node.NetworkInfo, error) {
	done, err := i.m.begin()
	if err != nil {
		return nil, err
	}
	defer done()
	i.m.hearing.CatchUp()
	out := []node.NetworkInfo{}
	for _, n := range i.m.networks {
		if slices.Contains(labels, n.Spec.Label) {
			out = append(out, i.m.inspect(n))
		}
	}
	slices.SortFunc(out, func(a, b node.NetworkInfo) int { return strings.Compare(a.ID, b.ID) })
	return out, nil
}

// inspect looks at one network alone.
func (m *Module) inspect(n *resource.Network) node.NetworkInfo {
	v := look(func() tunnel.Observation { return m.builder.tunnels.ObserveOne(m.ctx, n.ID()) })
	defer v.close()
	return m.builder.info(n, v)
}
