package vm

import (
	"context"
	"os"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/modules/vm/qemu"
	"github.com/croft-edge/croft/pkg/cgroup"
	"github.com/croft-edge/croft/pkg/fileid"
)

// emulator is the QEMU of this machine. It is looked for, and its accelerators are tried, when a VM is first started.
type emulator struct {
	name string
	// only is the accelerator that is used without trying; empty: the best one that works.
	only qemu.Accelerator
	// cgroup is the path of the probes' control group, device that of KVM.
	cgroup string
	device string
	// within bounds a probe; 0 for qemu.ProbeTime.
	within time.Duration
	log    zerolog.Logger

	// probing has a token while no probe runs. mu guards what is known, and is never held for long.
	probing chan struct{}
	mu      sync.Mutex
	path    string
	version string
	// general is the outcome for guests in general, kernels those for each kernel.
	general outcome
	kernels map[fileid.ID]outcome
}

func newEmulator(c Config) *emulator {
	e := &emulator{name: c.Program, only: c.Accelerator, cgroup: c.Cgroup + "/probe", device: "/dev/kvm", log: c.Log, probing: make(chan struct{}, 1), kernels: map[fileid.ID]outcome{}}
	e.probing <- struct{}{}
	if c.Accelerator != "" {
		e.general = outcome{accelerator: c.Accelerator, why: "the setting vm-accelerator says so"}
	}
	return e
}

// outcome is an accelerator, and the reason why it isn't KVM. It holds until a time; forever without one.
type outcome struct {
	accelerator qemu.Accelerator
	why         string
	until       time.Time
}

func (o outcome) known() bool {
	return o.accelerator != "" && (o.until.IsZero() || time.Now().Before(o.until))
}

const (
	// mostKernels bounds the remembered kernels.
	mostKernels = 64
	// failureTime is how long KVM isn't tried again after it has failed: the machine may only have been busy.
	failureTime = 10 * time.Minute
	// probeUID is the user that probes run as: above those of VMs.
	probeUID = firstUID + 1<<16
	// probeMemory bounds a probe with its guest's 128 MiB, in bytes.
	probeMemory = 384 << 20
	probePIDs   = 64
	// groupTime is how long an ended probe's control group may take to go.
	groupTime = 5 * time.Second
)

// find returns QEMU's path and version.
func (e *emulator) find(ctx context.Context) (path, version string, err error) {
	e.mu.Lock()
	path, version = e.path, e.version
	e.mu.Unlock()
	if path != "" {
		return path, version, nil
	}
	path, err = qemu.Find(e.name)
	if err != nil {
		return "", "", err
	}
	version, err = qemu.Version(ctx, path)
	if err != nil {
		return "", "", err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.path, e.version = path, version
	return path, version, nil
}

// lastOutcome is the last outcome for guests in general; it waits for nothing.
func (e *emulator) lastOutcome() outcome {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.general
}

// forKernel returns the accelerator for a kernel: KVM only where a probe guest and that kernel have been seen to run with it.
func (e *emulator) forKernel(ctx context.Context, file *os.File) (outcome, error) {
	if e.only != "" {
		return e.lastOutcome(), nil
	}
	path, _, err := e.find(ctx)
	if err != nil {
		return outcome{}, err
	}
	select {
	case <-ctx.Done():
		return outcome{}, ctx.Err()
	case <-e.probing:
	}
	defer func() { e.probing <- struct{}{} }()
	general := e.lastOutcome()
	if !general.known() {
		if general, err = e.try(ctx, path, nil); err != nil {
			return outcome{}, err
		}
		e.mu.Lock()
		e.general = general
		e.mu.Unlock()
		e.log.Info().Str("accelerator", string(general.accelerator)).Str("why", general.why).Msg("how VMs run on this machine")
	}
	if general.accelerator != qemu.KVM {
		return general, nil
	}
	return e.tryKernel(ctx, path, file)
}

// tryKernel tries a kernel with KVM, once.
func (e *emulator) tryKernel(ctx context.Context, path string, file *os.File) (outcome, error) {
	key, err := fileid.Of(file)
	if err != nil {
		return outcome{}, err
	}
	e.mu.Lock()
	result := e.kernels[key]
	e.mu.Unlock()
	if result.known() {
		return result, nil
	}
	if result, err = e.try(ctx, path, file); err != nil {
		return outcome{}, err
	}
	if result.accelerator != qemu.KVM {
		e.log.Warn().Str("why", result.why).Msg("this kernel doesn't run with KVM: its VMs are emulated")
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.kernels) >= mostKernels {
		clear(e.kernels)
	}
	e.kernels[key] = result
	return result, nil
}

// try tries KVM with a kernel, without one with a small guest.
func (e *emulator) try(ctx context.Context, path string, file *os.File) (outcome, error) {
	if _, err := os.Stat(e.device); err != nil {
		return outcome{accelerator: qemu.TCG, why: "this machine has no " + e.device, until: time.Now().Add(failureTime)}, nil
	}
	defer e.endGroup(ctx)
	p := qemu.Prober{Program: path, Accelerator: qemu.KVM, UID: probeUID, Groups: groupsOf(qemu.KVM), Confine: e.confine, Within: e.within}
	err := p.Firmware(ctx)
	if err == nil && file != nil {
		err = p.Kernel(ctx, file)
	}
	switch {
	case err == nil:
		return outcome{accelerator: qemu.KVM}, nil
	case ctx.Err() != nil:
		return outcome{}, ctx.Err()
	}
	return outcome{accelerator: qemu.TCG, why: err.Error(), until: time.Now().Add(failureTime)}, nil
}

// endGroup removes the control group of a probe that has ended.
func (e *emulator) endGroup(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), groupTime)
	defer cancel()
	if err := cgroup.End(ctx, e.cgroup); err != nil {
		e.log.Warn().Err(err).Msg("the control group of probes stays")
	}
}

// confine limits a probe, as far as the machine can.
func (e *emulator) confine(pid int) {
	group, err := cgroup.At(e.cgroup)
	if err == nil {
		err = group.Make()
	}
	if err != nil {
		e.log.Warn().Err(err).Msg("cannot make the control group of probes")
		return
	}
	_ = group.Limit(cgroup.Limits{Memory: probeMemory, PIDs: probePIDs, CPUs: 1})
	for _, err := range group.Enter(pid) {
		e.log.Warn().Err(err).Msg("a probe is outside of its control group")
	}
}
