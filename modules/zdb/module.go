package zdb

import (
	"context"
	"sync"

	"github.com/croft-edge/croft/modules/zdb/port"
	"github.com/croft-edge/croft/pkg/atomicfile"
	"github.com/croft-edge/croft/pkg/changes"
	"github.com/croft-edge/croft/pkg/filelock"
	"github.com/croft-edge/croft/pkg/node"
)

// Module owns the ports of the node's zdb containers. Open makes one; it is safe
// for concurrent use.
type Module struct {
	folder *atomicfile.Folder
	lock   *filelock.Lock
	ctx    context.Context //nolint:containedctx // it ends the waits of the contract's calls, which have none
	stop   context.CancelFunc
	// work are the goroutines that this module has started.
	work sync.WaitGroup

	servers    *servers
	pairing    *pairing
	supervisor *supervisor
	observer   *observer
	attaching  *attaching

	mu     sync.Mutex
	closed bool
}

// Open opens the module and its records. When it returns, each attached container has
// its listener again, from its zdb or bound anew; if that failed, Servers says why. ctx
// bounds that only. Busy when another module has the folder open.
func Open(ctx context.Context, c Config) (*Module, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	folder, err := atomicfile.Open(c.folder(), nil)
	if err != nil {
		return nil, node.Errorf(node.Internal, "cannot open the zdb module: %w", err)
	}
	lock, err := c.lock()
	if err != nil {
		_ = folder.Close()
		return nil, err
	}
	kept := records{folder: folder, log: c.Log}
	m := &Module{folder: folder, lock: lock, servers: &servers{all: map[string]*server{}}}
	m.ctx, m.stop = context.WithCancel(context.Background())
	m.pairing = &pairing{servers: m.servers, ports: port.Range{First: c.FirstPort, Last: c.LastPort, Listen: c.Listen}, log: c.Log}
	m.supervisor = &supervisor{servers: m.servers, pairing: m.pairing, hub: changes.New(), work: &m.work}
	m.observer = &observer{cfg: c, servers: m.servers}
	m.attaching = &attaching{servers: m.servers, records: kept, pairing: m.pairing, supervisor: m.supervisor, observer: m.observer}
	if err := kept.load(m.servers); err != nil {
		_ = m.Close()
		return nil, err
	}
	var trying sync.WaitGroup
	for _, s := range m.servers.attached() {
		trying.Go(func() { m.pairing.try(ctx, s) })
	}
	trying.Wait()
	return m, nil
}

// Changes is the module's stream of changes, zdbd.changes on the bus.
func (m *Module) Changes() node.Changes { return m.supervisor.hub }

// Run keeps listeners and zdbs together until ctx is done: a zdb that ends gets
// its listener again as soon as it is back.
func (m *Module) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := context.AfterFunc(m.ctx, cancel)
	defer stop()
	m.supervisor.run(ctx)
	return nil
}

// Close ends the module: later calls fail. It waits for present ones. Zdbs go on with
// their listeners.
func (m *Module) Close() error {
	m.mu.Lock()
	if m.closed {
		m.mu.Unlock()
		return nil
	}
	m.closed = true
	m.mu.Unlock()
	m.supervisor.stop()
	m.stop()
	m.work.Wait()
	m.servers.closeListeners()
	err := m.folder.Close()
	if releaseErr := m.lock.Release(); err == nil {
		err = releaseErr
	}
	return err
}

// begin starts a call; done ends it.
func (m *Module) begin() (done func(), err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil, node.Errorf(node.Transient, "cannot use the zdb module: it is closed")
	}
	m.work.Add(1)
	return m.work.Done, nil
}

// Namespaces is the module's contract, zdbd.namespace on the bus.
func (m *Module) Namespaces() node.ZDBNamespaces { return service{m} }
