package links

import (
	"github.com/vishvananda/netlink"

	"github.com/croft-edge/croft/pkg/netns"
)

// snapshot is the state of a namespace's links, by their index, as it was read once.
type snapshot struct {
	addresses map[int][]netlink.Addr
	routes    map[int][]netlink.Route
	// qdiscs are the queueing disciplines of the packets that leave.
	qdiscs map[int]netlink.Qdisc
}

// snapshot reads the state of all links, once: a look at hundreds of networks reads
// that of the node's own namespace no more often.
func (r *Reconciler) snapshot() (*snapshot, error) {
	if r.seen != nil {
		return r.seen, nil
	}
	addresses, err := netns.Whole(func() ([]netlink.Addr, error) { return r.nl.AddrList(nil, netlink.FAMILY_ALL) })
	if err != nil {
		return nil, err
	}
	routes, err := netns.Whole(func() ([]netlink.Route, error) {
		return r.nl.RouteListFiltered(netlink.FAMILY_ALL, &netlink.Route{}, 0)
	})
	if err != nil {
		return nil, err
	}
	qdiscs, err := r.rootQdiscs(nil)
	if err != nil {
		return nil, err
	}
	s := &snapshot{addresses: map[int][]netlink.Addr{}, routes: map[int][]netlink.Route{}, qdiscs: qdiscs}
	for _, a := range addresses {
		s.addresses[a.LinkIndex] = append(s.addresses[a.LinkIndex], a)
	}
	for _, r := range routes {
		s.routes[r.LinkIndex] = append(s.routes[r.LinkIndex], r)
	}
	r.seen = s
	return s, nil
}

// addressesOf are a link's addresses.
func (r *Reconciler) addressesOf(l netlink.Link) ([]netlink.Addr, error) {
	if r.mode == Mend {
		return netns.Whole(func() ([]netlink.Addr, error) { return r.nl.AddrList(l, netlink.FAMILY_ALL) })
	}
	s, err := r.snapshot()
	if err != nil {
		return nil, err
	}
	return s.addresses[l.Attrs().Index], nil
}

// routesOf are a link's routes: those that list returns, or all of the link's when
// the Reconciler only looks.
func (r *Reconciler) routesOf(l netlink.Link, list func() ([]netlink.Route, error)) ([]netlink.Route, error) {
	if r.mode == Mend {
		return netns.Whole(list)
	}
	s, err := r.snapshot()
	if err != nil {
		return nil, err
	}
	return s.routes[l.Attrs().Index], nil
}
