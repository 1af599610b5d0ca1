// Package overlay joins the pods of a cluster's machines, which may be in different networks, by VXLAN: the machines'
// network carries packets between machines only, as croft drops those with others' addresses.
//
// Every machine has a /24 of pods. Its end of the overlay has the first address of this /24, and a MAC address that is made
// of it, so that the machines need to agree on nothing: what the API server knows of them is enough. Plan is pure; Apply
// owns the interface croft.vxlan with its routes and neighbours.
package overlay

import (
	"fmt"
	"net"
	"net/netip"
)

// Interface names the machine's end of the overlay.
const Interface = "croft.vxlan"

// The overlay's VXLAN.
const (
	// identifier is the VXLAN's network identifier, and Port its UDP port, IANA's.
	identifier = 1
	Port       = 4789
	// MTU is that of pods, in bytes: WireGuard's between nodes, 1420, without VXLAN's headers, so that no packet is split.
	MTU = 1370
	// podBits is the length of a machine's prefix.
	podBits = 24
)

// Machine is a machine of the cluster.
type Machine struct {
	Name    string
	Address netip.Addr
	Pods    netip.Prefix
}

// ParseMachine checks what the API server knows of a machine.
func ParseMachine(name, address, pods string) (Machine, error) {
	ip, err := netip.ParseAddr(address)
	if err != nil || !ip.Is4() {
		return Machine{}, fmt.Errorf("cannot use machine %.80q: its address is %.40q, must be an IPv4 address", name, address)
	}
	prefix, err := netip.ParsePrefix(pods)
	if err != nil || !prefix.Addr().Is4() || prefix.Bits() != podBits || prefix.Masked() != prefix {
		return Machine{}, fmt.Errorf("cannot use machine %.80q: its pods' range is %.40q, must be an IPv4 /%d", name, pods, podBits)
	}
	return Machine{Name: name, Address: ip, Pods: prefix}, nil
}

// End is the address of the machine's end of the overlay.
func (m Machine) End() netip.Addr { return m.Pods.Addr() }

// MAC is that end's MAC address, a locally administered one.
func (m Machine) MAC() net.HardwareAddr {
	a := m.End().As4()
	return net.HardwareAddr{0x0a, 0x58, a[0], a[1], a[2], a[3]}
}

// Peers are the machines that self reaches through the overlay. Of machines that claim a range or an address that another one
// has already, the first in the list is taken: so the list begins with those that have had theirs for long.
func Peers(self Machine, all []Machine, within netip.Prefix) []Machine {
	ranges, addresses := map[netip.Prefix]bool{self.Pods: true}, map[netip.Addr]bool{self.Address: true}
	var out []Machine
	for _, m := range all {
		if m.Name == self.Name || ranges[m.Pods] || addresses[m.Address] || !within.Contains(m.Pods.Addr()) {
			continue
		}
		ranges[m.Pods], addresses[m.Address] = true, true
		out = append(out, m)
	}
	return out
}
