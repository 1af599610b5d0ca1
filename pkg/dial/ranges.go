package dial

import (
	"net"
	"net/netip"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/pkg/node"
)

// addressRange is a range that tenants may not name, and its description.
type addressRange struct {
	prefix netip.Prefix
	what   string
	// secret hides the prefix in errors: these reach a tenant, who must not
	// learn the ranges of others.
	secret bool
	// butNAT64 leaves out the well-known prefix of NAT64.
	butNAT64 bool
}

func (r addressRange) contains(addr netip.Addr) bool {
	return r.prefix.Contains(addr) && !(r.butNAT64 && isNAT64(addr))
}

func (r addressRange) String() string {
	if r.secret {
		return r.what
	}
	return r.what + " (" + r.prefix.String() + ")"
}

// nonPublicRanges are the ranges that the registries of special-purpose addresses (RFC
// 6890 and its successors) don't make reachable on the internet, the exact ones first.
// For IPv6 the last three invert the rule: only global unicast, and the well-known
// prefix of NAT64 (judged by its embedded address), pass.
func nonPublicRanges() []addressRange {
	var out []addressRange
	for _, r := range [][2]string{
		{"0.0.0.0/8", "unspecified"},
		{"10.0.0.0/8", "private"},
		{"100.64.0.0/10", "shared by carriers"},
		{"127.0.0.0/8", "loopback"},
		{"168.63.129.16/32", "a cloud's host service"},
		{"169.254.0.0/16", "link-local"},
		{"172.16.0.0/12", "private"},
		{"192.0.0.0/24", "protocol assignments"},
		{"192.0.2.0/24", "documentation"},
		{"192.88.99.0/24", "6to4 relays"},
		{"192.168.0.0/16", "private"},
		{"198.18.0.0/15", "benchmarks"},
		{"198.51.100.0/24", "documentation"},
		{"203.0.113.0/24", "documentation"},
		{"224.0.0.0/4", "multicast"},
		{"255.255.255.255/32", "broadcast"},
		{"240.0.0.0/4", "reserved"},

		{"::/128", "unspecified"},
		{"::1/128", "loopback"},
		{"::/96", "IPv4-compatible"},
		{"64:ff9b:1::/48", "local NAT64"},
		{"100::/64", "discard"},
		{"2001:2::/48", "benchmarks"},
		{"2001:10::/28", "ORCHID"},
		{"2001:20::/28", "ORCHID"},
		{"2001:db8::/32", "documentation"},
		{"3fff::/20", "documentation"},
		{"5f00::/16", "segment routing"},
		{"fc00::/7", "private"},
		{"fe80::/10", "link-local"},
		{"fec0::/10", "site-local"},
		{"ff00::/8", "multicast"},
		{"::/3", "not global unicast"},
		{"4000::/2", "not global unicast"},
		{"8000::/1", "not global unicast"},
	} {
		prefix := netip.MustParsePrefix(r[0])
		out = append(out, addressRange{prefix: prefix, what: r[1], butNAT64: prefix.Bits() == 3})
	}
	return out
}

// within reports whether all of inner lies in outer.
func within(inner, outer netip.Prefix) bool {
	return inner.Bits() >= outer.Bits() && outer.Contains(inner.Addr())
}

// plainPrefix checks a range and writes an IPv4-mapped one as IPv4, as addresses
// are judged: a range that matches nothing would refuse nothing.
func plainPrefix(p netip.Prefix) (netip.Prefix, error) {
	if !p.IsValid() {
		return p, errors.Errorf("range %q isn't valid: allowed is a CIDR", p.String())
	}
	if !p.Addr().Is4In6() {
		return p.Masked(), nil
	}
	if p.Bits() < 96 {
		return p, errors.Errorf("range %q mixes IPv4 and IPv6: allowed is a CIDR of one of them", p.String())
	}
	return netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96).Masked(), nil
}

// ownRanges are this machine's present addresses, each by itself: its neighbours on
// a public network are as public as any. Loopback isn't among them, it has a range
// already.
func ownRanges() ([]addressRange, error) {
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return nil, node.Errorf(node.Internal, "cannot read this machine's own addresses: %w", err)
	}
	var out []addressRange
	for _, a := range addrs {
		ipnet, ok := a.(*net.IPNet)
		if !ok {
			continue
		}
		addr, ok := netip.AddrFromSlice(ipnet.IP)
		if !ok {
			continue
		}
		addr = addr.Unmap()
		if addr.IsLoopback() {
			continue
		}
		out = append(out, addressRange{prefix: netip.PrefixFrom(addr, addr.BitLen()), what: "this node's own", secret: true})
	}
	return out, nil
}
