package overlay

import (
	"errors"
	"fmt"
	"net"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Setup makes self's end of the overlay, over the interface of that name. One that is there is made anew: the machine has
// booted with other data.
func Setup(self Machine, over string) error {
	below, err := netlink.LinkByName(over)
	if err != nil {
		return fmt.Errorf("cannot make the overlay over %s: %w", over, err)
	}
	if old, err := netlink.LinkByName(Interface); err == nil {
		if err := netlink.LinkDel(old); err != nil {
			return fmt.Errorf("cannot remove the old overlay: %w", err)
		}
	}
	attributes := netlink.NewLinkAttrs()
	attributes.Name, attributes.MTU, attributes.HardwareAddr = Interface, MTU, self.MAC()
	link := &netlink.Vxlan{
		LinkAttrs: attributes, VxlanId: identifier, VtepDevIndex: below.Attrs().Index, SrcAddr: self.Address.AsSlice(), Port: Port,
	}
	if err := netlink.LinkAdd(link); err != nil {
		return fmt.Errorf("cannot make the overlay: %w", err)
	}
	address := &netlink.Addr{IPNet: &net.IPNet{IP: self.End().AsSlice(), Mask: net.CIDRMask(32, 32)}}
	if err := netlink.AddrAdd(link, address); err != nil {
		return fmt.Errorf("cannot give the overlay its address: %w", err)
	}
	return netlink.LinkSetUp(link)
}

// Apply makes routes, neighbours and forwarding entries for the peers, and removes those of others.
func Apply(peers []Machine) error {
	link, err := netlink.LinkByName(Interface)
	if err != nil {
		return fmt.Errorf("cannot find the overlay: %w", err)
	}
	index := link.Attrs().Index
	var failed []error
	for _, m := range peers {
		if err := join(index, m); err != nil {
			failed = append(failed, fmt.Errorf("cannot join machine %s: %w", m.Name, err))
		}
	}
	return errors.Join(append(failed, prune(index, peers))...)
}

func join(index int, m Machine) error {
	end := net.IP(m.End().AsSlice())
	if err := netlink.NeighSet(&netlink.Neigh{
		LinkIndex: index, Family: netlink.FAMILY_V4, State: netlink.NUD_PERMANENT, IP: end, HardwareAddr: m.MAC(),
	}); err != nil {
		return err
	}
	if err := netlink.NeighSet(&netlink.Neigh{
		LinkIndex: index, Family: unix.AF_BRIDGE, State: netlink.NUD_PERMANENT, Flags: netlink.NTF_SELF, IP: m.Address.AsSlice(), HardwareAddr: m.MAC(),
	}); err != nil {
		return err
	}
	return netlink.RouteReplace(&netlink.Route{
		LinkIndex: index, Dst: &net.IPNet{IP: end, Mask: net.CIDRMask(podBits, 32)}, Gw: end, Flags: int(netlink.FLAG_ONLINK),
	})
}

// prune removes what leads to machines that are no peers.
func prune(index int, peers []Machine) error {
	ends, macs := map[string]bool{}, map[string]bool{}
	for _, m := range peers {
		ends[m.End().String()], macs[m.MAC().String()+" "+m.Address.String()] = true, true
	}
	var failed []error
	routes, err := netlink.RouteListFiltered(netlink.FAMILY_V4, &netlink.Route{LinkIndex: index}, netlink.RT_FILTER_OIF)
	if err != nil {
		return err
	}
	for _, r := range routes {
		if r.Gw != nil && !ends[r.Gw.String()] {
			failed = append(failed, netlink.RouteDel(&r))
		}
	}
	for _, family := range []int{netlink.FAMILY_V4, unix.AF_BRIDGE} {
		neighbours, err := netlink.NeighList(index, family)
		if err != nil {
			failed = append(failed, err)
			continue
		}
		for _, n := range neighbours {
			known := ends[n.IP.String()]
			if family == unix.AF_BRIDGE {
				known = macs[n.HardwareAddr.String()+" "+n.IP.String()]
			}
			if !known && n.State&netlink.NUD_PERMANENT != 0 {
				n.Family = family
				failed = append(failed, netlink.NeighDel(&n))
			}
		}
	}
	return errors.Join(failed...)
}
