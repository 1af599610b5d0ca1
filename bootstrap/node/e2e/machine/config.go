package machine

import (
	"strconv"
	"strings"
	"time"

	"github.com/croft-edge/croft/internal/testing/netlab"
)

// Config is what a machine is made of.
type Config struct {
	// Name names the machine's files and its network interface.
	Name string
	// Dir is a folder for its files, on a disk; its path is short, because paths of sockets must be. Keep is a folder for consoles and
	// pictures of the screen of a test that has failed; empty for none.
	Dir, Keep string
	Boot      Boot
	// MemoryMiB is 2048 by default.
	MemoryMiB int
	Disks     []Disk
	Network   Network
	// Namespace is where QEMU runs: addresses of a User network are those of this namespace.
	Namespace *netlab.Namespace
	// Time is what the battery's clock shows when the machine is switched on; the host's time when it is zero.
	Time func() time.Time
	// More are further arguments for QEMU.
	More []string
}

// Boot is what a machine boots. Either Kernel or Image is given.
type Boot struct {
	// Kernel and Initrd are files that QEMU loads itself, Append is the kernel's command line. Without Initrd, Kernel is a boot loader.
	Kernel, Initrd, Append string
	// Image is a medium that the firmware boots: a disk, or a CD whose name ends with .iso. It isn't changed, unless Writable is set.
	Image    string
	Writable bool
	// USB has Image on a USB stick rather than on a disk.
	USB bool
	// UEFI has UEFI as the firmware rather than a BIOS.
	UEFI bool
}

// Disk is a virtio disk.
type Disk struct {
	// Serial is its serial number, by which it is found below /dev/disk/by-id.
	Serial string
	// Image is its raw image.
	Image    string
	ReadOnly bool
	// Careless disks lose in a power cut what was written but not flushed: see package powercut. Others lose nothing.
	Careless bool
}

// Network is a machine's only network: a user's or a tap.
type Network struct {
	// TCP and UDP are ports of Config.Namespace that lead to the same ports of the machine, which is behind a NAT at 10.0.2.15.
	TCP, UDP []int
	// BootFile is what DHCP names as the boot file of a machine behind a NAT.
	BootFile string
	// Bridge is a bridge of Config.Namespace to which the machine is connected instead.
	Bridge string
	// MAC is the interface's hardware address; empty for one of QEMU's.
	MAC string
	// Model is QEMU's name of the network card; virtio-net-pci by default.
	Model string
}

// AgentPort is where package agent listens.
const AgentPort = 7777

// ovmf is Debian's UEFI firmware, of the package ovmf.
const ovmf = "/usr/share/OVMF/OVMF_"

// drive is a block device without its front.
func drive(id, file string, options ...string) []string {
	return []string{"-drive", strings.Join(append([]string{"if=none", "id=" + id, "format=raw", "file=" + file}, options...), ",")}
}

// arguments are QEMU's but for what a boot makes anew. file is what QEMU opens for each disk.
func (c Config) arguments(file func(Disk) string) []string {
	memory := c.MemoryMiB
	if memory == 0 {
		memory = 2048
	}
	args := []string{
		"-accel", "tcg,thread=multi", "-machine", "q35", "-smp", "2", "-m", strconv.Itoa(memory), "-nodefaults", "-no-user-config",
		"-display", "none", "-vga", "std", "-device", "virtio-rng-pci",
	}
	for i, d := range c.Disks {
		id := "disk" + strconv.Itoa(i)
		// A disk with a write cache: the guest flushes it.
		options := []string{"cache=writeback", "discard=unmap"}
		if d.ReadOnly {
			options = []string{"readonly=on"}
		}
		args = append(args, drive(id, file(d), options...)...)
		args = append(args, "-device", "virtio-blk-pci,drive="+id+",serial="+d.Serial)
	}
	return append(args, c.More...)
}

// bootArguments are QEMU's for what it boots.
func (b Boot) arguments() []string {
	if b.Kernel != "" && b.Initrd == "" {
		return []string{"-kernel", b.Kernel}
	}
	if b.Kernel != "" {
		return []string{"-kernel", b.Kernel, "-initrd", b.Initrd, "-append", b.Append}
	}
	option := "snapshot=on"
	if b.Writable {
		option = "cache=writeback"
	}
	if strings.HasSuffix(b.Image, ".iso") && !b.USB {
		return append(drive("boot", b.Image, "readonly=on", "media=cdrom"), "-device", "ide-cd,drive=boot,bootindex=0")
	}
	args := drive("boot", b.Image, option)
	if b.USB {
		return append(args, "-device", "qemu-xhci", "-device", "usb-storage,drive=boot,removable=on,bootindex=0")
	}
	return append(args, "-device", "virtio-blk-pci,drive=boot,serial=boot,bootindex=0")
}

// arguments are QEMU's for a network; tap is the number of the file of a tap, where there is one.
func (n Network) arguments(tap int) []string {
	model := n.Model
	if model == "" {
		model = "virtio-net-pci"
	}
	device := model + ",romfile=,netdev=net"
	if n.MAC != "" {
		device += ",mac=" + n.MAC
	}
	if n.Bridge != "" {
		return []string{"-netdev", "tap,id=net,fd=" + strconv.Itoa(tap), "-device", device}
	}
	user := "user,id=net"
	if n.BootFile != "" {
		user += ",bootfile=" + n.BootFile
	}
	for protocol, ports := range map[string][]int{"tcp": n.TCP, "udp": n.UDP} {
		for _, port := range ports {
			user += ",hostfwd=" + protocol + "::" + strconv.Itoa(port) + "-:" + strconv.Itoa(port)
		}
	}
	return []string{"-netdev", user, "-device", device}
}
