package firewall

import (
	"net"
	"net/netip"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// bridged is the priority of the bridge's filters, before br_netfilter shows
// the frames to the tables of packets (NF_BR_PRI_FILTER_BRIDGED).
const bridged = -200

// The ports of DHCP and DHCPv6.
const (
	dhcpServer, dhcpClient   = 67, 68
	dhcp6Server, dhcp6Client = 547, 546
)

// bridge is the rules of the frames that enter the bridge. All that isn't let
// pass is dropped, by the policy too.
func (n Network) bridge() table {
	const udp = unix.IPPROTO_UDP
	return table{
		family: nftables.TableFamilyBridge, name: NetworkTable, sets: n.portSets(),
		chains: []chain{
			{name: "arp", rules: []rule{arpOfPort(), drop()}},
			{name: "ip4", rules: []rule{
				when(toPort(udp, dhcpClient), drop()),
				when(fromPort(udp, dhcpServer), drop()),
				when(ofPort("addresses4", source4(reg2)), accept()),
				drop(),
			}},
			{name: "ip6", rules: []rule{
				when(toPort(udp, dhcp6Client), drop()),
				when(fromPort(udp, dhcp6Server), drop()),
				when(icmp6(routerAdvertisement), drop()),
				when(icmp6(redirect6), drop()),
				when(icmp6(neighborAdvertisement), goTo("advertisement")),
				// Duplicate address detection: a member may probe only its own address.
				when(rule{source6(reg1), is(make([]byte, 16)...)}, icmp6(neighborSolicitation), target(), accept()),
				when(ofPort("addresses6", source6(reg2)), accept()),
				drop(),
			}},
			{name: "advertisement", rules: []rule{
				when(ofPort("addresses6", source6(reg2)), target(), accept()),
				drop(),
			}},
			{name: "member", rules: []rule{
				when(etherType(unix.ETH_P_ARP), goTo("arp")),
				when(etherType(unix.ETH_P_IP), goTo("ip4")),
				when(etherType(unix.ETH_P_IPV6), goTo("ip6")),
				drop(),
			}},
			{name: "prerouting", base: filter(nftables.ChainHookPrerouting, bridged, nftables.ChainPolicyDrop), rules: []rule{
				when(ofPort("ports", link(6, 6, reg2)), goTo("member")),
				drop(),
			}},
			// Frames to the bridge's own group addresses skip prerouting,
			// but the bridge learns MAC addresses from them.
			{name: "input", base: filter(nftables.ChainHookInput, bridged, nftables.ChainPolicyAccept), rules: []rule{
				when(rule{
					link(0, 6, reg1), masked([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xf0}), is(0x01, 0x80, 0xc2, 0, 0, 0),
				}, drop()),
			}},
		},
	}
}

func link(offset, length, register uint32) expr.Any {
	return load(expr.PayloadBaseLLHeader, offset, length, register)
}

// etherType matches the frame's EtherType. A VLAN tag hides it, so tagged frames
// never match an allowed type.
func etherType(kind uint16) rule {
	return rule{link(12, 2, reg1), is(byte(kind>>8), byte(kind))}
}

// ofPort matches when the set has the frame's ingress port together with value,
// which is loaded into reg2.
func ofPort(set string, value expr.Any) rule {
	return rule{meta(expr.MetaKeyIIFNAME), value, in(set, reg1)}
}

// target is that the neighbour that is spoken of is the port's own.
func target() rule { return ofPort("addresses6", transport(8, 16, reg2)) }

// arpOfPort is ARP of IPv4 on Ethernet whose sender is the port's own.
func arpOfPort() rule {
	return when(
		rule{network(0, 6, reg1), is(0, 1, 8, 0, 6, 4)},
		ofPort("ports", network(8, 6, reg2)),
		ofPort("addresses4", network(14, 4, reg2)),
		accept())
}

// portSets are the source addresses allowed for each port.
func (n Network) portSets() []set {
	var macs, fours, sixes []nftables.SetElement
	for _, p := range n.Ports {
		name := name16(p.Name)
		join := func(value []byte) nftables.SetElement {
			return nftables.SetElement{Key: append(append([]byte{}, name...), value...)}
		}
		// Parts of a concatenated key are padded to whole registers.
		macs = append(macs, join(append(append([]byte{}, p.MAC...), 0, 0)))
		local := linkLocal(p.MAC)
		sixes = append(sixes, join(local.AsSlice()))
		for _, ip := range p.IPs {
			switch {
			case ip.Is4():
				fours = append(fours, join(ip.AsSlice()))
			case ip != local:
				sixes = append(sixes, join(ip.AsSlice()))
			}
		}
	}
	joined := func(name string, with nftables.SetDatatype, elements []nftables.SetElement) set {
		return set{name: name, keys: []nftables.SetDatatype{nftables.TypeIFName, with}, elements: elements}
	}
	return []set{
		joined("ports", nftables.TypeEtherAddr, macs),
		joined("addresses4", nftables.TypeIPAddr, fours),
		joined("addresses6", nftables.TypeIP6Addr, sixes),
	}
}

// linkLocal is the link-local address that is made of a MAC (RFC 4291, appendix A).
func linkLocal(mac net.HardwareAddr) netip.Addr {
	return netip.AddrFrom16([16]byte{
		0: 0xfe, 1: 0x80, 8: mac[0] ^ 2, 9: mac[1], 10: mac[2], 11: 0xff, 12: 0xfe, 13: mac[3], 14: mac[4], 15: mac[5],
	})
}
