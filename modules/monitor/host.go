package monitor

import (
	"maps"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/pkg/errors"
	"github.com/shirou/gopsutil/v4/cpu"
	pshost "github.com/shirou/gopsutil/v4/host"
	"github.com/shirou/gopsutil/v4/mem"
	"github.com/vishvananda/netlink"

	"github.com/croft-edge/croft/pkg/netns"
	"github.com/croft-edge/croft/pkg/node"
)

// host is the module's bus object monitor.host.
type host struct{ m *Module }

// Info reads the machine's names, times, size and addresses.
func (h host) Info() (node.HostInfo, error) {
	out, err := h.m.identity()
	if err != nil {
		return node.HostInfo{}, errors.Wrap(err, "cannot read the machine's name, kernel and time of boot")
	}
	cores, err := cpu.Counts(true)
	if err != nil {
		return node.HostInfo{}, errors.Wrap(err, "cannot count the processors")
	}
	memory, err := mem.VirtualMemory()
	if err != nil {
		return node.HostInfo{}, errors.Wrap(err, "cannot read memory")
	}
	nics, err := readInterfaces(h.m.cfg.OwnPrefixes)
	if err != nil {
		return node.HostInfo{}, err
	}
	out.Cores, out.Memory, out.Addresses = uint64(cores), memory.Total, ownAddresses(nics, h.m.cfg.OwnPrefixes)
	return out, nil
}

// identity reads the machine's names and times. It reads less than gopsutil's
// host.Info, since each admission waits for it.
func (m *Module) identity() (out node.HostInfo, err error) {
	if out.Hostname, err = os.Hostname(); err != nil {
		return out, err
	}
	if out.Kernel, err = pshost.KernelVersion(); err != nil {
		return out, err
	}
	if out.OS, err = m.system.get(); err != nil {
		return out, err
	}
	if out.BootTime, err = pshost.BootTime(); err != nil {
		return out, err
	}
	out.Uptime, err = pshost.Uptime()
	return out, err
}

// installed caches the name and version of the installed operating system: reading
// them may run a program, which takes some 15 ms.
type installed struct {
	read func() (string, error)
	mu   sync.Mutex
	text string
}

// get returns the cached text, or reads it. A failure isn't cached.
func (i *installed) get() (string, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.text != "" {
		return i.text, nil
	}
	text, err := i.read()
	if err == nil {
		i.text = text
	}
	return text, err
}

func readSystem() (string, error) {
	platform, _, version, err := pshost.PlatformInformation()
	return strings.TrimSpace(platform + " " + version), err
}

// nic is a network interface with its addresses.
type nic struct {
	name      string
	up        bool
	addresses []netip.Addr
}

// readInterfaces reads the interfaces that have global unicast addresses, but for own ones that are known by the label of an address of IPv4: a node
// has hundreds of these, and the kernel tells a link with some 1,500 bytes, an address with 100.
func readInterfaces(own []string) ([]nic, error) {
	addresses, err := netns.Whole(func() ([]netlink.Addr, error) { return netlink.AddrList(nil, netlink.FAMILY_ALL) })
	if err != nil && !errors.Is(err, netlink.ErrDumpInterrupted) { // what was read meanwhile is good enough
		return nil, errors.Wrap(err, "cannot list the addresses of network interfaces")
	}
	of, ours := map[int][]netip.Addr{}, map[int]bool{}
	for _, a := range addresses {
		address, ok := netip.AddrFromSlice(a.IP)
		if address = address.Unmap(); ok && address.IsGlobalUnicast() {
			of[a.LinkIndex] = append(of[a.LinkIndex], address)
		}
		ours[a.LinkIndex] = ours[a.LinkIndex] || isOwn(a.Label, own) // addresses of IPv6 have no label
	}
	maps.DeleteFunc(of, func(index int, _ []netip.Addr) bool { return ours[index] })
	nics := make([]nic, 0, len(of))
	for index, addresses := range of {
		link, err := netlink.LinkByIndex(index)
		if errors.As(err, &netlink.LinkNotFoundError{}) {
			continue // it has gone since
		}
		if err != nil {
			return nil, errors.Wrapf(err, "cannot read network interface %d", index)
		}
		nics = append(nics, nic{name: link.Attrs().Name, up: link.Attrs().Flags&net.FlagUp != 0, addresses: addresses})
	}
	return nics, nil
}

// isOwn reports whether an interface of that name is one of croft's.
func isOwn(name string, own []string) bool {
	return slices.ContainsFunc(own, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
}

// ownAddresses are the global unicast addresses of interfaces that are up and
// not croft's, each once, in order. Private addresses are included: a node may
// have no others.
func ownAddresses(nics []nic, own []string) []string {
	var addresses []netip.Addr
	for _, n := range nics {
		if !n.up || isOwn(n.name, own) {
			continue
		}
		for _, a := range n.addresses {
			if a.IsGlobalUnicast() && !a.IsLoopback() && !slices.Contains(addresses, a) {
				addresses = append(addresses, a)
			}
		}
	}
	slices.SortFunc(addresses, netip.Addr.Compare)
	texts := make([]string, len(addresses))
	for i, a := range addresses {
		texts[i] = a.String()
	}
	return texts
}
