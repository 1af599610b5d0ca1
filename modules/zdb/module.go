package zdb

import (
	"context"
	"os"
	"sync"

	"github.com/croft-edge/croft/pkg/atomicfile"
	"github.com/croft-edge/croft/pkg/node"
)

// Module owns the ports of the node's zdb containers. Open makes one; it is safe
// for concurrent use.
type Module struct {
	cfg    Config
	folder *atomicfile.Folder
	lock   *os.File
	ctx    context.Context //nolint:containedctx // it ends what the contract's calls wait for, which have none
	stop   context.CancelFunc
	// work are the goroutines that this module has started.
	work sync.WaitGroup

	mu      sync.Mutex
	servers map[string]*server
	// watching is Run's context while that runs.
	watching context.Context //nolint:containedctx // those who come later are watched as long
	closed   bool
}

// Open opens the module on what is there. When it returns, each container in hand
// has its listener again, had back from its zdb or bound anew; where that wasn't
// possible, Servers says why. ctx bounds that only. Busy when another module has
// the folder open.
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
	m := &Module{cfg: c, folder: folder, lock: lock, servers: map[string]*server{}}
	m.ctx, m.stop = context.WithCancel(context.Background())
	if err := m.load(); err != nil {
		_ = m.Close()
		return nil, err
	}
	var pairing sync.WaitGroup
	for _, s := range m.known() {
		pairing.Go(func() { m.try(ctx, s) })
	}
	pairing.Wait()
	return m, nil
}

// Run keeps listeners and zdbs together until ctx is done: a zdb that ends gets
// its listener again as soon as it is back.
func (m *Module) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := context.AfterFunc(m.ctx, cancel)
	defer stop()
	m.mu.Lock()
	m.watching = ctx
	for _, s := range m.servers {
		m.watch(s)
	}
	m.mu.Unlock()
	<-ctx.Done()
	m.mu.Lock()
	m.watching = nil
	var watchers []*watcher
	for _, s := range m.servers {
		watchers = append(watchers, s.watcher)
		s.watcher = nil
	}
	m.mu.Unlock()
	for _, w := range watchers {
		w.end()
	}
	return nil
}

// Close ends the module: its calls fail. Zdbs go on with the listeners that they
// have. It waits for the changes in hand.
func (m *Module) Close() error {
	m.mu.Lock()
	if m.closed {
		m.mu.Unlock()
		return nil
	}
	m.closed = true
	m.mu.Unlock()
	m.stop()
	m.work.Wait()
	m.mu.Lock()
	for _, s := range m.servers {
		if s.listener != nil {
			s.listener.close()
		}
	}
	m.mu.Unlock()
	err := m.folder.Close()
	if unlockErr := unlock(m.lock); err == nil {
		err = unlockErr
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

// Namespaces is what goes on the bus as zdbd.namespace.
func (m *Module) Namespaces() node.ZDBNamespaces { return service{m} }
