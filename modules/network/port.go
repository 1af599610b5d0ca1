package network

import (
	"bytes"
	"net"
	"net/netip"
	"strconv"

	"github.com/vishvananda/netlink"
	vnetns "github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/modules/network/netns"
	"github.com/croft-edge/croft/pkg/node"
)

// path is that of the member's namespace.
func (m *member) path() string {
	if m.Namespace != "" {
		return m.Namespace
	}
	return netns.OfProcess(m.PID)
}

// gone says why a member's namespace can't be used; empty when it can. Its
// process may have ended, and another may have got its ID; or its file may keep
// nothing, or another namespace.
func (m *member) gone() string {
	if m.Tap {
		return ""
	}
	look := netns.Inode
	if m.Namespace != "" {
		look = netns.Kept
	}
	switch inode, err := look(m.path()); {
	case err == nil && inode == m.Inode:
		return ""
	case m.Namespace == "":
		return "its process " + strconv.FormatUint(m.PID, 10) + " has ended"
	case err == nil:
		return "its network namespace " + m.Namespace + " is another one"
	default:
		return "its network namespace " + m.Namespace + " is gone"
	}
}

// plumbPort brings one member's way to the bridge to what it shall be. That
// of a member whose namespace is gone is left to whoever starts it again.
func (m *Module) plumbPort(n *network, one *member, in *plumber, bridge netlink.Link) error {
	if one.gone() != "" {
		return nil
	}
	port, err := in.link(one.port(), func() error {
		if one.Tap {
			return n.makeTap(one, in)
		}
		return n.makeVeth(one, in)
	})
	if err != nil || port == nil {
		return err
	}
	if err := in.master(port, bridge); err != nil {
		return err
	}
	if one.Tap {
		return firstError([]error{in.station(port, n.mac(one)), in.up(port)})
	}
	if err := firstError([]error{in.station(port, n.mac(one)), in.rate(port, m.cfg.Rate.Receive), in.up(port)}); err != nil {
		return err
	}
	theirs, err := plumbing(one.path(), in.look)
	if err != nil {
		return err
	}
	defer theirs.close()
	if err := n.plumbMember(one, m.cfg.Rate.Send, theirs); err != nil {
		return err
	}
	in.diff = append(in.diff, theirs.diff...)
	return nil
}

// station tells the bridge once and for all which hardware address is at that
// port. It mustn't learn: some frames that it learns from are shown to no rule,
// and with one of them a member could take a neighbour's place.
func (p *plumber) station(port netlink.Link, mac net.HardwareAddr) error {
	name := port.Attrs().Name
	there, err := netns.Whole(func() ([]netlink.Neigh, error) { return p.nl.NeighList(port.Attrs().Index, unix.AF_BRIDGE) })
	if err != nil {
		return node.Errorf(node.Internal, "cannot list who is at port %s: %w", name, err)
	}
	for _, at := range there {
		if at.Flags&netlink.NTF_STICKY != 0 && bytes.Equal(at.HardwareAddr, mac) {
			return nil
		}
	}
	if !p.differs("port %s isn't told to be where %s is", name, mac) {
		return nil
	}
	if err := p.nl.LinkSetLearning(port, false); err != nil {
		return node.Errorf(node.Internal, "cannot keep port %s from learning: %w", name, err)
	}
	err = p.nl.NeighSet(&netlink.Neigh{
		LinkIndex: port.Attrs().Index, Family: unix.AF_BRIDGE, State: netlink.NUD_NOARP, Flags: netlink.NTF_MASTER | netlink.NTF_STICKY, HardwareAddr: mac,
	})
	if err != nil {
		return node.Errorf(node.Internal, "cannot tell port %s that %s is there: %w", name, mac, err)
	}
	return nil
}

// makeVeth makes the pair between the bridge and the member's namespace.
func (n *network) makeVeth(one *member, in *plumber) error {
	theirs, err := vnetns.GetFromPath(one.path())
	if err != nil {
		return node.Errorf(node.Transient, "cannot join member %s: %w", one.ID, err)
	}
	defer theirs.Close()
	if err := n.clearMember(one, in.look); err != nil {
		return err
	}
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MTU = one.port(), linkMTU
	attrs.HardwareAddr = macOf(n.id() + "/port/" + one.ID)
	return in.nl.LinkAdd(&netlink.Veth{
		LinkAttrs: attrs, PeerName: memberLink, PeerNamespace: netlink.NsFd(int(theirs)), PeerMTU: linkMTU, PeerHardwareAddr: n.mac(one),
	})
}

// clearMember removes the member's end of a pair whose other end is in a
// namespace that croft has lost. Exist when it isn't croft's.
func (n *network) clearMember(one *member, look bool) error {
	theirs, err := plumbing(one.path(), look)
	if err != nil {
		return err
	}
	defer theirs.close()
	old, err := theirs.find(memberLink)
	if err != nil || old == nil {
		return err
	}
	if !bytes.Equal(old.Attrs().HardwareAddr, n.mac(one)) {
		return node.Errorf(node.Exist, "cannot join member %s: its namespace has a link %s that isn't croft's", one.ID, memberLink)
	}
	return theirs.remove(memberLink)
}

// makeTap makes a tap device that outlives this process: whoever runs the VM opens it.
func (n *network) makeTap(one *member, in *plumber) error {
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MTU = one.port(), linkMTU
	return in.do(func() error {
		return netlink.LinkAdd(&netlink.Tuntap{LinkAttrs: attrs, Mode: netlink.TUNTAP_MODE_TAP, Flags: netlink.TUNTAP_VNET_HDR | netlink.TUNTAP_NO_PI})
	})
}

// plumbMember gives the member's own link its addresses, its routes and the rate that
// it may send at. The member can't change any: no container may administer its network.
func (n *network) plumbMember(one *member, send uint64, in *plumber) error {
	lo, err := in.find("lo")
	if err != nil {
		return err
	}
	link, err := in.find(memberLink)
	if err != nil {
		return err
	}
	if link == nil {
		in.differs("link %s of member %s is gone", memberLink, one.ID)
		return nil
	}
	addresses := make([]netip.Prefix, 0, len(one.IPs)+1)
	for _, ip := range one.IPs {
		addresses = append(addresses, netip.PrefixFrom(ip, n.plan.subnet.Bits()))
	}
	addresses = append(addresses, netip.PrefixFrom(n.address6(one), 64))
	routes := []route{{netip.PrefixFrom(netip.IPv4Unspecified(), 0), n.plan.gateway}, {n.plan.prefix6, n.plan.gateway6}}
	if !one.Public.IsValid() {
		routes = append(routes, route{netip.PrefixFrom(netip.IPv6Unspecified(), 0), n.plan.gateway6})
	}
	return firstError([]error{in.up(lo), in.addresses(link, addresses...), in.rate(link, send), in.up(link), in.routes(link, routes...)})
}

// unplug removes a member's links.
func (m *Module) unplug(n *network, one *member) error {
	if err := m.unplugPublic(one); err != nil {
		return err
	}
	in, err := plumbing(m.namespace(n.id()), false)
	if node.KindOf(err) == node.NotExist {
		return nil // what was in it went with it
	}
	if err != nil {
		return err
	}
	defer in.close()
	return in.remove(one.port())
}
