package links

import (
	"net"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/pkg/netns"
	"github.com/croft-edge/croft/pkg/node"
)

// Addresses gives l exactly the wanted addresses, beside the IPv6 link-local ones
// that the kernel adds by itself.
func (r *Reconciler) Addresses(l netlink.Link, wanted ...netip.Prefix) error {
	if l == nil {
		return nil
	}
	name := l.Attrs().Name
	have, err := r.addressesOf(l)
	if err != nil {
		return node.Errorf(node.Internal, "cannot list addresses of %s: %w", name, err)
	}
	missing := slices.Clone(wanted)
	for _, a := range have {
		at := FromIPNet(a.IPNet)
		why := "has address"
		connected, err := r.connected(l, at)
		if err != nil {
			return err
		}
		switch {
		case !slices.Contains(wanted, at):
			if at.Addr().Is6() && at.Addr().IsLinkLocalUnicast() {
				continue
			}
		case connected:
			missing = slices.DeleteFunc(missing, func(m netip.Prefix) bool { return m == at })
			continue
		default:
			why = "has no route to its own range for address"
		}
		if r.Differs("%s %s %s", name, why, at) {
			if err := r.nl.AddrDel(l, &a); err != nil {
				return node.Errorf(node.Internal, "cannot remove address %s of %s: %w", at, name, err)
			}
		} else {
			missing = slices.DeleteFunc(missing, func(m netip.Prefix) bool { return m == at })
		}
	}
	return r.give(l, missing)
}

// give gives l missing addresses.
func (r *Reconciler) give(l netlink.Link, missing []netip.Prefix) error {
	for _, at := range missing {
		if !r.Differs("%s has no address %s", l.Attrs().Name, at) {
			continue
		}
		a := &netlink.Addr{IPNet: toIPNet(at)}
		if at.Addr().Is6() {
			a.Flags = unix.IFA_F_NODAD // nobody else can have it: the node gives all of them
		}
		if err := r.nl.AddrReplace(l, a); err != nil {
			return node.Errorf(node.Internal, "cannot give %s the address %s: %w", l.Attrs().Name, at, err)
		}
	}
	return nil
}

// connected reports whether the route to an address's own range is there,
// which the kernel makes with the address, but not again.
func (r *Reconciler) connected(l netlink.Link, at netip.Prefix) (bool, error) {
	if at.IsSingleIP() || l.Attrs().Flags&net.FlagUp == 0 {
		return true, nil
	}
	family := netlink.FAMILY_V4
	if at.Addr().Is6() {
		family = netlink.FAMILY_V6
	}
	have, err := r.routesOf(l, func() ([]netlink.Route, error) {
		return r.nl.RouteListFiltered(family, &netlink.Route{LinkIndex: l.Attrs().Index}, netlink.RT_FILTER_OIF)
	})
	if err != nil {
		// Unknown isn't lost: an address that is in use must not be taken for it.
		return true, node.Errorf(node.Internal, "cannot list routes of %s: %w", l.Attrs().Name, err)
	}
	return slices.ContainsFunc(have, func(r netlink.Route) bool { return r.Dst != nil && FromIPNet(r.Dst) == at.Masked() }), nil
}

// LinkLocal gives l a link-local address beside its own.
func (r *Reconciler) LinkLocal(l netlink.Link, at netip.Addr) error {
	have, err := netns.Whole(func() ([]netlink.Addr, error) { return r.nl.AddrList(l, netlink.FAMILY_V6) })
	if err != nil {
		return node.Errorf(node.Internal, "cannot list addresses of %s: %w", l.Attrs().Name, err)
	}
	for _, a := range have {
		if FromIPNet(a.IPNet).Addr() == at {
			return nil
		}
	}
	if !r.Differs("%s has no address %s", l.Attrs().Name, at) {
		return nil
	}
	a := &netlink.Addr{IPNet: toIPNet(netip.PrefixFrom(at, 64)), Flags: unix.IFA_F_NODAD}
	if err := r.nl.AddrReplace(l, a); err != nil {
		return node.Errorf(node.Internal, "cannot give %s the address %s: %w", l.Attrs().Name, at, err)
	}
	return nil
}

func toIPNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}

// FromIPNet keeps the bits of the host: an address of a link has them.
func FromIPNet(n *net.IPNet) netip.Prefix {
	if n == nil {
		return netip.Prefix{}
	}
	bits, size := n.Mask.Size()
	a, _ := netip.AddrFromSlice(n.IP)
	if size == 32 {
		a = a.Unmap()
	}
	return netip.PrefixFrom(a, bits)
}
