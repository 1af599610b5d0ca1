package links

import (
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"

	"github.com/croft-edge/croft/pkg/node"
)

// ours marks the routes that this module has made.
const ours netlink.RouteProtocol = 0xc7

// Route is a way to Dst: through the gateway Via, or straight out of the link.
type Route struct {
	Dst netip.Prefix
	Via netip.Addr
}

func (r Route) String() string {
	if r.Via.IsValid() {
		return r.Dst.String() + " via " + r.Via.String()
	}
	return r.Dst.String()
}

// Routes gives l exactly the wanted routes, of those that this module makes.
func (r *Reconciler) Routes(l netlink.Link, wanted ...Route) error {
	if l == nil {
		return nil
	}
	name := l.Attrs().Name
	filter := &netlink.Route{LinkIndex: l.Attrs().Index, Protocol: ours}
	have, err := r.routesOf(l, func() ([]netlink.Route, error) {
		return r.nl.RouteListFiltered(netlink.FAMILY_ALL, filter, netlink.RT_FILTER_OIF|netlink.RT_FILTER_PROTOCOL)
	})
	if err != nil {
		return node.Errorf(node.Internal, "cannot list routes of %s: %w", name, err)
	}
	var there []Route
	for _, one := range have {
		if one.Protocol != ours {
			continue
		}
		at := readRoute(one)
		there = append(there, at)
		if !slices.Contains(wanted, at) && r.Differs("%s has route %s", name, at) {
			if err := r.nl.RouteDel(&one); err != nil {
				return node.Errorf(node.Internal, "cannot remove route %s of %s: %w", at, name, err)
			}
		}
	}
	for _, at := range wanted {
		if slices.Contains(there, at) || !r.Differs("%s has no route %s", name, at) {
			continue
		}
		if err := r.nl.RouteReplace(at.on(l)); err != nil {
			return node.Errorf(node.Internal, "cannot give %s the route %s: %w", name, at, err)
		}
	}
	return nil
}

func readRoute(r netlink.Route) Route {
	at := Route{Dst: FromIPNet(r.Dst)}
	if via, ok := netip.AddrFromSlice(r.Gw); ok {
		at.Via = via.Unmap()
	}
	if r.Dst == nil { // a default route, as older kernels tell it
		at.Dst = netip.PrefixFrom(netip.IPv4Unspecified(), 0)
		if at.Via.Is6() {
			at.Dst = netip.PrefixFrom(netip.IPv6Unspecified(), 0)
		}
	}
	return at
}

func (r Route) on(l netlink.Link) *netlink.Route {
	out := &netlink.Route{LinkIndex: l.Attrs().Index, Dst: toIPNet(r.Dst), Protocol: ours, Scope: netlink.SCOPE_LINK}
	if r.Dst.Addr().Is6() {
		out.Scope = netlink.SCOPE_UNIVERSE
	}
	if r.Via.IsValid() {
		out.Gw, out.Scope = r.Via.AsSlice(), netlink.SCOPE_UNIVERSE
	}
	return out
}

// Everywhere4 is the destination of a default route of IPv4.
func Everywhere4() netip.Prefix { return netip.PrefixFrom(netip.IPv4Unspecified(), 0) }

// Everywhere6 is that of IPv6.
func Everywhere6() netip.Prefix { return netip.PrefixFrom(netip.IPv6Unspecified(), 0) }
