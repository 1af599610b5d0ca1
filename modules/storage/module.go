package storage

import (
	"context"
	"iter"
	"os"
	"sync"

	"github.com/croft-edge/croft/modules/storage/volume"
	"github.com/croft-edge/croft/pkg/btrfs"
	"github.com/croft-edge/croft/pkg/changes"
	"github.com/croft-edge/croft/pkg/filelock"
	"github.com/croft-edge/croft/pkg/node"
)

// Module owns the pools. Open makes one; it is safe for concurrent use.
type Module struct {
	cfg     Config
	pools   []*pool
	devices []node.BrokenDevice
	changed *signal
	hub     *changes.Hub

	// mu lets one change of the pools happen at a time.
	mu     sync.Mutex
	lock   *filelock.Lock
	closed chan struct{}
	// ended is closed when the watch of the mounts has ended.
	ended chan struct{}
}

// Open makes or adopts the pools of cfg and returns the module that serves
// them. It may be called again after any kind of end of the last one: mounted
// pools are adopted, half-made things are removed, and an unusable pool is
// reported in Status while the rest goes on. Busy when
// another module has cfg.State open.
func Open(ctx context.Context, cfg Config) (*Module, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.complete()
	lock, err := cfg.lock()
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(cfg.Mounts, 0o711); err != nil {
		_ = lock.Release()
		return nil, btrfs.Wrap(err, "cannot make the folder of mounts")
	}
	opened, err := openPools(ctx, cfg)
	if err != nil {
		_ = lock.Release()
		return nil, err
	}
	m := &Module{
		cfg: cfg, pools: opened.pools, devices: opened.devices,
		changed: newSignal(), hub: changes.New(), lock: lock, closed: make(chan struct{}), ended: make(chan struct{}),
	}
	go m.watch()
	return m, nil
}

// Close ends the module: its streams end and its calls fail. Pools stay
// mounted and file systems stay as they are, so that workloads don't notice.
// It waits for the change in hand, at most until ctx ends.
func (m *Module) Close(ctx context.Context) error {
	done := make(chan error, 1)
	go func() {
		err := m.end()
		<-m.ended
		done <- err
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return node.WithKind(node.Transient, ctx.Err())
	}
}

func (m *Module) end() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	select {
	case <-m.closed:
		return nil
	default:
		close(m.closed)
		return m.lock.Release()
	}
}

// Storage returns the bus object storage.storage.
func (m *Module) Storage() node.Storage { return service{m} }

// VDisks returns the bus object storage.vdisk.
func (m *Module) VDisks() node.VDisks { return diskService{m} }

// begin starts a change; done ends it. A pool that was unmounted is mounted first.
func (m *Module) begin() (done func(), err error) {
	m.mu.Lock()
	select {
	case <-m.closed:
		m.mu.Unlock()
		return nil, node.Errorf(node.Transient, "cannot change storage: the module is closed")
	default:
		m.remountAll()
		return m.mu.Unlock, nil
	}
}

// find returns the pool that the thing lies on, with its label. NotExist when
// it lies on none, Transient when it lies, or may lie, on one that can't be read.
func (m *Module) find(k kind, name string) (*pool, volume.Label, error) {
	for _, p := range m.pools {
		l, found, err := p.look(k.of(p), name)
		if err != nil {
			return nil, volume.Label{}, node.Errorf(node.Transient, "cannot reach %s %s: %v", k.what, name, err)
		}
		if found {
			return p, l, nil
		}
	}
	return nil, volume.Label{}, node.Errorf(node.NotExist, "cannot find %s %s: there is none", k.what, name)
}

// labels yields the labels on each pool that can be read.
func (m *Module) labels(k kind) iter.Seq2[*pool, map[string]volume.Label] {
	return func(yield func(*pool, map[string]volume.Label) bool) {
		for _, p := range m.pools {
			f, err := p.open()
			if err != nil {
				// Status reports it; find refuses the names of its index.
				continue
			}
			labels, err := k.of(p).Labels()
			f.Close()
			if err != nil {
				m.cfg.Log.Error().Err(err).Str("pool", p.name).Msg("cannot list a pool")
				continue
			}
			if !yield(p, labels) {
				return
			}
		}
	}
}

// status reads all pools for an operator.
func (m *Module) status() node.StorageStatus {
	status := node.StorageStatus{BrokenDevices: m.devices}
	for _, p := range m.pools {
		s, err := p.status()
		if err != nil {
			status.BrokenPools = append(status.BrokenPools, node.BrokenPool{Name: p.name, DiskType: p.diskType, Cause: err.Error()})
			continue
		}
		status.Pools = append(status.Pools, s)
		// Of two kinds the weaker one is reported.
		if status.Quota == "" || p.filesystems.Quota() == btrfs.Qgroup {
			status.Quota = string(p.filesystems.Quota())
		}
	}
	return status
}
