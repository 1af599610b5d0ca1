package wiring

import (
	"bytes"
	"cmp"
	"net"
	"net/netip"
	"strconv"

	"github.com/vishvananda/netlink"
	vnetns "github.com/vishvananda/netns"

	"github.com/croft-edge/croft/modules/network/links"
	"github.com/croft-edge/croft/modules/network/resource"
	"github.com/croft-edge/croft/pkg/netns"
	"github.com/croft-edge/croft/pkg/node"
)

// The names of links in a member's own namespace.
const (
	memberLink = "eth0"
	publicLink = "pub0"
)

// namespaceOf is the path of a member's namespace.
func namespaceOf(m *resource.Member) string {
	if m.Namespace != "" {
		return m.Namespace
	}
	return netns.OfProcess(m.PID)
}

// MemberDrift says why a member's namespace can't be used; empty when it can. Its
// process may have ended, and another may have got its ID; or its file may keep
// nothing, or another namespace.
func MemberDrift(m *resource.Member) string {
	if m.Tap {
		return ""
	}
	if m.Namespace != "" && netns.Keeps(m.Namespace, m.Inode) {
		return ""
	}
	look := netns.Inode
	if m.Namespace != "" {
		look = netns.Kept
	}
	switch inode, err := look(namespaceOf(m)); {
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

// ports are the members' links to the bridge: a veth pair to a container's namespace,
// or a VM's tap device.
type ports struct{ rate links.Rate }

// reconcile brings one member's link to the desired state. That of a member whose
// namespace is gone is left alone, until the member is started again.
func (p ports) reconcile(n *resource.Network, one *resource.Member, in *links.Reconciler, bridge netlink.Link) error {
	if MemberDrift(one) != "" {
		return nil
	}
	if one.Tap {
		return p.reconcileTap(n, one, in, bridge)
	}
	port, err := in.Link(one.Port(), func() error { return makeVeth(n, one, in) })
	if err != nil || port == nil {
		return err
	}
	if err := in.Master(port, bridge); err != nil {
		return err
	}
	if err := cmp.Or(in.PinMAC(port, n.MAC(one)), in.LimitRate(port, p.rate.Receive), in.Up(port)); err != nil {
		return err
	}
	theirs, err := links.Open(namespaceOf(one), in.Mode())
	if err != nil {
		return err
	}
	defer theirs.Close()
	if err := p.reconcileMember(n, one, theirs); err != nil {
		return err
	}
	in.Note(theirs.Differences()...)
	return nil
}

// reconcileTap brings a VM's tap device to the desired state. It is up only once its
// frames are led through the check.
func (p ports) reconcileTap(n *resource.Network, one *resource.Member, in *links.Reconciler, bridge netlink.Link) error {
	port, err := in.Tap(one.Port(), portMAC(n, one), resource.LinkMTU)
	if err != nil || port == nil {
		return err
	}
	if err := in.Intake(port, one.Intake(), p.rate.Send); err != nil {
		return err
	}
	if err := in.Master(port, bridge); err != nil {
		return err
	}
	return cmp.Or(in.PinMAC(port, n.MAC(one)), in.LimitRate(port, p.rate.Receive), in.Up(port))
}

// reconcileMember gives the member's own link its addresses, its routes and the rate
// that it may send at. The member can't change any: no container may administer its
// network.
func (p ports) reconcileMember(n *resource.Network, one *resource.Member, in *links.Reconciler) error {
	lo, err := in.Find("lo")
	if err != nil {
		return err
	}
	link, err := in.Find(memberLink)
	if err != nil {
		return err
	}
	if link == nil {
		in.Differs("link %s of member %s is gone", memberLink, one.ID)
		return nil
	}
	addresses := make([]netip.Prefix, 0, len(one.IPs)+1)
	for _, ip := range one.IPs {
		addresses = append(addresses, netip.PrefixFrom(ip, n.Plan.Subnet.Bits()))
	}
	addresses = append(addresses, netip.PrefixFrom(n.Address6(one), 64))
	routes := []links.Route{{Dst: links.Everywhere4(), Via: n.Plan.Gateway}, {Dst: n.Plan.Prefix6, Via: n.Plan.Gateway6}}
	if !one.Public.IsValid() {
		routes = append(routes, links.Route{Dst: links.Everywhere6(), Via: n.Plan.Gateway6})
	}
	return cmp.Or(in.Up(lo), in.Addresses(link, addresses...), in.LimitRate(link, p.rate.Send), in.Up(link), in.Routes(link, routes...))
}

// portMAC is the hardware address of the node's end of a member's link.
func portMAC(n *resource.Network, one *resource.Member) net.HardwareAddr {
	return resource.MACOf(n.ID() + "/port/" + one.ID)
}

// makeVeth makes the pair between the bridge and the member's namespace.
func makeVeth(n *resource.Network, one *resource.Member, in *links.Reconciler) error {
	theirs, err := vnetns.GetFromPath(namespaceOf(one))
	if err != nil {
		return node.Errorf(node.Transient, "cannot join member %s: %w", one.ID, err)
	}
	defer theirs.Close()
	if err := clearMember(n, one, in.Mode()); err != nil {
		return err
	}
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MTU = one.Port(), resource.LinkMTU
	attrs.HardwareAddr = portMAC(n, one)
	return in.Add(&netlink.Veth{
		LinkAttrs: attrs, PeerName: memberLink, PeerNamespace: netlink.NsFd(int(theirs)), PeerMTU: resource.LinkMTU, PeerHardwareAddr: n.MAC(one),
	})
}

// clearMember removes the member's end of a pair whose other end is in a
// namespace that croft has lost. Exist when it isn't croft's.
func clearMember(n *resource.Network, one *resource.Member, mode links.Mode) error {
	theirs, err := links.Open(namespaceOf(one), mode)
	if err != nil {
		return err
	}
	defer theirs.Close()
	old, err := theirs.Find(memberLink)
	if err != nil || old == nil {
		return err
	}
	if !bytes.Equal(old.Attrs().HardwareAddr, n.MAC(one)) {
		return node.Errorf(node.Exist, "cannot join member %s: its namespace has a link %s that isn't croft's", one.ID, memberLink)
	}
	return theirs.Remove(memberLink)
}
