package wiring

import (
	"cmp"
	"encoding/binary"
	"net"
	"net/netip"
	"strconv"

	"github.com/vishvananda/netlink"

	"github.com/croft-edge/croft/modules/network/links"
	"github.com/croft-edge/croft/modules/network/resource"
	"github.com/croft-edge/croft/pkg/netns"
	"github.com/croft-edge/croft/pkg/node"
)

// Uplinks are the networks' ways out: veth pairs to the node's namespace.
type Uplinks struct {
	// Prefix starts the names of the node's ends.
	Prefix string
	// Range4 and Range6 have two addresses for each.
	Range4 netip.Prefix
	Range6 netip.Prefix
	// First returns the index that is tried first, below size.
	First func(size int) int
}

// addresses are the node's end's and the network's end's.
func (u Uplinks) addresses(index int) (host, own [2]netip.Prefix) {
	base4, base6 := u.Range4.Addr().As4(), u.Range6.Addr().As16()
	at := binary.BigEndian.Uint32(base4[:]) + uint32(2*index)
	low := uint64(2*index) + 2
	for i, end := range []*[2]netip.Prefix{&host, &own} {
		binary.BigEndian.PutUint32(base4[:], at+uint32(i))
		binary.BigEndian.PutUint64(base6[8:], low+uint64(i))
		end[0] = netip.PrefixFrom(netip.AddrFrom4(base4), 31)
		end[1] = netip.PrefixFrom(netip.AddrFrom16(base6), 127)
	}
	return host, own
}

// name is that of the node's end.
func (u Uplinks) name(index int) string { return u.Prefix + strconv.FormatInt(int64(index), 16) }

// allocate chooses an index that isn't taken, and whose name and addresses nothing
// in the node's namespace has.
func (u Uplinks) allocate(taken map[int]bool) (int, error) {
	addresses, err := netns.Whole(func() ([]netlink.Addr, error) { return netlink.AddrList(nil, netlink.FAMILY_V4) })
	if err != nil {
		return 0, node.Errorf(node.Internal, "cannot list the node's addresses: %w", err)
	}
	used := map[netip.Addr]bool{}
	for _, a := range addresses {
		used[links.FromIPNet(a.IPNet).Addr()] = true
	}
	size := 1 << (31 - u.Range4.Bits())
	start := u.First(size)
	for i := range size {
		index := (start + i) % size
		host, own := u.addresses(index)
		if taken[index] || used[host[0].Addr()] || used[own[0].Addr()] {
			continue
		}
		if _, err := netlink.LinkByName(u.name(index)); links.IsNoLink(err) {
			return index, nil
		}
	}
	return 0, node.Errorf(node.NoSpace, "cannot make another network: all %d uplinks of %s are taken", size, u.Range4)
}

// reconcile brings n's uplink to the desired state.
func (u Uplinks) reconcile(n *resource.Network, in, out *links.Reconciler) error {
	name := u.name(n.Index)
	host, own := u.addresses(n.Index)
	if _, err := out.Owned(name, n.ID(), outerMAC(n, name)); err != nil {
		return err
	}
	if l, err := in.Find(resource.Uplink); err != nil {
		return err
	} else if l == nil {
		// The node's end may be of a namespace that has just ended.
		if !in.Differs("link %s is gone", resource.Uplink) {
			return nil
		}
		if err := out.Remove(name); err != nil {
			return err
		}
	}
	outer, err := out.Link(name, func() error { return makeUplink(n, in, name) })
	if err != nil || outer == nil {
		return err
	}
	if err := out.Label(outer, n.ID()); err != nil {
		return err
	}
	inner, err := in.Find(resource.Uplink)
	if err != nil || inner == nil {
		return err
	}
	return cmp.Or(
		out.Addresses(outer, host[0], host[1]), out.Up(outer),
		in.Addresses(inner, own[0], own[1]), in.Up(inner),
		in.Routes(inner, links.Route{Dst: links.Everywhere4(), Via: host[0].Addr()}, links.Route{Dst: links.Everywhere6(), Via: host[1].Addr()}),
	)
}

func makeUplink(n *resource.Network, in *links.Reconciler, name string) error {
	if err := in.Remove(resource.Uplink); err != nil {
		return err
	}
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MTU = resource.Uplink, resource.LinkMTU
	attrs.HardwareAddr = resource.MACOf(n.ID() + "/uplink")
	self, err := netns.Own()
	if err != nil {
		return err
	}
	defer self.Close()
	return in.Add(&netlink.Veth{
		LinkAttrs: attrs, PeerName: name, PeerNamespace: netlink.NsFd(int(self.Fd())), PeerMTU: resource.LinkMTU,
		PeerHardwareAddr: outerMAC(n, name),
	})
}

// outerMAC is the hardware address of the node's end.
func outerMAC(n *resource.Network, name string) net.HardwareAddr {
	return resource.MACOf(n.ID() + "/" + name)
}
