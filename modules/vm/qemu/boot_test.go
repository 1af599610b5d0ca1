package qemu_test

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/croft-edge/croft/internal/testing/vmguest"
	"github.com/croft-edge/croft/modules/vm/qemu"
)

// TestKernelProbe: a kernel that comes to its root file system runs; something else, and one that takes too long, don't.
func TestKernelProbe(t *testing.T) {
	t.Parallel()
	path, err := qemu.Find(program)
	must(t, err)
	guest := vmguest.Build(t)
	p := qemu.Prober{Program: path, Accelerator: qemu.TCG, UID: 0xf0000400, Within: patience}
	kernel, err := os.Open(guest.Kernel)
	must(t, err)
	defer kernel.Close()
	must(t, p.Kernel(t.Context(), kernel))
	empty, err := os.Open(os.DevNull)
	must(t, err)
	defer empty.Close()
	if err := p.Kernel(t.Context(), empty); err == nil || !strings.Contains(err.Error(), "doesn't run") {
		t.Errorf("no kernel: %v", err)
	}
	p.Within = 100 * time.Millisecond
	if err := p.Kernel(t.Context(), kernel); err == nil || !strings.Contains(err.Error(), "within 100ms") {
		t.Errorf("a kernel that takes too long: %v", err)
	}
}

// TestMicroVM: the board that is used with KVM boots the guest, with its disk, under TCG too.
func TestMicroVM(t *testing.T) {
	t.Parallel()
	guest := vmguest.Build(t)
	dir := t.TempDir()
	var files []*os.File
	add := func(file *os.File, err error) int {
		t.Helper()
		must(t, err)
		t.Cleanup(func() { _ = file.Close() })
		files = append(files, file)
		return 2 + len(files)
	}
	socket := func(name string) int {
		t.Helper()
		listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(dir, name), Net: "unix"})
		must(t, err)
		t.Cleanup(func() { _ = listener.Close() })
		return add(listener.File())
	}
	disk, output := filepath.Join(dir, "disk"), filepath.Join(dir, "output")
	must(t, os.WriteFile(disk, make([]byte, 1<<20), 0o600))
	must(t, os.WriteFile(output, nil, 0o600))
	m := qemu.Machine{
		ID: "7-1", Accelerator: qemu.TCG, Board: qemu.MicroVM, CPU: 1, Memory: 128, Arguments: "quiet panic=1",
		Kernel: add(os.Open(guest.Kernel)), Initrd: add(os.Open(guest.Initrd)),
		Channels: qemu.Channels{QMP: socket("qmp"), Console: socket("console"), Log: add(os.OpenFile(output, os.O_WRONLY|os.O_APPEND, 0))},
		Drives:   []qemu.Drive{{Descriptor: add(os.OpenFile(disk, os.O_RDWR, 0)), Serial: "data"}},
	}
	khz, err := qemu.ClockKHz(t.Context(), qemu.TCG)
	must(t, err)
	cmd := exec.CommandContext(t.Context(), program, m.CommandLine(khz)...)
	cmd.ExtraFiles = files
	var said strings.Builder
	cmd.Stdout, cmd.Stderr = &said, &said
	must(t, cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	deadline := time.After(patience)
	for {
		text, err := os.ReadFile(output)
		must(t, err)
		if strings.Contains(string(text), "guest boot 1 with data disk") && strings.Contains(string(text), "guest ready") {
			break
		}
		select {
		case err := <-ended:
			t.Fatalf("QEMU has ended: %v: %s\n%s", err, said.String(), text)
		case <-deadline:
			t.Fatalf("the guest isn't ready:\n%s", text)
		case <-time.After(50 * time.Millisecond):
		}
	}
	must(t, cmd.Process.Kill())
	<-ended
}
