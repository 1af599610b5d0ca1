package vm

import (
	"context"
	"time"

	"github.com/croft-edge/croft/modules/vm/machine"
	"github.com/croft-edge/croft/pkg/node"
)

// Run implements node.VMs.
func (m *Module) Run(spec node.VMSpec) (node.VMInfo, error) {
	if err := checkSpec(spec); err != nil {
		return node.VMInfo{}, err
	}
	ctx, err := m.begin()
	if err != nil {
		return node.VMInfo{}, err
	}
	e, err := m.table.hold(ctx, spec.ID)
	if err != nil {
		return node.VMInfo{}, err
	}
	defer m.table.release(e)
	if !e.exists {
		return m.runNew(ctx, e, spec)
	}
	if e.record.Phase == machine.Lost {
		return node.VMInfo{}, node.Errorf(node.Busy, "cannot run VM %s: %s", spec.ID, e.record.Cause)
	}
	claim := node.Claim{Hash: spec.Hash, AdoptUnlabelled: spec.AdoptUnlabelled}
	if err := claim.Check("run VM "+spec.ID, e.record.Spec.Hash); err != nil {
		return node.VMInfo{}, err
	}
	switch e.record.Phase {
	case machine.Running:
		if spec.Tap == e.record.Spec.Tap && tapDrift(spec.Tap) == "" {
			return infoOf(e.record, m.folder.Of(e.id)), nil
		}
		err := m.reconnect(ctx, e, spec)
		return e.record.Info(), err
	case machine.Waiting:
		renewed, err := e.record.Renewed(spec)
		if err == nil {
			err = m.folder.Of(e.id).WriteConfig(spec.Config)
		}
		if err := m.save(e, renewed, err); err != nil {
			return node.VMInfo{}, err
		}
		err = m.start(ctx, e)
		return e.record.Info(), err
	}
	return node.VMInfo{}, node.Errorf(node.Busy, "cannot run VM %s: it is %s", spec.ID, e.record.Phase)
}

// reconnect starts a held VM that runs anew, with this spec: QEMU can't open another tap device.
func (m *Module) reconnect(ctx context.Context, e *entry, spec node.VMSpec) error {
	const cause = "its tap device was made anew"
	m.cfg.Log.Warn().Str("id", e.id).Str("cause", cause).Msg("VM is started again")
	at := m.folder.Of(e.id)
	p, runs, err := at.Process()
	if err == nil && runs {
		err = m.processes.powerOff(ctx, at, p)
	}
	if err == nil {
		err = m.processes.endGroup(ctx, e.id)
	}
	if err != nil {
		return err
	}
	r, err := e.record.Exited(cause, time.Now(), machine.Pauses())
	if err == nil {
		r, err = r.Renewed(spec)
	}
	if err == nil {
		err = at.WriteConfig(spec.Config)
	}
	if err := m.save(e, r, err); err != nil {
		return err
	}
	return m.start(ctx, e)
}

// runNew starts a VM for the first time. When that fails nothing stays of it.
func (m *Module) runNew(ctx context.Context, e *entry, spec node.VMSpec) (node.VMInfo, error) {
	at := m.folder.Of(e.id)
	if err := at.Free(); err != nil {
		return node.VMInfo{}, err
	}
	r, err := m.table.create(e, spec)
	if err != nil {
		return node.VMInfo{}, err
	}
	err = at.Make(r, spec.Config)
	if err == nil {
		err = m.start(ctx, e)
	}
	if err == nil {
		return e.record.Info(), nil
	}
	// Whatever happens to what follows, it isn't started again; a full disk can't record that.
	stopped := e.record.Stop()
	if unsaved := m.save(e, stopped, nil); unsaved != nil {
		m.cfg.Log.Warn().Str("id", e.id).Err(unsaved).Msg("cannot record that a VM is removed")
		m.table.set(e, stopped)
	}
	if undo := m.clear(context.WithoutCancel(ctx), e); undo != nil {
		m.cfg.Log.Error().Str("id", e.id).Err(undo).Msg("cannot remove what is left of a VM that could not be started: tried again")
		m.later(e, clearAgain, m.resume)
	}
	return node.VMInfo{}, err
}

// start starts a held VM that waits. A failure is recorded, and the start repeated later.
func (m *Module) start(ctx context.Context, e *entry) error {
	stopTimer(e)
	at := m.folder.Of(e.id)
	if p, runs, err := at.Process(); err == nil && runs {
		return m.take(e, p)
	}
	err := m.attempt(ctx, e)
	if err == nil {
		err = m.watch(e)
	}
	if err == nil {
		return nil
	}
	if m.abandon(ctx, e, err) != nil {
		m.later(e, lookAgain, m.resume)
	}
	return err
}

// attempt is one start of a held VM, up to the record of its process.
func (m *Module) attempt(ctx context.Context, e *entry) error {
	spec := e.record.Spec
	file, err := openBoot(spec.Kernel)
	if err != nil {
		return err
	}
	how, err := m.emulator.forKernel(ctx, file)
	_ = file.Close()
	if err != nil {
		return err
	}
	r, err := e.record.Begin(string(how.accelerator))
	if err := m.save(e, r, err); err != nil {
		return err
	}
	p, err := m.processes.launch(ctx, e.record)
	if err != nil {
		return err
	}
	r, err = e.record.Began(p, time.Now())
	if err := m.save(e, r, err); err != nil {
		return err
	}
	m.cfg.Log.Info().Str("id", e.id).Int("pid", p.PID).Str("accelerator", r.Accelerator).Msg("VM started")
	return nil
}

// abandon records that a held VM's start has failed, and schedules the next one. It has the VM's lock meanwhile: a process of
// the failed start that comes later gives up. An error means that the VM has to be looked at again.
func (m *Module) abandon(ctx context.Context, e *entry, cause error) error {
	lock, err := m.folder.Of(e.id).Hold(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = lock.Release() }()
	r := e.record
	if r.Phase == machine.Waiting { // the start had not begun
		if r, err = r.Begin(r.Accelerator); err != nil {
			return err
		}
	}
	r, err = r.Failed(cause.Error(), time.Now(), machine.Pauses())
	if err := m.save(e, r, err); err != nil {
		m.cfg.Log.Error().Str("id", e.id).Err(err).Msg("cannot record the failure of a VM")
		return err
	}
	m.schedule(e)
	return nil
}
