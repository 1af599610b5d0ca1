package qemu_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/croft-edge/croft/modules/vm/qemu"
	"github.com/croft-edge/croft/pkg/node"
)

const program = "qemu-system-x86_64"

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// patience is for guests that wait for the processors.
const patience = 3 * time.Minute

// TestProbe: the probe's guest runs under TCG, whose emulation is right; a program that isn't QEMU, and one that
// hangs, are told apart from it.
func TestProbe(t *testing.T) {
	t.Parallel()
	path, err := qemu.Find(program)
	must(t, err)
	must(t, qemu.Prober{Program: path, Accelerator: qemu.TCG, UID: 0xf0000400, Within: patience}.Firmware(t.Context()))
	hangs := filepath.Join(t.TempDir(), "hangs")
	must(t, os.WriteFile(hangs, []byte("#!/bin/sh\nexec sleep 1000\n"), 0o700))
	for _, bad := range []struct {
		program, want string
		within        time.Duration
	}{
		{"/bin/true", "without its answer", patience},
		{"/nowhere", "doesn't run", patience},
		{hangs, "within 100ms", 100 * time.Millisecond},
	} {
		err := qemu.Prober{Program: bad.program, Accelerator: qemu.KVM, Within: bad.within}.Firmware(t.Context())
		if err == nil || !strings.Contains(err.Error(), bad.want) {
			t.Errorf("%s: %v, want %q", bad.program, err, bad.want)
		}
	}
}

// TestFirmware: the firmware is what probe.S assembles to.
func TestFirmware(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	object, rom := filepath.Join(dir, "probe.o"), filepath.Join(dir, "probe.rom")
	for _, command := range [][]string{
		{"gcc", "-c", "-m64", "-nostdlib", "-o", object, "probe.S"},
		{"ld", "-m", "elf_x86_64", "-Ttext", "0xffff0000", "-e", "0xffff0000", "--oformat", "binary", "-o", rom, object},
	} {
		if out, err := exec.CommandContext(t.Context(), command[0], command[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", command, err, out)
		}
	}
	want, err := os.ReadFile(rom)
	must(t, err)
	got, err := qemu.Firmware()
	must(t, err)
	if !slices.Equal(got, want) {
		t.Error("probe.S and firmware.go differ: assemble it as this test does, and replace the constants")
	}
}

// TestCommandLine: the whole command line of a machine, per accelerator.
func TestCommandLine(t *testing.T) {
	t.Parallel()
	m := qemu.Machine{
		ID: "7-1", Accelerator: qemu.TCG, Board: qemu.Q35, CPU: 2, Memory: 256, Kernel: 10, Initrd: 11, Arguments: "panic=1",
		Channels: qemu.Channels{QMP: 3, Console: 4, Log: 5}, Drives: []qemu.Drive{{Descriptor: 12, Serial: "data"}, {Descriptor: 13, Serial: "config", ReadOnly: true}}, Network: qemu.Network{Tap: 6, MAC: "02:00:00:00:00:01"},
	}
	got := strings.Join(m.CommandLine(2_000_000), "\n")
	for _, part := range []string{
		"-nodefaults", "-sandbox\non,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny", "-accel\ntcg,tb-size=64", "-cpu\nmax",
		"-smp\n2", "-m\n256M", "-kernel\n/proc/self/fd/10", "-initrd\n/proc/self/fd/11", "-append\nconsole=ttyS0 tsc_early_khz=2000000 tsc=reliable no_timer_check panic=1",
		"socket,id=qmp,fd=3,server=on,wait=off", "logfile=/dev/fdset/5,logappend=on", "virtio-rng-pci",
		"node-name=disk0,read-only=off,discard=ignore", "virtio-blk-pci,drive=disk0,serial=data,discard=off,write-zeroes=off", "file.locking=on,file.filename=/dev/fdset/12",
		"node-name=disk1,read-only=on", "file.locking=off,file.filename=/dev/fdset/13", "-no-reboot", "mem-merge=off,dump-guest-core=off",
		"drive=disk1,serial=config,discard=off,write-zeroes=off", "tap,id=net,fd=6,vhost=off", "virtio-net-pci,netdev=net,mac=02:00:00:00:00:01,romfile=",
	} {
		if !strings.Contains(got, part) {
			t.Errorf("the command line lacks %q:\n%s", part, got)
		}
	}
	m.Drives[0].Discards = true
	for offers, m := range map[bool]qemu.Machine{true: m, false: m.WithoutDiscards()} {
		got := strings.Join(m.CommandLine(2_000_000), "\n")
		for _, part := range []string{"node-name=disk0,read-only=off,discard=unmap,detect-zeroes=off,file.driver=file,file.discard=unmap", "serial=data,discard=on,discard_granularity=4096,write-zeroes=off"} {
			if strings.Contains(got, part) != offers {
				t.Errorf("of a machine that offers discards: %t, the command line has %q: %t\n%s", offers, part, !offers, got)
			}
		}
	}
	m.Accelerator, m.Board, m.Network.Tap, m.Initrd = qemu.KVM, qemu.MicroVM, 0, 0
	got = strings.Join(m.CommandLine(2_000_000), "\n")
	for _, part := range []string{"-cpu\nhost", "-accel\nkvm", "microvm,", "rtc=on", "mem-merge=off,dump-guest-core=off", "virtio-blk-device,drive=disk0", "-append\nconsole=ttyS0 panic=1"} {
		if !strings.Contains(got, part) {
			t.Errorf("the command line with KVM lacks %q:\n%s", part, got)
		}
	}
	for _, part := range []string{"tsc_early_khz", "-netdev", "-initrd", "-pci"} {
		if strings.Contains(got, part) {
			t.Errorf("the command line with KVM has %q:\n%s", part, got)
		}
	}
}

func TestCheckArguments(t *testing.T) {
	t.Parallel()
	must(t, qemu.CheckArguments("7-1", "quiet panic=1 x=\"a b\""))
	for _, line := range []string{"a\nb", "a\x00b", "ü", strings.Repeat("a", 1793)} {
		if err := qemu.CheckArguments("7-1", line); node.KindOf(err) != node.Invalid {
			t.Errorf("%.20q: %v", line, err)
		}
	}
}

// TestVersion is read from the program.
func TestVersion(t *testing.T) {
	t.Parallel()
	version, err := qemu.Version(t.Context(), program)
	if err != nil || version == "" || version[0] < '1' || version[0] > '9' {
		t.Errorf("version %q, %v", version, err)
	}
	if _, err := qemu.Version(t.Context(), "/bin/true"); err == nil {
		t.Error("a program without a version has one")
	}
}
