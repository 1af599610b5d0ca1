package dial

import (
	"context"
	"net/netip"
	"slices"

	"github.com/croft-edge/croft/pkg/node"
)

// Judge decides whether a tenant may name an address, for callers that don't connect
// themselves, such as for a tunnel's endpoint. node.Refused when not.
func (d *Dialer) Judge(address netip.AddrPort) error {
	if !address.IsValid() || address.Port() == 0 {
		return node.Errorf(node.Invalid, "cannot judge %s: allowed is an IP address and a port from 1 to 65535", address)
	}
	ranges, err := d.ranges()
	if err != nil {
		return err
	}
	addr := address.Addr().Unmap()
	return d.judge(target{ip: addr, port: address.Port()}, addr, ranges)
}

// ranges are all presently refused ranges. One that can't be read refuses all.
func (d *Dialer) ranges() ([]addressRange, error) {
	own, err := ownRanges()
	if err != nil {
		return nil, err
	}
	out := slices.Concat(d.refuse, own)
	for _, p := range d.own() {
		plain, err := plainPrefix(p)
		if err != nil {
			return nil, node.Errorf(node.Internal, "cannot dial: the node's own ranges: %w", err)
		}
		out = append(out, addressRange{prefix: plain, what: "the node's or a tenant's network", secret: true})
	}
	return out, nil
}

// judge refuses addr when it, or an IPv4 address that it embeds, is in one of
// the ranges and no exception opens it. Every range that holds it is checked: an
// exception for one doesn't open another.
func (d *Dialer) judge(t target, addr netip.Addr, ranges []addressRange) error {
	addr = addr.Unmap()
	if addr.Zone() != "" {
		return refused(t, addr, "has a zone and leads to a link of this node")
	}
	for _, a := range append([]netip.Addr{addr}, embedded(addr)...) {
		for _, r := range ranges {
			if r.contains(a) && !d.opened(t, addr, r) {
				why := "is in a range that is refused: " + r.String()
				if a != addr {
					why = "leads to " + a.String() + ", which " + why
				}
				return refused(t, addr, why)
			}
		}
	}
	return nil
}

func (d *Dialer) opened(t target, addr netip.Addr, r addressRange) bool {
	return slices.ContainsFunc(d.allow, func(e Exception) bool { return e.opens(t, addr, r) })
}

func refused(t target, addr netip.Addr, why string) error {
	what := addr.String()
	if t.name != "" {
		what = t.name + " resolves to " + what + ", which"
	}
	return node.Errorf(node.Refused, "cannot dial %s: %s %s; the node's operator may list an exception", t, what, why)
}

// Resolve returns an address of a target ("host:port") that a tenant names for a
// sender other than the dialer, such as a tunnel. All of a name's addresses
// are judged, as for a dial; IPv4 comes first, since every node has it.
// node.Invalid, node.Refused and node.Transient as for a dial.
func (d *Dialer) Resolve(ctx context.Context, address string) (netip.AddrPort, error) {
	t, err := parseAddress(address)
	if err != nil {
		return netip.AddrPort{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, d.timeout)
	defer cancel()
	addrs, err := d.resolve(ctx, t)
	if err != nil {
		return netip.AddrPort{}, err
	}
	ranges, err := d.ranges()
	if err != nil {
		return netip.AddrPort{}, err
	}
	for _, addr := range addrs {
		if err := d.judge(t, addr, ranges); err != nil {
			return netip.AddrPort{}, err
		}
	}
	if i := slices.IndexFunc(addrs, netip.Addr.Is4); i > 0 {
		addrs = addrs[i:]
	}
	return netip.AddrPortFrom(addrs[0], t.port), nil
}

// Literal is Resolve for callers that can't wait: it looks nothing up. A valid name
// yields the zero AddrPort without an error.
func (d *Dialer) Literal(address string) (netip.AddrPort, error) {
	t, err := parseAddress(address)
	if err != nil || !t.ip.IsValid() {
		return netip.AddrPort{}, err
	}
	ranges, err := d.ranges()
	if err != nil {
		return netip.AddrPort{}, err
	}
	if err := d.judge(t, t.ip, ranges); err != nil {
		return netip.AddrPort{}, err
	}
	return netip.AddrPortFrom(t.ip, t.port), nil
}

// NonPublic are the ranges that are refused on every node, for callers that filter
// packets rather than connections.
func NonPublic() []netip.Prefix {
	var out []netip.Prefix
	for _, r := range nonPublicRanges() {
		out = append(out, r.prefix)
	}
	return out
}
