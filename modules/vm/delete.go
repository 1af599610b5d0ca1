package vm

import (
	"context"
	"sync"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/modules/vm/launch"
	"github.com/croft-edge/croft/modules/vm/machine"
	"github.com/croft-edge/croft/pkg/cgroup"
	"github.com/croft-edge/croft/pkg/node"
)

// Delete implements node.VMs.
func (m *Module) Delete(id string) error {
	if err := machine.CheckID("delete", id); err != nil {
		return err
	}
	ctx, err := m.begin()
	if err != nil {
		return err
	}
	return m.delete(ctx, id)
}

func (m *Module) delete(ctx context.Context, id string) error {
	e, err := m.table.hold(ctx, id)
	if err != nil {
		return err
	}
	defer m.table.release(e)
	if !e.exists {
		return node.Errorf(node.NotExist, "cannot delete VM %.80q: there is none", id)
	}
	stopped := e.record.Stop()
	if err := m.save(e, stopped, nil); err != nil {
		if !errors.Is(err, unix.ENOSPC) {
			return err
		}
		// A full disk keeps no VM: it isn't started again while this agent runs.
		m.table.set(e, stopped)
	}
	stopTimer(e)
	if err := m.clear(ctx, e); err != nil {
		m.later(e, clearAgain, m.resume)
		return err
	}
	m.cfg.Log.Info().Str("id", id).Msg("VM removed")
	return nil
}

// clear ends a held VM and removes all of it but its disks.
func (m *Module) clear(ctx context.Context, e *entry) error {
	stopTimer(e)
	at := m.folder.Of(e.id)
	p, runs, err := at.Process()
	if err == nil && runs {
		if err := m.processes.powerOff(ctx, at, p); err != nil {
			return err
		}
	}
	// What is left runs without its first process, which has taken part in no power-off: it is in the control group.
	if err := m.processes.endGroup(ctx, e.id); err != nil {
		return err
	}
	if _, runs, err := at.Process(); err != nil || runs {
		return node.Errorf(node.Busy, "cannot delete VM %s: its process is still there", e.id)
	}
	if err := m.cfg.Logs.Drop(ctx, e.id); err != nil {
		return err
	}
	if err := at.Remove(); err != nil {
		return err
	}
	if e.process != nil {
		e.process.Close()
		e.process = nil
	}
	m.table.remove(e)
	return nil
}

// TakeDown ends the VMs of a stopped node, as a reboot does: disks stay.
func TakeDown(ctx context.Context, c Config) error {
	m, err := Open(c)
	if err != nil {
		return err
	}
	defer m.Close()
	var all sync.WaitGroup
	var mu sync.Mutex
	var failed error
	for _, r := range m.table.records() {
		all.Go(func() {
			if err := m.delete(ctx, r.Spec.ID); err != nil && node.KindOf(err) != node.NotExist {
				mu.Lock()
				defer mu.Unlock()
				failed = err
			}
		})
	}
	all.Wait()
	if failed != nil {
		return failed
	}
	if err := cgroup.End(ctx, c.Cgroup); err != nil {
		return node.Errorf(node.Busy, "cannot end the processes of VMs: %w", err)
	}
	if group, err := cgroup.Beside(launch.ServiceGroup(m.folder.Of("any"))); err == nil {
		group.Remove()
	}
	return nil
}
