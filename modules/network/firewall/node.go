package firewall

import (
	"encoding/binary"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/google/nftables"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/pkg/node"
)

// AnyNode is the name prefix of the interfaces of every croft node on a machine.
const AnyNode = "cr"

// Node is the rules of the node's namespace. They keep tenants from each other,
// from the node, and from non-public addresses; other traffic passes.
type Node struct {
	// Table is the table's name, such as "croft-12ab".
	Table string
	// Uplink and Public begin the names of the node's ends of the networks'
	// uplinks, and of the members' public interfaces.
	Uplink, Public string
	// Uplinks4 and Uplinks6 are the ranges of the uplinks' addresses.
	Uplinks4, Uplinks6 netip.Prefix
	// Refuse is where tenants don't get, Allow the exceptions.
	Refuse []netip.Prefix
	Allow  []Allowed
	// Open are ports of the node itself that tenants reach, by TCP, at its own
	// addresses but for those of uplinks.
	Open Ports
	// Closed4 and Closed6 are that the node forwards nothing of others in that
	// family: it began to forward for its tenants' sake only.
	Closed4, Closed6 bool
}

// Allowed is where tenants get although it is refused. It opens nothing of a
// refused range that is narrower than Prefix.
type Allowed struct {
	Prefix netip.Prefix
	// Port is the only one opened, for TCP and UDP; 0 is all of every protocol.
	Port uint16
}

// Ports is a range of ports, both ends of it included; the zero Ports is none.
type Ports struct {
	First, Last uint16
}

// Validate says whether these rules can be.
func (n Node) Validate() error {
	if n.Table == "" || len(n.Table) > 64 || strings.ContainsFunc(n.Table, unnamed) {
		return invalidf("node", "table is %q, must be 1 to 64 letters, digits, '-' and '_'", n.Table)
	}
	for _, f := range [][2]string{{"uplink", n.Uplink}, {"public", n.Public}} {
		field, prefix := f[0], f[1]
		if !strings.HasPrefix(prefix, AnyNode) || len(prefix) >= unix.IFNAMSIZ-1 || strings.ContainsFunc(prefix, unnamed) {
			return invalidf("node", "%s is %q, must begin with %s and be the beginning of an interface's name", field, prefix, AnyNode)
		}
	}
	if strings.HasPrefix(n.Uplink, n.Public) || strings.HasPrefix(n.Public, n.Uplink) {
		return invalidf("node", "uplink is %q and public %q, an interface may not be both", n.Uplink, n.Public)
	}
	if !n.Uplinks4.IsValid() || !n.Uplinks4.Addr().Is4() {
		return invalidf("node", "uplinks4 is %s, must be an IPv4 range", n.Uplinks4)
	}
	if !pure6(n.Uplinks6) {
		return invalidf("node", "uplinks6 is %s, must be an IPv6 range", n.Uplinks6)
	}
	if o := n.Open; o.First > o.Last || o.First == 0 && o.Last != 0 {
		return invalidf("node", "open is %d-%d, must be a range of ports from 1 on", o.First, o.Last)
	}
	for _, p := range n.ranges() {
		if p.Addr().Is4() || pure6(p) {
			continue
		}
		return invalidf("node", "range %s can't be refused or allowed, must be one of IPv4 or of IPv6", p)
	}
	return nil
}

func (n Node) ranges() []netip.Prefix {
	out := slices.Clone(n.Refuse)
	for _, a := range n.Allow {
		out = append(out, a.Prefix)
	}
	return out
}

func pure6(p netip.Prefix) bool { return p.IsValid() && p.Addr().Is6() && !p.Addr().Is4In6() }

func unnamed(r rune) bool {
	return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-' && r != '_'
}

func invalidf(what, format string, args ...any) error {
	return node.Errorf(node.Invalid, "cannot make the firewall of the "+what+": "+format, args...)
}

// Digest tells rules apart: it is another one when anything of n or of how this
// version makes rules of it is another.
func (n Node) Digest() string { return digest(n.tables()) }

