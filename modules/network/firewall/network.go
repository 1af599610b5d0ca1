package firewall

import (
	"net"
	"net/netip"
	"strings"

	"github.com/google/nftables"
	"golang.org/x/sys/unix"
)

// NetworkTable is the name of both tables in a tenant network's namespace: the
// packets' and the bridge frames'.
const NetworkTable = "croft"

// Network is the rules of a tenant network's namespace.
type Network struct {
	// Bridge, Uplink and Tunnel are the names of its interfaces.
	Bridge, Uplink, Tunnel string
	// Subnets are this node's own ranges of the network. Packets out of the tunnel
	// with a source in them are dropped, even if their peer may use it.
	Subnets []netip.Prefix
	// Ports are the bridge's. Frames from any other are dropped.
	Ports []Port
}

// Port is a port of the bridge, and the source addresses allowed from it.
type Port struct {
	Name string
	MAC  net.HardwareAddr
	// IPs are the member's addresses. Its link-local one, which is made of the
	// MAC, needn't be among them.
	IPs []netip.Addr
}

// Validate says whether these rules can be.
func (n Network) Validate() error {
	seen := map[string]string{}
	take := func(what, value, by string) error {
		if other, taken := seen[what+value]; taken {
			return invalidf("network", "%s %s of %s is taken by %s", what, value, by, other)
		}
		seen[what+value] = by
		return nil
	}
	for _, f := range [][2]string{{"bridge", n.Bridge}, {"uplink", n.Uplink}, {"tunnel", n.Tunnel}} {
		field, name := f[0], f[1]
		if !interfaceName(name) {
			return invalidf("network", "%s is %q, must be the name of an interface", field, name)
		}
		if err := take("interface", name, "the "+field); err != nil {
			return err
		}
	}
	for _, s := range n.Subnets {
		if !s.IsValid() || !s.Addr().Is4() && !pure6(s) {
			return invalidf("network", "subnet is %s, must be a range of IPv4 or of IPv6", s)
		}
	}
	for _, p := range n.Ports {
		if !interfaceName(p.Name) {
			return invalidf("network", "port is %q, must be the name of an interface", p.Name)
		}
		if len(p.MAC) != 6 || p.MAC[0]&1 != 0 || p.MAC.String() == "00:00:00:00:00:00" {
			return invalidf("network", "MAC of port %s is %q, must be the address of one Ethernet interface", p.Name, p.MAC)
		}
		by := "port " + p.Name
		if err := take("interface", p.Name, by); err != nil {
			return err
		}
		if err := take("MAC", p.MAC.String(), by); err != nil {
			return err
		}
		for _, ip := range p.IPs {
			if !memberIP(ip) {
				return invalidf("network", "IP of port %s is %s, must be a plain IPv4 or IPv6 address of one member", p.Name, ip)
			}
			if err := take("IP", ip.String(), by); err != nil {
				return err
			}
		}
	}
	return nil
}

func interfaceName(name string) bool {
	return name != "" && len(name) < unix.IFNAMSIZ && !strings.ContainsFunc(name, func(r rune) bool { return unnamed(r) && r != '.' })
}

func memberIP(ip netip.Addr) bool {
	return ip.IsValid() && !ip.Is4In6() && ip.Zone() == "" && !ip.IsUnspecified() && !ip.IsMulticast() && !ip.IsLoopback()
}

// Digest tells rules apart: it is another one when anything of n or of how this
// version makes rules of it is another. The order of the ports is of no account.
func (n Network) Digest() string { return digest(n.tables()) }

// tables are the network's rules: of its packets, and of its bridge's frames.
// Forbidden packets are dropped by rules, since for a moment after new rules take
// effect the kernel hasn't set their chains' policy; and by the policy too, in case
// somebody flushes the rules.
func (n Network) tables() []table {
	mangle, raw := *nftables.ChainPriorityMangle, *nftables.ChainPriorityRaw
	chains := []chain{
		{name: "prerouting", base: filter(nftables.ChainHookPrerouting, raw, nftables.ChainPolicyAccept), rules: n.notOwn()},
		{name: "from-bridge", rules: []rule{
			when(ip6(), icmp6(neighborSolicitation), accept()),
			when(ip6(), icmp6(neighborAdvertisement), accept()),
			when(icmp(echoRequest), accept()),
			when(ip6(), icmp6(echoRequest6), accept()),
			when(toPort(unix.IPPROTO_UDP, 53), accept()),
			when(toPort(unix.IPPROTO_TCP, 53), accept()),
			drop(),
		}},
		{name: "from-tunnel", rules: []rule{
			when(icmp(echoRequest), accept()),
			when(ip6(), icmp6(echoRequest6), accept()),
			drop(),
		}},
		{name: "input", base: filter(nftables.ChainHookInput, 0, nftables.ChainPolicyDrop), rules: []rule{
			when(from("lo"), accept()),
			when(established(), accept()),
			when(invalid(), drop()),
			when(from(n.Bridge), goTo("from-bridge")),
			when(from(n.Tunnel), goTo("from-tunnel")),
			// The uplink is a link of neighbours as well.
			when(from(n.Uplink), ip6(), icmp6(neighborSolicitation), accept()),
			when(from(n.Uplink), ip6(), icmp6(neighborAdvertisement), accept()),
			drop(),
		}},
		{name: "forward", base: filter(nftables.ChainHookForward, 0, nftables.ChainPolicyDrop), rules: n.forward()},
		{name: "segments", base: filter(nftables.ChainHookForward, mangle, nftables.ChainPolicyAccept), rules: []rule{
			when(to(n.Tunnel), clamp()),
			when(from(n.Tunnel), clamp()),
		}},
		{name: "postrouting", base: sourceNAT(), rules: []rule{
			when(to(n.Uplink), masquerade()),
		}},
	}
	return []table{
		{family: nftables.TableFamilyINet, name: NetworkTable, chains: chains},
		n.bridge(),
	}
}

// notOwn drops packets of the tunnel whose source is an address of this node's members.
func (n Network) notOwn() []rule {
	var out []rule
	for _, s := range n.Subnets {
		out = append(out, when(from(n.Tunnel), sourceIn(s), drop()))
	}
	return out
}

// forward rules which packets are forwarded. Those between members on one bridge
// come here because of br_netfilter; they are accepted before their connection's
// state is matched.
func (n Network) forward() []rule {
	return []rule{
		when(from(n.Bridge), to(n.Bridge), accept()),
		// Not even translated: it would leave with a member's address.
		when(invalid(), drop()),
		when(established(), accept()),
		when(from(n.Bridge), to(n.Uplink), accept()),
		when(from(n.Bridge), to(n.Tunnel), accept()),
		when(from(n.Tunnel), to(n.Bridge), accept()),
		when(from(n.Tunnel), to(n.Tunnel), accept()),
		drop(),
	}
}
