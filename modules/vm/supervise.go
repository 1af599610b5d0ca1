package vm

import (
	"context"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/modules/vm/machine"
	"github.com/croft-edge/croft/pkg/carrier"
	"github.com/croft-edge/croft/pkg/cgroup"
)

const (
	// lookAgain is the pause before another look at a VM whose process can't be told yet, clearAgain that before a deletion is
	// repeated, readPause that before an unreadable record is read again.
	lookAgain  = time.Second
	clearAgain = 5 * time.Second
	readPause  = 10 * time.Second
)

// adopt finds the VMs that an earlier process has started, before anything else happens. Nothing is started here.
func (m *Module) adopt() error {
	ids, err := m.folder.IDs()
	if err != nil {
		return err
	}
	// They may have a secret.
	if err := m.folder.DropRemains(); err != nil {
		m.cfg.Log.Warn().Err(err).Msg("cannot remove what is left of VMs that were never recorded")
	}
	for _, id := range ids {
		e, err := m.table.hold(m.ctx, id)
		if err != nil {
			return err
		}
		r, err := m.folder.Of(id).Read()
		if err != nil {
			m.cfg.Log.Error().Str("id", id).Err(err).Msg("cannot read the record of a VM: it is left alone until it is deleted")
			r = machine.Unreadable(id, uidOf(m.folder.Of(id)), err.Error())
		}
		m.table.set(e, r)
		m.resume(m.ctx, e)
		m.table.release(e)
	}
	return nil
}

// uidOf is the user that a VM's process runs as, 0 without one.
func uidOf(at machine.Files) uint32 {
	p, runs, err := at.Process()
	if err != nil || !runs {
		return 0
	}
	uid, err := p.UID()
	if err != nil {
		return 0
	}
	return uid
}

// resume continues a held VM's life where it was left, by an earlier process or by a failure.
func (m *Module) resume(ctx context.Context, e *entry) {
	p, runs, err := m.folder.Of(e.id).Process()
	switch r := e.record; {
	case r.Phase == machine.Lost:
		m.readAgain(ctx, e)
	case r.Phase == machine.Stopping:
		m.later(e, 0, m.goOnDeleting)
	case err != nil: // it is being started, or ends
		m.later(e, lookAgain, m.resume)
	case runs:
		if err := m.take(e, p); err != nil {
			m.cfg.Log.Error().Str("id", e.id).Err(err).Msg("cannot adopt a VM: tried again")
			m.later(e, clearAgain, m.resume)
		}
	case r.Phase == machine.Running:
		m.ended(e, "it ended while croft did not run")
	case r.Phase == machine.Starting:
		if m.abandon(ctx, e, errors.New("croft ended while the VM was started")) != nil {
			m.later(e, lookAgain, m.resume)
		}
	default:
		m.schedule(e)
	}
}

// readAgain reads the record of a held VM that could not be read before.
func (m *Module) readAgain(ctx context.Context, e *entry) {
	r, err := m.folder.Of(e.id).Read()
	if err != nil {
		m.later(e, readPause, m.resume)
		return
	}
	m.cfg.Log.Info().Str("id", e.id).Msg("the record of a VM can be read again")
	m.table.set(e, r)
	m.resume(ctx, e)
}

// goOnDeleting continues a held VM's deletion.
func (m *Module) goOnDeleting(ctx context.Context, e *entry) {
	if err := m.clear(ctx, e); err != nil && ctx.Err() == nil {
		m.cfg.Log.Warn().Str("id", e.id).Err(err).Msg("cannot delete a VM: tried again")
		m.later(e, clearAgain, m.resume)
	}
}

// take makes a running process that of a held VM.
func (m *Module) take(e *entry, p machine.Process) error {
	r := e.record
	var err error
	if r.Phase == machine.Waiting {
		r, err = r.Begin(r.Accelerator)
	}
	if r.Phase == machine.Starting && err == nil {
		r, err = r.Began(p, time.Now())
	}
	r.Process = p
	if err := m.save(e, r, err); err != nil {
		return err
	}
	m.cfg.Log.Info().Str("id", e.id).Int("pid", p.PID).Msg("VM adopted")
	return m.watch(e)
}

// watch waits, beside, for the end of a held VM's process.
func (m *Module) watch(e *entry) error {
	p := e.record.Process
	watch, err := carrier.Watch(p.PID)
	if errors.Is(err, unix.ESRCH) || err == nil && !p.Runs() {
		if err == nil {
			watch.Close()
		}
		m.ended(e, "it ended at once; the VM's log has its reason")
		return nil
	}
	if err != nil {
		return err
	}
	if e.process != nil {
		e.process.Close()
	}
	e.process = watch
	m.spawn("watch", func(ctx context.Context) error {
		defer watch.Close()
		select {
		case <-ctx.Done():
			return nil
		case <-watch.Done():
		}
		held, err := m.table.hold(ctx, e.id)
		if err != nil {
			return err
		}
		defer m.table.release(held)
		defer m.hub.Tell(e.id)
		if held.exists && held.record.Phase == machine.Running && held.record.Process == p {
			m.ended(held, m.processes.causeOf(held.record))
		}
		return nil
	})
	return nil
}

// causeOf says why a VM's process has ended, as far as the node can tell. Each start has a control group of its own.
func (p processes) causeOf(r machine.Record) string {
	group, err := cgroup.At(p.cgroup(r.Spec.ID))
	if err == nil && group.Events().OOMKills > 0 {
		return "the kernel has killed it: it needed more memory than it may have"
	}
	return "the guest has powered off or restarted, or QEMU has ended; the VM's log has its last lines"
}

// ended records that a held VM's process has ended by itself, and schedules its next start.
func (m *Module) ended(e *entry, cause string) {
	r, err := e.record.Exited(cause, time.Now(), machine.Pauses())
	if err := m.save(e, r, err); err != nil {
		m.cfg.Log.Error().Str("id", e.id).Err(err).Msg("cannot record the end of a VM: tried again")
		m.later(e, clearAgain, m.resume)
		return
	}
	m.cfg.Log.Warn().Str("id", e.id).Str("cause", cause).Time("next", time.Unix(0, r.Next)).Msg("VM has ended: it is started again")
	m.schedule(e)
}

// schedule starts a held VM that waits when its pause is over.
func (m *Module) schedule(e *entry) {
	m.later(e, e.record.Pause(time.Now()), func(ctx context.Context, e *entry) {
		if err := m.start(ctx, e); err != nil && ctx.Err() == nil {
			m.cfg.Log.Warn().Str("id", e.id).Err(err).Int("failures", e.record.Failures).Msg("cannot start a VM: it is tried again")
		}
	})
}

// later calls f with the held VM after a pause, unless something else happens with the VM before.
func (m *Module) later(e *entry, pause time.Duration, f func(ctx context.Context, e *entry)) {
	stopTimer(e)
	var timer *time.Timer
	timer = time.AfterFunc(max(pause, 0), func() {
		m.spawn("later", func(ctx context.Context) error {
			held, err := m.table.hold(ctx, e.id)
			if err != nil {
				return err
			}
			defer m.table.release(held)
			// A stopped timer whose call was under way isn't this VM's any more.
			if held.exists && held.timer == timer {
				held.timer = nil
				f(ctx, held)
			}
			return nil
		})
	})
	e.timer = timer
}