// tables are the node's rules.
func (n Node) tables() []table {
	raw := *nftables.ChainPriorityRaw
	chains := []chain{
		{name: "uplink-source", rules: n.uplinkSource()},
		{name: "public-source", rules: publicSource()},
		{name: "node", rules: n.itself()},
		{name: "tenant", rules: n.tenant()},
		{name: "uplink", rules: []rule{
			when(fromAny(AnyNode), drop()),
			when(established(), accept()),
			drop(),
		}},
		{name: "public", rules: []rule{
			when(fromAny(AnyNode), drop()),
			when(invalid(), drop()),
			accept(),
		}},
		{name: "prerouting", base: filter(nftables.ChainHookPrerouting, raw, nftables.ChainPolicyAccept), rules: []rule{
			when(fromAny(n.Uplink), goTo("uplink-source")),
			when(fromAny(n.Public), goTo("public-source")),
			// Packets from elsewhere with a network's source address would leave with
			// the node's address. Other nodes on the machine share the range.
			when(fromNone(AnyNode), fromOther("lo"), sourceIn(n.Uplinks4), drop()),
			when(fromNone(AnyNode), fromOther("lo"), sourceIn(n.Uplinks6), drop()),
		}},
		{name: "input", base: filter(nftables.ChainHookInput, 0, nftables.ChainPolicyAccept), rules: []rule{
			when(fromAny(n.Uplink), goTo("node")),
			when(fromAny(n.Public), goTo("node")),
		}},
		{name: "forward", base: filter(nftables.ChainHookForward, 0, nftables.ChainPolicyAccept), rules: n.forward()},
		{name: "postrouting", base: sourceNAT(), rules: []rule{
			when(sourceIn(n.Uplinks4), toNone(n.Uplink), toNone(n.Public), masquerade()),
			when(sourceIn(n.Uplinks6), toNone(n.Uplink), toNone(n.Public), masquerade()),
		}},
	}
	return []table{{family: nftables.TableFamilyINet, name: n.Table, sets: n.sets(), chains: chains}}
}

// forward is the chain of forwarded packets.
func (n Node) forward() []rule {
	rules := []rule{
		when(fromAny(n.Uplink), goTo("tenant")),
		when(fromAny(n.Public), goTo("tenant")),
		when(toAny(n.Uplink), goTo("uplink")),
		when(toAny(n.Public), goTo("public")),
	}
	if n.Closed4 {
		rules = append(rules, when(ip4(), fromNone(AnyNode), toNone(AnyNode), drop()))
	}
	if n.Closed6 {
		rules = append(rules, when(ip6(), fromNone(AnyNode), toNone(AnyNode), drop()))
	}
	return rules
}

// itself is the chain of packets from tenants to the node itself.
func (n Node) itself() []rule {
	rules := []rule{
		// First: neighbour discovery is in no connection.
		when(ip6(), icmp6(neighborSolicitation), accept()),
		when(ip6(), icmp6(neighborAdvertisement), accept()),
		when(established(), accept()),
	}
	if n.Open != (Ports{}) {
		rules = append(rules,
			when(destinationIn(n.Uplinks4), drop()),
			when(destinationIn(n.Uplinks6), drop()),
			when(toPorts(unix.IPPROTO_TCP, n.Open), accept()))
	}
	return append(rules, drop())
}

// uplinkSource accepts the sources allowed on an uplink: the networks' own ends.
func (n Node) uplinkSource() []rule {
	return []rule{
		when(sourceIn(n.Uplinks4), accept()),
		when(sourceIn(n.Uplinks6), accept()),
		when(sourceIn(netip.MustParsePrefix("fe80::/10")), accept()),
		when(sourceIn(unspecified()), icmp6(neighborSolicitation), accept()),
		drop(),
	}
}

// publicSource accepts the sources allowed on a public interface: addresses that the node
// routes to it, and neighbour discovery, also of hosts that have no address yet.
func publicSource() []rule {
	local := netip.MustParsePrefix("fe80::/10")
	return []rule{
		when(ip4(), drop()),
		when(sourceIn(local), icmp6(neighborSolicitation), accept()),
		when(sourceIn(local), icmp6(neighborAdvertisement), accept()),
		when(sourceIn(local), drop()),
		when(sourceIn(unspecified()), icmp6(neighborSolicitation), accept()),
		when(unrouted(), drop()),
		accept(),
	}
}

