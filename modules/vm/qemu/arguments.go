package qemu

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/croft-edge/croft/modules/vm/discard"
	"github.com/croft-edge/croft/pkg/node"
)

// Accelerator is what executes a guest's instructions.
type Accelerator string

// The accelerators.
const (
	// KVM is the processor itself.
	KVM Accelerator = "kvm"
	// TCG translates instructions: 20 to 25 times slower, and works everywhere.
	TCG Accelerator = "tcg"
)

// Board is the machine that QEMU emulates.
type Board string

// The boards.
const (
	// Q35 is a PC with PCI Express.
	Q35 Board = "q35"
	// MicroVM is a machine without PCI, which boots faster with KVM.
	MicroVM Board = "microvm"
)

// BoardOf is the board that boots fastest with an accelerator: under TCG microvm isn't faster than q35, and less usual.
func BoardOf(a Accelerator) Board {
	if a == KVM {
		return MicroVM
	}
	return Q35
}

// Drive is a disk of a machine.
type Drive struct {
	// Descriptor is that of the raw image.
	Descriptor int
	Serial     string
	ReadOnly   bool
	// Discards is whether the guest is offered discards, which QEMU makes holes of in the image (FALLOC_FL_PUNCH_HOLE).
	Discards bool
}

// Machine is one virtual machine. Its descriptors are the numbers that QEMU has them under.
type Machine struct {
	// ID is in the process's name and command line, for people.
	ID          string
	Accelerator Accelerator
	Board       Board
	// CPU is in cores, Memory in MiB.
	CPU    uint64
	Memory uint64
	// Kernel and Initrd are descriptors of files; Initrd is 0 for none.
	Kernel    int
	Initrd    int
	Arguments string
	Channels  Channels
	Drives    []Drive
	// Network is without a Tap for a machine without an interface.
	Network Network
}

// Channels are how the node and a machine talk: descriptors.
type Channels struct {
	// QMP and Console are listening unix sockets, Log a file or a FIFO that the console's output is also written to, for
	// writing only.
	QMP     int
	Console int
	Log     int
}

// Network is a machine's network interface.
type Network struct {
	// Tap is the descriptor of a tap device with vnet headers; MAC is the guest's.
	Tap int
	MAC string
}

// TranslationCache is the memory that TCG keeps translated instructions in, in MiB. QEMU's default is a quarter of
// its host's memory, at most 1 GiB.
const TranslationCache = 64

// Overhead is what a VM needs of the node's memory beside the guest's, in bytes: QEMU's own, that of the discarder, and the kernel's
// tables of the guest's pages, which count in the control group of the process. With pages of 4 KiB a table takes 1/512 of the memory, and KVM has
// one beside the process's. TCG has translated code, and tables of pages for each core, that grow with what the guest uses.
func Overhead(a Accelerator, memory, cpu uint64) uint64 {
	const (
		emulator = 128 << 20
		table    = 512
		perCore  = 16 << 20
	)
	overhead := emulator + discard.Memory + memory/table*2
	if a == TCG {
		overhead += TranslationCache<<20 + cpu*perCore
	}
	return overhead
}

// sandbox allows QEMU no system call that it doesn't need once it runs, such as those that start programs.
const sandbox = "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny"

// CommandLine are the arguments of QEMU for the machine, without the program's name.
func (m Machine) CommandLine(tscKHz uint64) []string {
	args := []string{
		"-name", "guest=" + m.ID, "-nodefaults", "-no-user-config", "-display", "none", "-sandbox", sandbox,
		// A reset ends QEMU, so that a kernel that panics again and again is seen, and started with pauses.
		"-no-reboot",
		"-machine", m.machine(), "-accel", m.accelerator(), "-cpu", m.processor(),
		"-smp", strconv.FormatUint(m.CPU, 10), "-m", strconv.FormatUint(m.Memory, 10) + "M",
		"-kernel", opened(m.Kernel), "-append", m.append(tscKHz),
	}
	if m.Initrd != 0 {
		args = append(args, "-initrd", opened(m.Initrd))
	}
	args = append(args,
		"-chardev", fmt.Sprintf("socket,id=qmp,fd=%d,server=on,wait=off", m.Channels.QMP), "-mon", "chardev=qmp,mode=control",
		"-add-fd", fmt.Sprintf("set=%d,fd=%d", m.Channels.Log, m.Channels.Log),
		"-chardev", fmt.Sprintf("socket,id=console,fd=%d,server=on,wait=off,logfile=/dev/fdset/%d,logappend=on", m.Channels.Console, m.Channels.Log),
		"-serial", "chardev:console", "-device", m.device("virtio-rng"))
	for i, d := range m.Drives {
		args = append(args, m.drive(i, d)...)
	}
	if m.Network.Tap != 0 {
		args = append(args, "-netdev", fmt.Sprintf("tap,id=net,fd=%d,vhost=off", m.Network.Tap), "-device", m.device("virtio-net", "netdev=net", "mac="+m.Network.MAC))
	}
	return args
}

