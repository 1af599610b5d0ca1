package vmguest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/internal/testing/netlab"
	"github.com/croft-edge/croft/modules/vm/qemu"
	"github.com/croft-edge/croft/pkg/nocloud"
)

// Options say how Boot boots the guest.
type Options struct {
	// Config is the config disk; nil for none.
	Config *nocloud.Config
	// Disks are raw images, which the guest may write.
	Disks []string
	// Network is where Tap is; nil for a guest without an interface.
	Network *netlab.Namespace
	// MAC is the interface's hardware address.
	MAC string
	// CommandLine is added to the kernel's.
	CommandLine string
	// MemoryMiB is 128 by default.
	MemoryMiB int
}

// CheapBoot are parameters of the kernel's command line that make a boot cheaper: without tests of algorithms that the
// guest doesn't use it takes 2.2 seconds of a processor rather than 2.5 under TCG, until HTTP is served. It serves
// after 2.5 seconds on a machine with little else to do. Without them it boots just as well. What doesn't help: an
// initrd that isn't compressed, no address randomization, no mitigations, another model of processor.
const CheapBoot = "cryptomgr.notests"

// TapName is the interface of Options.Network that leads to the guest.
const TapName = "guest0"

// VM is a running guest. It is killed when the test ends.
type VM struct {
	// Console is what the guest has printed.
	Console *Output
	cmd     *exec.Cmd
	input   io.Writer
	monitor *os.File
	ended   chan struct{}
}

// Boot starts QEMU with a guest, without hardware virtualization.
func Boot(t testing.TB, o Options) *VM {
	t.Helper()
	vm, err := boot(t, o)
	if err != nil {
		t.Fatalf("vmguest: cannot boot the guest: %v", err)
	}
	return vm
}

func boot(t testing.TB, o Options) (*VM, error) {
	args, err := arguments(Build(t), o)
	if err != nil {
		return nil, err
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	vm := &VM{Console: &Output{}, monitor: os.NewFile(uintptr(pair[0]), "monitor"), ended: make(chan struct{})}
	t.Cleanup(func() { vm.monitor.Close() })
	theirs := os.NewFile(uintptr(pair[1]), "their monitor")
	defer theirs.Close()
	files := []*os.File{theirs} // file descriptor 3
	args = append(args, "-chardev", "socket,id=monitor,fd=3", "-mon", "chardev=monitor,mode=control")
	if o.Config != nil {
		name := filepath.Join(t.TempDir(), "config")
		if err := writeConfig(name, *o.Config); err != nil {
			return nil, err
		}
		args = append(args, disk("config", name, "readonly=on")...)
	}
	if o.Network != nil {
		tap := o.Network.Tap(TapName)
		// The interface goes with QEMU.
		defer tap.Close()
		files = append(files, tap) // file descriptor 4
		args = append(args, "-netdev", "tap,id=net,fd=4", "-device", "virtio-net-pci,romfile=,netdev=net,mac="+o.MAC)
	}
	vm.cmd = exec.Command("qemu-system-x86_64", args...) //nolint:noctx // it is killed when the test ends
	vm.cmd.ExtraFiles = files
	vm.cmd.Stdout, vm.cmd.Stderr = vm.Console, vm.Console
	vm.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if vm.input, err = vm.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if err := vm.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(vm.ended)
		vm.cmd.Wait() //nolint:errcheck // how it ended is in its state
	}()
	t.Cleanup(func() {
		vm.cmd.Process.Kill() //nolint:errcheck // it may have ended
		<-vm.ended
		if t.Failed() {
			t.Logf("the guest's console:\n%s", vm.Console)
		}
	})
	return vm, nil
}

func writeConfig(name string, c nocloud.Config) error {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	return nocloud.Write(f, c)
}

// arguments are QEMU's, but for what needs file descriptors.
func arguments(g Guest, o Options) ([]string, error) {
	clock, err := SteadyClock()
	if err != nil {
		return nil, err
	}
	memory := o.MemoryMiB
	if memory == 0 {
		memory = 128
	}
	args := []string{
		"-accel", "tcg", "-machine", "q35", "-smp", "1", "-m", strconv.Itoa(memory), "-nodefaults", "-no-user-config",
		"-display", "none", "-chardev", "stdio,id=console,signal=off", "-serial", "chardev:console", "-no-reboot",
		"-kernel", g.Kernel, "-initrd", g.Initrd,
		"-append", strings.TrimSpace("console=ttyS0 quiet panic=1 " + CheapBoot + " " + clock + " " + o.CommandLine),
	}
	for i, name := range o.Disks {
		args = append(args, disk("disk"+strconv.Itoa(i), name, "discard=unmap")...)
	}
	return args, nil
}

func disk(id, file, option string) []string {
	return []string{
		"-drive", fmt.Sprintf("if=none,id=%s,format=raw,file=%s,%s", id, file, option),
		"-device", fmt.Sprintf("virtio-blk-pci,drive=%s,serial=%s", id, id),
	}
}

// SteadyClock are parameters of the kernel's command line for guests without hardware virtualization, which a busy
// host stops for a while at any moment. A kernel measures its clock's rate against another clock, and may measure
// forever; it compares both clocks, and may give up the better one; it waits a few ticks for the timer's interrupt,
// and else panics ("MP-BIOS bug: 8254 timer not connected to IO-APIC").
func SteadyClock() (string, error) {
	khz, err := qemu.ClockKHz(context.Background(), qemu.TCG)
	return qemu.SteadyClock(khz), err
}

// Type types a line on the console.
func (vm *VM) Type(line string) error {
	_, err := io.WriteString(vm.input, line+"\n")
	return err
}

// PressPower presses the power button.
func (vm *VM) PressPower() error {
	_, err := vm.monitor.WriteString(`{"execute":"qmp_capabilities"}` + "\n" + `{"execute":"system_powerdown"}` + "\n")
	return err
}

// Ended is closed when QEMU has ended.
func (vm *VM) Ended() <-chan struct{} { return vm.ended }

// Used is the processor time of QEMU, which must have ended.
func (vm *VM) Used() time.Duration {
	return vm.cmd.ProcessState.UserTime() + vm.cmd.ProcessState.SystemTime()
}

// Output collects what a process prints. It is safe for concurrent use.
type Output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements io.Writer.
func (o *Output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(b)
}

// String is what was printed until now.
func (o *Output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}
