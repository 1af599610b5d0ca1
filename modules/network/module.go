package network

import (
	"context"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/pkg/node"
)

// Module owns the node's networks. Open makes one; it is safe for concurrent use.
type Module struct {
	cfg  Config
	ctx  context.Context //nolint:containedctx // it ends what the contract's calls wait for, which have none
	stop context.CancelFunc
	lock *os.File
	// woken tells the watch that there is a carrier to look at.
	woken chan struct{}
	ended chan struct{}

	// mu lets one change happen at a time.
	mu       sync.Mutex
	lookups  *lookups
	networks map[string]*network
	tunnels  tunnels
	host     host
	closed   bool
}

// Open opens the module on what is there: networks that are on the node are
// adopted as they are, and none is touched. Busy when another module has the
// folder open.
func Open(cfg Config) (*Module, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return nil, node.Errorf(node.Internal, "cannot make the networks' folder: %w", err)
	}
	lock, err := lockFolder(cfg.Dir)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	m := &Module{
		cfg: cfg, ctx: ctx, stop: stop, lock: lock, networks: map[string]*network{},
		woken: make(chan struct{}, 1), ended: make(chan struct{}),
	}
	m.lookups = newLookups(ctx, cfg, m.resolved)
	m.loadHost()
	if m.host.lacks = cfg.tryRates(); m.host.lacks != "" {
		cfg.Log.Error().Str("step", "load").Str("type", "network").Msg(m.host.lacks)
	}
	if err := m.load(); err != nil {
		stop()
		_ = unlockFolder(lock)
		return nil, err
	}
	var watching sync.WaitGroup
	watching.Go(m.watch)
	watching.Go(m.watchNames)
	go func() {
		watching.Wait()
		close(m.ended)
	}()
	return m, nil
}

func lockFolder(dir string) (*os.File, error) {
	lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, node.Errorf(node.Internal, "cannot lock the networks' folder: %w", err)
	}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = lock.Close()
		return nil, node.Errorf(node.Busy, "cannot open the network module: another one has %s open", dir)
	}
	return lock, nil
}

// unlockFolder lets go of the lock by name: a child that was started just now
// shares the open file until it is another program.
func unlockFolder(lock *os.File) error {
	_ = unix.Flock(int(lock.Fd()), unix.LOCK_UN)
	return lock.Close()
}

// Close ends the module: its calls fail. Networks stay as they are, so that
// workloads don't notice. It waits for the change in hand.
func (m *Module) Close() error {
	m.stop()
	<-m.ended
	m.lookups.close()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil
	}
	m.closed = true
	m.tunnels.close()
	return unlockFolder(m.lock)
}

// Networks is what goes on the bus as network.network.
func (m *Module) Networks() node.Networks { return service{m} }

// Taps is what goes on the bus as network.tap.
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
