package wiring

import (
	"cmp"
	"net/netip"
	"strconv"

	"github.com/vishvananda/netlink"
	vnetns "github.com/vishvananda/netns"

	"github.com/croft-edge/croft/modules/network/links"
	"github.com/croft-edge/croft/modules/network/resource"
	"github.com/croft-edge/croft/pkg/node"
)

// public are the members' public interfaces: veth pairs straight to the node's
// namespace, so that packets for their addresses never see the network.
type public struct {
	// prefix starts the names of the node's ends.
	prefix string
	rate   links.Rate
}

// publicGateway is the node's end's address on every public link.
var publicGateway = netip.MustParseAddr("fe80::1") //nolint:gochecknoglobals // netip has no constants

// name is that of the node's end.
func (p public) name(index int) string { return p.prefix + strconv.FormatInt(int64(index), 16) }

// reconcile brings a member's public interface to the desired state.
func (p public) reconcile(one *resource.Member, out *links.Reconciler) error {
	if !one.Public.IsValid() || MemberDrift(one) != "" {
		return nil
	}
	name := p.name(one.PublicIndex)
	if _, err := out.Owned(name, one.ID, resource.MACOf(name)); err != nil {
		return node.WithKind(node.Busy, err) // it mustn't end another change of the network, nor every new member with an address
	}
	outer, err := out.Link(name, func() error { return makePublic(one, out, name) })
	if err != nil || outer == nil {
		return err
	}
	theirs, err := links.Open(namespaceOf(one), out.Mode())
	if err != nil {
		return err
	}
	defer theirs.Close()
	inner, err := theirs.Find(publicLink)
	if err != nil {
		return err
	}
	if inner == nil {
		out.Differs("link %s of member %s is gone", publicLink, one.ID)
		return nil
	}
	own := netip.PrefixFrom(one.Public, 128)
	err = cmp.Or(
		out.Label(outer, one.ID), out.Addresses(outer), out.LinkLocal(outer, publicGateway), out.LimitRate(outer, p.rate.Receive), out.Up(outer), out.Routes(outer, links.Route{Dst: own}),
		theirs.Addresses(inner, own), theirs.LimitRate(inner, p.rate.Send), theirs.Up(inner), theirs.Routes(inner, links.Route{Dst: links.Everywhere6(), Via: publicGateway}),
	)
	out.Note(theirs.Differences()...)
	return err
}

func makePublic(one *resource.Member, out *links.Reconciler, name string) error {
	theirs, err := vnetns.GetFromPath(namespaceOf(one))
	if err != nil {
		return node.Errorf(node.Transient, "cannot join member %s: %w", one.ID, err)
	}
	defer theirs.Close()
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MTU = name, resource.LinkMTU
	attrs.HardwareAddr = resource.MACOf(name)
	return out.Add(&netlink.Veth{
		LinkAttrs: attrs, PeerName: publicLink, PeerNamespace: netlink.NsFd(int(theirs)), PeerMTU: resource.LinkMTU, PeerHardwareAddr: resource.MACOf(name + "/" + one.ID),
	})
}
