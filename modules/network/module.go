package network

import (
	"context"
	"maps"
	"sync"

	"github.com/croft-edge/croft/modules/network/endpoints"
	"github.com/croft-edge/croft/modules/network/host"
	"github.com/croft-edge/croft/modules/network/resource"
	"github.com/croft-edge/croft/modules/network/store"
	"github.com/croft-edge/croft/modules/network/tunnel"
	"github.com/croft-edge/croft/modules/network/wiring"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/supervise"
)

// Module owns the node's networks. Open makes one; it is safe for concurrent use.
type Module struct {
	cfg  Config
	ctx  context.Context //nolint:containedctx // it ends the waiting of the contract's calls, which have none
	stop context.CancelFunc
	// unmet says which of the configured rates this kernel can't hold, empty for none.
	unmet    string
	watcher  *watcher
	watching sync.WaitGroup
	lookups  *endpoints.Lookups
	hearing  *hearing

	// mu lets one change happen at a time.
	mu       sync.Mutex
	closed   bool
	networks map[string]*resource.Network
	builder  *builder
}

// Open opens the module on an existing folder or a new one: networks that are on the
// node are adopted as they are, and none is touched. Busy when another module has the
// folder open.
func Open(cfg Config) (*Module, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	folder, err := store.Open(cfg.Dir)
	if err != nil {
		return nil, err
	}
	m := &Module{cfg: cfg, unmet: cfg.Rate.Try(), hearing: newHearing(cfg.Log)}
	m.ctx, m.stop = context.WithCancel(context.Background())
	m.watcher = newWatcher(watchEvery, m.carrierEnded, m.mendRules, m.raise)
	m.lookups = endpoints.New(m.ctx, cfg.Endpoints, cfg.Log, m.resolved)
	m.builder = &builder{
		store: folder, host: host.Open(cfg.Dir, cfg.hostRules(), cfg.Log), wiring: wiring.New(cfg.wiring()),
		tunnels: tunnel.New(tunnel.Config{Namespaces: folder.Namespaces(), Carrier: cfg.Carrier, Connected: m.watcher.wake, Servers: cfg.DNSServers, Log: cfg.Log}),
		book:    m.hearing.book,
	}
	if m.unmet != "" {
		cfg.Log.Error().Str("type", "network").Str("step", "load").Msg(m.unmet)
	}
	if m.networks, err = folder.Load(cfg.Log); err != nil {
		m.stop()
		_ = folder.Close()
		return nil, err
	}
	// Keep logs what ends them.
	for name, run := range map[string]func(context.Context) error{
		"network watcher": m.watcher.run, "network names": m.watchNames, "network changes": m.hearing.Run, "network mounts": m.hearing.watchMounts,
	} {
		m.watching.Go(func() { _ = supervise.Keep(m.ctx, cfg.Log, name, supervise.DefaultBackoff(), run) })
	}
	return m, nil
}

// Close ends the module: its calls fail. Networks stay as they are, so that
// workloads don't notice. It waits for the change in progress.
func (m *Module) Close() error {
	m.stop()
	m.watching.Wait()
	m.lookups.Close()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil
	}
	m.closed = true
	m.builder.tunnels.Close()
	return m.builder.store.Close()
}

// Networks is the object network.network of the bus.
func (m *Module) Networks() node.Networks { return service{m} }

// Taps is the object network.tap of the bus.
func (m *Module) Taps() node.Taps { return taps{m} }

// begin starts a change or a look; done ends it.
func (m *Module) begin() (done func(), err error) {
	m.mu.Lock()
	if m.closed || m.ctx.Err() != nil {
		m.mu.Unlock()
		return nil, node.Errorf(node.Transient, "cannot use the network module: it is closed")
	}
	return m.mu.Unlock, nil
}

// join gives a member a place in its network, see joiner.
func (m *Module) join(ctx context.Context, r resource.JoinRequest) (*resource.Network, *resource.Member, error) {
	done, err := m.begin()
	if err != nil {
		return nil, nil, err
	}
	defer done()
	n := m.networks[r.Network]
	if n == nil {
		return nil, nil, node.Errorf(node.NotExist, "cannot join member %s: there is no network %s on this node", r.ID, resource.Bounded(r.Network))
	}
	one, err := m.joiner().join(ctx, n, r)
	return n, one, err
}

// leave takes a member out of its network.
func (m *Module) leave(ctx context.Context, id, member string, tap bool) error {
	done, err := m.begin()
	if err != nil {
		return err
	}
	defer done()
	n := m.networks[id]
	if n == nil || n.Members[member] == nil || n.Members[member].Tap != tap {
		return node.Errorf(node.NotExist, "cannot take member %s out of network %s: it isn't in it", resource.Bounded(member), resource.Bounded(id))
	}
	return m.joiner().leave(ctx, n, n.Members[member])
}

func (m *Module) joiner() joiner {
	return joiner{builder: m.builder, public: m.cfg.Public, networks: maps.Values(m.networks), log: m.cfg.Log}
}
