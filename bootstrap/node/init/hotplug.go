package main

import (
	"bytes"
	"context"
	"regexp"
	"runtime"
	"strings"

	"github.com/pkg/errors"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/internal/guest/kmod"
)

const (
	// eventBytes bounds an event of the kernel (lib/kobject_uevent.c, UEVENT_BUFFER_SIZE is 2 KiB).
	eventBytes = 8 << 10
	eventRoom  = 1 << 20
)

// firstModules are those that no device asks for and no kernel loads by itself: device nodes that are there only with them, and what the
// node's state lies on.
func firstModules() []string {
	return []string{"btrfs", "loop", "tun", "button", "evdev", "virtio_console"}
}

// workloadModules are what workloads need, networks most of all. The kernel would ask for most of them itself, one program that loads a module at
// a time, and modules of croft try what the kernel can do before that has come to an end.
func workloadModules() []string {
	return []string{
		"overlay", "veth", "bridge", "macvlan", "vxlan", "wireguard", "vhost_net", "nf_conntrack", "nf_tables", "nft_chain_nat", "nft_ct",
		"nft_nat", "nft_masq", "nft_reject_inet", "nft_limit", "nft_log", "nft_fib_inet", "nft_numgen", "nft_redir", "virtio_rng",
	}
}

// isProcessor tells the aliases of processors, and of what they can do, such as KVM and faster ciphers.
func isProcessor(alias string) bool {
	return strings.HasPrefix(alias, "cpu:") || strings.HasPrefix(alias, "acpi:ACPI0007:") || strings.HasPrefix(alias, "acpi:LNXCPU:")
}

// laterClasses are the classes of PCI devices that a machine boots without: displays, multimedia, bridges to ISA, and SMBus (drivers/pci: the alias has
// the class, subclass and interface as bcCCscSSiII).
var laterClasses = regexp.MustCompile(`^pci:.*bc(03|04|0[cC]sc05|06sc01)`)

// isFirst tells the aliases of devices that a machine boots with: disks, networks, and what they are behind.
func isFirst(alias string) bool {
	return !isProcessor(alias) && !laterClasses.MatchString(alias) && !strings.HasPrefix(alias, "serio:") && !strings.HasPrefix(alias, "platform:")
}

// isLater tells those of all other devices.
func isLater(alias string) bool { return !isProcessor(alias) }

// loadAll loads modules, several at a time.
func loadAll(modules *kmod.Modules, names []string, say func(format string, args ...any)) {
	var workers errgroup.Group
	workers.SetLimit(runtime.NumCPU())
	for _, name := range names {
		workers.Go(func() error {
			if modules.BuiltIn(name) {
				return nil
			}
			if err := modules.Load(name); err != nil {
				say("%v", err)
			}
			return nil
		})
	}
	_ = workers.Wait() // what has failed was said
}

// loadDrivers loads the drivers of the machine's devices, each of which may bring further devices. It says what can't be loaded: machines have
// devices without drivers, and drivers that find their device missing. One driver comes after the other: the kernel numbers network interfaces in
// the order in which it finds them.
func loadDrivers(modules *kmod.Modules, say func(format string, args ...any), wanted func(alias string) bool) {
	for {
		loaded, err := modules.LoadForDevices("/sys", wanted)
		if err != nil {
			for text := range strings.Lines(err.Error()) {
				say("%s", strings.TrimSpace(text))
			}
		}
		if loaded == 0 {
			return
		}
	}
}

// hotplug loads the drivers of devices that appear, until ctx is done. each is called after each event of a device that appears or goes.
func hotplug(ctx context.Context, modules *kmod.Modules, each func()) error {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, unix.NETLINK_KOBJECT_UEVENT)
	if err != nil {
		return errors.Wrap(err, "cannot hear of devices that appear")
	}
	defer unix.Close(fd)
	_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, eventRoom) // less would only lose events of a storm
	if err := unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: 1}); err != nil {
		return errors.Wrap(err, "cannot hear of devices that appear")
	}
	second := unix.NsecToTimeval(1e9)
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &second); err != nil {
		return errors.Wrap(err, "cannot hear of devices that appear")
	}
	buffer := make([]byte, eventBytes)
	for ctx.Err() == nil {
		n, _, err := unix.Recvfrom(fd, buffer, 0)
		switch {
		case errors.Is(err, unix.EAGAIN), errors.Is(err, unix.EINTR), errors.Is(err, unix.ENOBUFS):
			continue
		case err != nil:
			return errors.Wrap(err, "cannot hear of devices that appear")
		}
		event := parseEvent(buffer[:n])
		if event["ACTION"] == "add" && event["MODALIAS"] != "" && !isProcessor(event["MODALIAS"]) {
			_ = modules.LoadAlias(event["MODALIAS"]) // a device without a driver is of no use, and no fault
		}
		if event["ACTION"] == "add" || event["ACTION"] == "remove" {
			each()
		}
	}
	return nil
}

// parseEvent reads an event of the kernel: a line, and variables, each with a zero at its end.
func parseEvent(raw []byte) map[string]string {
	out := map[string]string{}
	for text := range bytes.SplitSeq(raw, []byte{0}) {
		if name, value, ok := strings.Cut(string(text), "="); ok {
			out[name] = value
		}
	}
	return out
}