// WithoutDiscards is the same machine whose guest is offered no discards. The machine stays unchanged.
func (m Machine) WithoutDiscards() Machine {
	m.Drives = slices.Clone(m.Drives)
	for i := range m.Drives {
		m.Drives[i].Discards = false
	}
	return m
}

// machine is the board without devices that nobody needs.
func (m Machine) machine() string {
	if m.Board == MicroVM {
		return "microvm,acpi=on,pcie=off,usb=off,rtc=on,graphics=off,x-option-roms=off,auto-kernel-cmdline=off,mem-merge=off,dump-guest-core=off"
	}
	return "q35,usb=off,graphics=off,vmport=off,smbus=off,sata=off,i8042=off,mem-merge=off,dump-guest-core=off"
}

func (m Machine) accelerator() string {
	if m.Accelerator == TCG {
		return fmt.Sprintf("tcg,tb-size=%d", TranslationCache)
	}
	return string(m.Accelerator)
}

// processor is the node's own with KVM; TCG's has everything that it can emulate.
func (m Machine) processor() string {
	if m.Accelerator == KVM {
		return "host"
	}
	return "max"
}

// append is the kernel's command line. A kernel under TCG that measures its time stamp counter against emulated timers, or checks
// these, hangs when the node is busy.
func (m Machine) append(tscKHz uint64) string {
	parts := []string{"console=ttyS0"}
	if m.Accelerator == TCG {
		parts = append(parts, SteadyClock(tscKHz))
	}
	if m.Arguments != "" {
		parts = append(parts, m.Arguments)
	}
	return strings.Join(parts, " ")
}

// SteadyClock are parameters for a kernel under TCG, which a busy node stops for a while at any moment: the clock's rate, that the
// clock needn't be compared with another, and that the timer's interrupt needn't come at once.
func SteadyClock(tscKHz uint64) string {
	return fmt.Sprintf("tsc_early_khz=%d tsc=reliable no_timer_check", tscKHz)
}

// discardGranularity is the least that a guest discards, in bytes: a block of btrfs.
const discardGranularity = 4096

// drive is a virtio disk: raw, with the guest's flushes passed on. It offers the guest no zeroing without data: where that covers a
// part of what was written at once, btrfs keeps the old space beside the new (docs/storage.md), and the disk would end before its
// size. A guest writes its zeros then. Discards are as harmful, unless the discarder makes the holes (package discard). Of a guest's
// discard QEMU (7.2, block/file-posix.c, handle_aiocb_discard) makes a hole or, where that can't be, nothing. The guest
// gets the errors of its disk; by default QEMU would pause it for some of them.
func (m Machine) drive(i int, d Drive) []string {
	// QEMU locks its disks against another QEMU. VMs share read-only ones, on which anyone's lock could keep the others from starting.
	readOnly, locking := "off", "on"
	if d.ReadOnly {
		readOnly, locking = "on", "off"
	}
	onImage, offered := "ignore", []string{"discard=off"}
	if d.Discards {
		onImage, offered = "unmap", []string{"discard=on", fmt.Sprintf("discard_granularity=%d", discardGranularity)}
	}
	name := fmt.Sprintf("disk%d", i)
	options := append([]string{"drive=" + name, "serial=" + d.Serial}, offered...)
	return []string{
		"-add-fd", fmt.Sprintf("set=%d,fd=%d", d.Descriptor, d.Descriptor),
		"-blockdev", fmt.Sprintf("driver=raw,node-name=%s,read-only=%s,discard=%s,detect-zeroes=off,file.driver=file,file.discard=%s,file.locking=%s,file.filename=/dev/fdset/%d",
			name, readOnly, onImage, onImage, locking, d.Descriptor),
		"-device", m.device("virtio-blk", append(options, "write-zeroes=off", "werror=report", "rerror=report")...),
	}
}

// device is a virtio device on the board's bus; those of PCI have no boot ROM.
func (m Machine) device(kind string, options ...string) string {
	if m.Board == MicroVM {
		return strings.Join(append([]string{kind + "-device"}, options...), ",")
	}
	name := kind + "-pci"
	if kind == "virtio-net" {
		options = append(options, "romfile=")
	}
	return strings.Join(append([]string{name}, options...), ",")
}

// opened is the path of an open file.
func opened(descriptor int) string { return fmt.Sprintf("/proc/self/fd/%d", descriptor) }

// CheckArguments returns Invalid for a kernel command line that isn't one line of printable ASCII, or is longer than
// Linux takes (2 KiB on x86, less what croft adds).
func CheckArguments(id, line string) error {
	const longest = 1792
	if len(line) > longest {
		return node.Errorf(node.Invalid, "cannot run VM %s: Arguments has %d bytes, must have at most %d", id, len(line), longest)
	}
	for _, r := range line {
		if r < ' ' || r > '~' {
			return node.Errorf(node.Invalid, "cannot run VM %s: Arguments has the character %q, must be printable ASCII", id, r)
		}
	}
	return nil
}
