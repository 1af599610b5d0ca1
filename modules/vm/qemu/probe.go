package qemu

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/pkg/clip"
)

// ProbeTime is how long a probe's guest may take by default. One that needs longer doesn't run: on some machines /dev/kvm
// can be opened, and guests hang.
const ProbeTime = 5 * time.Second

// Prober runs short guests to find out whether an accelerator works.
type Prober struct {
	// Program is QEMU's path.
	Program     string
	Accelerator Accelerator
	// UID is the user that QEMU runs as, Groups its groups: a probed kernel may be hostile. 0 is the caller's.
	UID    uint32
	Groups []uint32
	// Confine, if any, limits a process that has just been started.
	Confine func(pid int)
	// Within bounds each probe; 0 for ProbeTime.
	Within time.Duration
}

func (p Prober) bound(ctx context.Context) (context.Context, context.CancelFunc, time.Duration) {
	within := p.Within
	if within <= 0 {
		within = ProbeTime
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	return ctx, cancel, within
}

// Firmware runs a guest of some hundred instructions, which does what each kernel does first (see probe.S). It returns nil when
// the guest has run in time, else the reason why not.
func (p Prober) Firmware(ctx context.Context) error {
	rom, err := firmwareFile()
	if err != nil {
		return err
	}
	defer rom.Close()
	a := p.Accelerator
	ctx, cancel, within := p.bound(ctx)
	defer cancel()
	out, code, err := p.run(ctx, rom, "-m", "16M", "-bios", opened(firstFile), "-device", "isa-debug-exit,iobase=0xf4,iosize=0x04")
	switch {
	case ctx.Err() != nil:
		return errors.Errorf("a probe guest with %s has not run within %s", a, within)
	case code == status:
		return nil
	case err != nil:
		return errors.Errorf("a probe guest with %s doesn't run: %v: %s", a, err, clip.Line(out, longestOutput))
	}
	return errors.Errorf("a probe guest with %s has ended without its answer: %s", a, clip.Line(out, longestOutput))
}

// Kernel boots a kernel without a root file system until it gives up, which shows that it really runs: on some
// machines short guests run with KVM and kernels hang. It returns nil when the kernel came that far in time.
func (p Prober) Kernel(ctx context.Context, kernel *os.File) error {
	a := p.Accelerator
	khz, err := ClockKHz(ctx, a)
	if err != nil {
		return err
	}
	ctx, cancel, within := p.bound(ctx)
	defer cancel()
	line := Machine{Accelerator: a, Arguments: "panic=-1"}.append(khz)
	out, _, err := p.run(ctx, kernel, "-m", "128M", "-kernel", opened(firstFile), "-append", line, "-serial", "stdio")
	switch {
	case strings.Contains(out, "Kernel panic"):
		return nil
	case ctx.Err() != nil:
		return errors.Errorf("kernel %s with %s has not come to its root file system within %s", kernel.Name(), a, within)
	}
	return errors.Errorf("kernel %s doesn't run with %s: %v: %s", kernel.Name(), a, err, clip.Line(tail(out), longestOutput))
}

const (
	// longestOutput bounds QEMU's output in errors, mostOutput what is kept of it; bytes.
	longestOutput = 300
	mostOutput    = 64 << 10
	// firstFile is the number of the first file that a process gets beside the standard ones.
	firstFile = 3
)

func tail(s string) string { return s[max(0, len(s)-longestOutput):] }

// output keeps the last part of what a process prints.
type output struct{ kept []byte }

// Write implements io.Writer.
func (o *output) Write(p []byte) (int, error) {
	o.kept = append(o.kept, p...)
	if over := len(o.kept) - mostOutput; over > 0 {
		o.kept = append(o.kept[:0], o.kept[over:]...)
	}
	return len(p), nil
}

// run runs a guest on the board and the processor of a VM with that accelerator, until it ends or ctx is done.
func (p Prober) run(ctx context.Context, file *os.File, args ...string) (out string, code int, err error) {
	m := Machine{Accelerator: p.Accelerator, Board: BoardOf(p.Accelerator)}
	cmd := exec.CommandContext(ctx, p.Program, append([]string{
		"-nodefaults", "-no-user-config", "-display", "none", "-no-reboot", "-sandbox", sandbox,
		"-machine", m.machine(), "-accel", m.accelerator(), "-cpu", m.processor(),
	}, args...)...)
	cmd.WaitDelay = time.Second
	cmd.Dir, cmd.Env = "/", []string{}
	cmd.ExtraFiles = []*os.File{file}
	var said output
	cmd.Stdout, cmd.Stderr = &said, &said
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if p.UID != 0 {
		cmd.SysProcAttr.Cloneflags = unix.CLONE_NEWNET | unix.CLONE_NEWIPC
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: p.UID, Gid: p.UID, Groups: p.Groups}
	}
	// The process ends with the thread that starts it, so also with a killed agent.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	err = cmd.Start()
	if err == nil {
		if p.Confine != nil {
			p.Confine(cmd.Process.Pid)
		}
		err = cmd.Wait()
	}
	if cmd.ProcessState != nil {
		code = cmd.ProcessState.ExitCode()
	}
	return strings.ToValidUTF8(string(said.kept), "?"), code, err
}

// firmwareFile is an open file in memory with the firmware.
func firmwareFile() (*os.File, error) {
	rom, err := firmware()
	if err != nil {
		return nil, errors.Wrap(err, "cannot decode the probe's firmware")
	}
	fd, err := unix.MemfdCreate("croft-vm-probe", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, errors.Wrap(err, "cannot write the probe's firmware")
	}
	file := os.NewFile(uintptr(fd), "firmware")
	if _, err := file.Write(rom); err != nil {
		_ = file.Close()
		return nil, errors.Wrap(err, "cannot write the probe's firmware")
	}
	return file, nil
}

// Find returns the path of QEMU for this machine's architecture.
func Find(program string) (string, error) {
	path, err := exec.LookPath(program)
	if err != nil {
		return "", errors.Errorf("there is no %s: VMs need it (package qemu-system-x86)", program)
	}
	return filepath.Abs(path)
}

// versionTime bounds the question for QEMU's version.
const versionTime = 30 * time.Second

// Version is QEMU's version, such as "7.2.19".
func Version(ctx context.Context, program string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, versionTime)
	defer cancel()
	out, err := exec.CommandContext(ctx, program, "--version").Output()
	if err != nil {
		return "", errors.Wrapf(err, "cannot ask %s for its version", program)
	}
	// "QEMU emulator version 7.2.19 (Debian 1:7.2+dfsg-7+deb12u18)"
	for i, fields := 0, strings.Fields(string(out)); i+1 < len(fields); i++ {
		if fields[i] == "emulator" && fields[i+1] == "version" && i+2 < len(fields) {
			return fields[i+2], nil
		}
	}
	return "", errors.Errorf("cannot read the version that %s prints", program)
}
