package vm

import (
	"context"
	"path/filepath"
	"sync"

	"github.com/croft-edge/croft/modules/vm/machine"
	"github.com/croft-edge/croft/modules/vm/qemu"
	"github.com/croft-edge/croft/pkg/cgroup"
	"github.com/croft-edge/croft/pkg/changes"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/supervise"
)

// allWeight is the processor share of all VMs together: that of all containers together (see modules/container/groups).
const allWeight = 1000

// Module is the vm module. It implements node.VMs.
type Module struct {
	cfg       Config
	folder    *machine.Folder
	table     *table
	emulator  *emulator
	processes processes
	hub       *changes.Hub

	// ctx ends with Close: calls and goroutines of the module end with it, VMs don't.
	ctx    context.Context //nolint:containedctx // the module's life
	cancel context.CancelFunc
	// mu guards closed: nothing is spawned after it.
	mu     sync.Mutex
	closed bool
	work   sync.WaitGroup
}

var _ node.VMs = (*Module)(nil)

// Open opens the module, and finds the VMs that an earlier process has started.
func Open(c Config) (*Module, error) {
	c, err := c.normal()
	if err != nil {
		return nil, err
	}
	folder, err := machine.OpenFolder(filepath.Join(c.RunDir, folderName))
	if err != nil {
		return nil, err
	}
	m := &Module{
		cfg: c, folder: folder, table: newTable(vms),
		emulator: newEmulator(c), hub: changes.New(),
	}
	m.processes = processes{cfg: c, folder: folder, emulator: m.emulator}
	m.ctx, m.cancel = context.WithCancel(context.Background())
	// A probe of an earlier process that was killed.
	endingProbe, cancel := context.WithTimeout(m.ctx, endTime)
	defer cancel()
	if err := cgroup.End(endingProbe, m.emulator.cgroup); err != nil {
		c.Log.Warn().Err(err).Msg("cannot end a probe of an earlier process")
	}
	// Like the processor share of all containers together; without it VMs have every program's share.
	if all, err := cgroup.At(c.Cgroup); err == nil && all.Make() == nil {
		_ = all.Limit(cgroup.Limits{CPUWeight: allWeight})
	}
	return m, m.adopt()
}

// Changes returns the bus object vmd.changes.
func (m *Module) Changes() node.Changes { return m.hub }

// Close ends the module's work. VMs go on.
func (m *Module) Close() {
	m.cancel()
	m.mu.Lock()
	m.closed = true
	m.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), endTime)
	defer cancel()
	for _, r := range m.table.records() {
		e, err := m.table.hold(ctx, r.Spec.ID)
		if err != nil {
			continue
		}
		stopTimer(e)
		if e.process != nil {
			e.process.Close()
		}
		m.table.release(e)
	}
	m.work.Wait()
}

// spawn runs f beside, guarded, unless the module is closed.
func (m *Module) spawn(name string, f func(ctx context.Context) error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return
	}
	m.work.Go(func() {
		if err := supervise.Guard(m.cfg.Log, name, func() error { return f(m.ctx) }); err != nil && m.ctx.Err() == nil {
			m.cfg.Log.Warn().Str("type", "kubernetes").Str("step", name).Err(err).Msg("a VM isn't as it should be")
		}
	})
}

// begin returns the context of a call.
func (m *Module) begin() (context.Context, error) {
	if m.ctx.Err() != nil {
		return nil, node.Errorf(node.Transient, "the vm module is closed")
	}
	return m.ctx, nil
}

// save records a held VM's next state, on the disk first.
func (m *Module) save(e *entry, r machine.Record, err error) error {
	if err != nil {
		return err
	}
	if err := m.folder.Of(e.id).Write(r); err != nil {
		return err
	}
	m.table.set(e, r)
	return nil
}

// memory is the memory that a VM's process may have: the guest's, QEMU's own, and the discarder's.
func memory(r machine.Record) uint64 {
	return r.Spec.Memory + qemu.Overhead(qemu.Accelerator(r.Accelerator), r.Spec.Memory, r.Spec.CPU)
}

func stopTimer(e *entry) {
	if e.timer != nil {
		e.timer.Stop()
		e.timer = nil
	}
}
