package network

import (
	"github.com/vishvananda/netlink"

	"github.com/croft-edge/croft/modules/network/netns"
)

// seen is what a namespace's links have, by index, as it was read once.
type seen struct {
	addresses map[int][]netlink.Addr
	routes    map[int][]netlink.Route
	// qdiscs are the disciplines of what leaves the links.
	qdiscs map[int]netlink.Qdisc
}

// see reads all of the namespace, once for a plumber that only looks: in the
// node's own, a look at hundreds of networks needs no more than one.
func (p *plumber) see() (*seen, error) {
	if p.seen != nil {
		return p.seen, nil
	}
	addresses, err := netns.Whole(func() ([]netlink.Addr, error) { return p.nl.AddrList(nil, netlink.FAMILY_ALL) })
	if err != nil {
		return nil, err
	}
	routes, err := netns.Whole(func() ([]netlink.Route, error) {
		return p.nl.RouteListFiltered(netlink.FAMILY_ALL, &netlink.Route{}, 0)
	})
	if err != nil {
		return nil, err
	}
	qdiscs, err := p.roots(nil)
	if err != nil {
		return nil, err
	}
	s := &seen{addresses: map[int][]netlink.Addr{}, routes: map[int][]netlink.Route{}, qdiscs: qdiscs}
	for _, a := range addresses {
		s.addresses[a.LinkIndex] = append(s.addresses[a.LinkIndex], a)
	}
	for _, r := range routes {
		s.routes[r.LinkIndex] = append(s.routes[r.LinkIndex], r)
	}
	p.seen = s
	return s, nil
}

// addressesOf are a link's addresses.
func (p *plumber) addressesOf(l netlink.Link) ([]netlink.Addr, error) {
	if !p.look {
		return netns.Whole(func() ([]netlink.Addr, error) { return p.nl.AddrList(l, netlink.FAMILY_ALL) })
	}
	s, err := p.see()
	if err != nil {
		return nil, err
	}
	return s.addresses[l.Attrs().Index], nil
}

// routesOf are a link's routes: those that list gives, or for a plumber that
// only looks all of the link's.
func (p *plumber) routesOf(l netlink.Link, list func() ([]netlink.Route, error)) ([]netlink.Route, error) {
	if !p.look {
		return netns.Whole(list)
	}
	s, err := p.see()
	if err != nil {
		return nil, err
	}
	return s.routes[l.Attrs().Index], nil
}
