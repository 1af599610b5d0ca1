package vm

import (
	"context"
	"time"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/modules/vm/launch"
	"github.com/croft-edge/croft/modules/vm/machine"
	"github.com/croft-edge/croft/modules/vm/qemu"
	"github.com/croft-edge/croft/modules/vm/qmp"
	"github.com/croft-edge/croft/pkg/carrier"
	"github.com/croft-edge/croft/pkg/cgroup"
	"github.com/croft-edge/croft/pkg/node"
)

// processes starts and ends the processes of VMs. It knows no phases: its caller holds the VM.
type processes struct {
	cfg      Config
	folder   *machine.Folder
	emulator *emulator
}

// cgroup is the path of a VM's control group.
func (p processes) cgroup(id string) string { return p.cfg.Cgroup + "/vm-" + id }

// pressAgain is the pause between two presses of the power button: a guest that boots misses the first ones.
const pressAgain = 2 * time.Second

// launch starts the VM's process, and returns once QEMU answers.
func (p processes) launch(ctx context.Context, r machine.Record) (machine.Process, error) {
	at := p.folder.Of(r.Spec.ID)
	// Nothing runs the VM. What an earlier process has started against its sandbox ends, and the group's counters begin anew.
	if err := p.endGroup(ctx, r.Spec.ID); err != nil {
		return machine.Process{}, err
	}
	program, _, err := p.emulator.find(ctx)
	if err != nil {
		return machine.Process{}, err
	}
	accelerator := qemu.Accelerator(r.Accelerator)
	khz, err := qemu.ClockKHz(ctx, accelerator)
	if err != nil {
		return machine.Process{}, err
	}
	console, err := p.cfg.Logs.Open(ctx, r.Spec.ID, r.Spec.User)
	if err != nil {
		return machine.Process{}, err
	}
	vm := qemu.Machine{
		ID: r.Spec.ID, Accelerator: accelerator, Board: qemu.BoardOf(accelerator),
		CPU: r.Spec.CPU, Memory: r.Spec.Memory >> 20, Arguments: r.Spec.Arguments,
	}
	files, err := openFiles(ctx, r, at, console, &vm)
	if err != nil {
		return machine.Process{}, err
	}
	ended, err := launch.Start(p.cfg.Command, launch.Order{
		Files: at, Attempt: r.Attempt, Program: program, Arguments: vm.WithoutDiscards().CommandLine(khz), UID: r.UID, Groups: groupsOf(accelerator),
		Cgroup: p.cgroup(r.Spec.ID), Limits: cgroup.Limits{Memory: memory(r), NoSwap: true, PIDs: mostPIDs + r.Spec.CPU, CPUs: r.Spec.CPU, CPUWeight: min(100*r.Spec.CPU, 10_000)},
		Discards: p.discards(r, vm, khz),
	}, files, console)
	// From here on only the process has them: its sockets are closed when it ends.
	files.Close()
	if err != nil {
		return machine.Process{}, err
	}
	return p.awaitAnswer(ctx, at, ended)
}

// discards are the discards of a VM that is started as this machine.
func (p processes) discards(r machine.Record, vm qemu.Machine, khz uint64) launch.Discards {
	out := launch.Discards{Command: p.cfg.Discarder, UID: r.UID + discarderUIDs, Arguments: vm.CommandLine(khz)}
	for _, d := range vm.Drives {
		if d.Discards {
			out.Disks = append(out.Disks, d.Descriptor)
		}
	}
	return out
}

// groupsOf are the groups of a VM's process: with KVM that of /dev/kvm.
func groupsOf(a qemu.Accelerator) []uint32 {
	var info unix.Stat_t
	if a != qemu.KVM || unix.Stat("/dev/kvm", &info) != nil || info.Gid == 0 {
		return nil
	}
	return []uint32{info.Gid}
}

// awaitAnswer waits until a started QEMU answers. One that doesn't in time is killed.
func (p processes) awaitAnswer(ctx context.Context, at machine.Files, ended <-chan error) (machine.Process, error) {
	ctx, cancel := context.WithTimeout(ctx, p.cfg.Answer)
	defer cancel()
	dead := make(chan struct{})
	var outcome error
	go func() { outcome = <-ended; close(dead) }() // also so that no zombie stays
	for {
		client, err := qmp.Dial(ctx, at.QMP())
		if err == nil {
			client.Close()
			one, runs, err := at.Process()
			if err == nil && !runs {
				err = node.Errorf(node.Transient, "cannot start the VM in %s: its process has ended", at)
			}
			return one, err
		}
		select {
		case <-dead:
			return machine.Process{}, node.Errorf(node.Transient, "cannot start the VM: QEMU has ended (%v); the VM's log has its reason", outcome)
		case <-ctx.Done():
			if one, runs, err := at.Process(); err == nil && runs {
				err = kill(one)
				p.cfg.Log.Warn().Int("pid", one.PID).Err(err).Msg("a QEMU has not answered in time: it is killed")
			}
			return machine.Process{}, node.Errorf(node.Transient, "cannot start the VM: QEMU has not answered within %s", p.cfg.Answer)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// kill kills a process, and none that has got its number since.
func kill(p machine.Process) error {
	watch, err := carrier.Watch(p.PID)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	if err != nil {
		return err
	}
	defer watch.Close()
	if !p.Runs() {
		return nil
	}
	return killWatched(watch)
}

// killWatched kills a watched process; one that has just ended is no error.
func killWatched(watch *carrier.Process) error {
	if err := watch.Signal(unix.SIGKILL); !errors.Is(err, unix.ESRCH) {
		return err
	}
	return nil
}

// endGroup ends a VM's control group with all that is in it.
func (p processes) endGroup(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(ctx, endTime)
	defer cancel()
	if err := cgroup.End(ctx, p.cgroup(id)); err != nil {
		return node.Errorf(node.Busy, "cannot end the processes of VM %s: %w", id, err)
	}
	return nil
}

// powerOff lets the guest power itself off, and kills a QEMU whose guest doesn't.
func (p processes) powerOff(ctx context.Context, at machine.Files, one machine.Process) error {
	watch, err := carrier.Watch(one.PID)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	if err != nil {
		return err
	}
	defer watch.Close()
	if !one.Runs() {
		return nil
	}
	deadline := time.After(p.cfg.PowerOff)
	press := time.NewTicker(pressAgain)
	defer press.Stop()
	for {
		if err := pressButton(ctx, at); err != nil {
			p.cfg.Log.Debug().Int("pid", one.PID).Err(err).Msg("cannot press the power button of a VM")
		}
		select {
		case <-watch.Done():
			return nil
		case <-press.C:
			continue
		case <-ctx.Done():
			return node.Errorf(node.Transient, "cannot wait for a VM to power off: %w", ctx.Err())
		case <-deadline:
		}
		break
	}
	p.cfg.Log.Warn().Int("pid", one.PID).Dur("after", p.cfg.PowerOff).Msg("a guest has not powered off: its VM is ended")
	if err := killWatched(watch); err != nil {
		return err
	}
	select {
	case <-watch.Done():
		return nil
	case <-time.After(endTime):
		return node.Errorf(node.Busy, "cannot end process %d of a VM: it has not ended %s after its kill", one.PID, endTime)
	}
}

func pressButton(ctx context.Context, at machine.Files) error {
	ctx, cancel := context.WithTimeout(ctx, pressAgain)
	defer cancel()
	client, err := qmp.Dial(ctx, at.QMP())
	if err != nil {
		return err
	}
	defer client.Close()
	return client.PowerDown(ctx)
}