func unspecified() netip.Prefix { return netip.PrefixFrom(netip.IPv6Unspecified(), 128) }

// tenant rules the forwarding of tenants' packets. Packets between tenants are
// dropped first, even those of established connections.
//
// The sets hold allowed addresses, not refused ones: for a moment after new rules
// take effect the kernel finds nothing in their sets of ranges.
func (n Node) tenant() []rule {
	rules := []rule{
		when(toAny(AnyNode), drop()),
		when(established(), accept()),
		when(invalid(), drop()),
		when(ip4(), rule{destination4(reg1), in("reach4", reg1)}, accept()),
		when(ip6(), rule{destination6(reg1), in("reach6", reg1)}, accept()),
	}
	for _, number := range []byte{unix.IPPROTO_TCP, unix.IPPROTO_UDP} {
		rules = append(rules,
			// The port is loaded behind the address.
			when(ip4(), protocol(number), rule{destination4(reg1), transport(2, 2, behind4), in("reach4-port", reg1)}, accept()),
			when(ip6(), protocol(number), rule{destination6(reg1), transport(2, 2, reg2), in("reach6-port", reg1)}, accept()))
	}
	return append(rules, drop())
}

// behind4 is the register behind four bytes in reg1.
const behind4 = unix.NFT_REG32_01

// sets are the destinations that tenants reach: all but the refused ones, and the exceptions.
func (n Node) sets() []set {
	var out []set
	for _, f := range []struct {
		suffix string
		whole  netip.Prefix
		key    nftables.SetDatatype
	}{
		{"4", netip.PrefixFrom(netip.IPv4Unspecified(), 0), nftables.TypeIPAddr},
		{"6", netip.PrefixFrom(netip.IPv6Unspecified(), 0), nftables.TypeIP6Addr},
	} {
		four := f.whole.Addr().Is4()
		refuse := family(n.Refuse, four)
		reach := append(spanOf(f.whole).without(spansOf(refuse)), opened(n.Allow, refuse, 0, four)...)
		out = append(out,
			intervals("reach"+f.suffix, f.key, merge(reach)),
			set{
				name: "reach" + f.suffix + "-port", interval: true,
				keys: []nftables.SetDatatype{f.key, nftables.TypeInetService}, elements: n.allowedPorts(refuse, four),
			})
	}
	return out
}

// opened are the addresses that the exceptions for a port open, without those refused
// by a range narrower than the exception.
func opened(allow []Allowed, refuse []netip.Prefix, port uint16, four bool) []span {
	var out []span
	for _, a := range allow {
		if a.Port != port || a.Prefix.Addr().Is4() != four {
			continue
		}
		narrower := slices.DeleteFunc(slices.Clone(refuse), func(p netip.Prefix) bool { return p.Bits() <= a.Prefix.Bits() })
		out = append(out, spanOf(a.Prefix).without(spansOf(narrower))...)
	}
	return merge(out)
}

// allowedPorts are addresses with a port, in the kernel's form for ranges of
// concatenated keys: both ends in one element.
func (n Node) allowedPorts(refuse []netip.Prefix, four bool) []nftables.SetElement {
	ports := map[uint16]bool{}
	for _, a := range n.Allow {
		ports[a.Port] = true
	}
	delete(ports, 0)
	var out []nftables.SetElement
	for _, port := range slices.Sorted(maps.Keys(ports)) {
		number := append(binary.BigEndian.AppendUint16(nil, port), 0, 0)
		for _, s := range opened(n.Allow, refuse, port, four) {
			out = append(out, nftables.SetElement{
				Key: append(s.first.AsSlice(), number...), KeyEnd: append(s.last.AsSlice(), number...),
			})
		}
	}
	return out
}

// intervals is a set of ranges: each begins with an element and ends before
// another one, but for the range that nothing is behind.
func intervals(name string, key nftables.SetDatatype, spans []span) set {
	out := set{name: name, keys: []nftables.SetDatatype{key}, interval: true}
	for _, s := range spans {
		out.elements = append(out.elements, nftables.SetElement{Key: s.first.AsSlice()})
		if after := s.last.Next(); after.IsValid() {
			out.elements = append(out.elements, nftables.SetElement{Key: after.AsSlice(), IntervalEnd: true})
		}
	}
	return out
}
