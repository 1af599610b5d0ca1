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
	log  zerolog.Logger
}

func newHearing(log zerolog.Logger) *hearing {
	hub := changes.New()
	return &hearing{hub: hub, book: vouched.New(hub.Tell, hub.Lost), log: log}
}

// run hears of changes until ctx is done.
func (h *hearing) run(ctx context.Context) error {
	listener := events.New(events.Config{Watched: h.book.Outside, Began: h.book.Began, Lost: h.book.Lost, Changed: h.book.Changed, Log: h.log})
	return listener.Run(ctx)
}

// watchMounts hears of namespaces that aren't kept any more, until ctx is done.
func (h *hearing) watchMounts(ctx context.Context) error {
	h.book.Mounts()
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
