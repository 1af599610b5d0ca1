package network

import (
	"crypto/sha256"
	"encoding/binary"
	"net/netip"
	"strconv"

	"github.com/vishvananda/netlink"
	vnetns "github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/modules/network/netns"
	"github.com/croft-edge/croft/pkg/node"
)

// A member's public interface is a veth straight to the node's namespace, past
// the network: what comes from outside to its address never sees the network.

// publicGateway is the node's end's address on every public link.
var publicGateway = netip.MustParseAddr("fe80::1") //nolint:gochecknoglobals // netip has no constants

// publicName is the name of the node's end.
func (m *Module) publicName(index int) string {
	return m.cfg.publicPrefix() + strconv.FormatInt(int64(index), 16)
}

// choosePublic gives a member an address: as long as nobody has it, always
// the same for the same member.
func (m *Module) choosePublic(member string) (netip.Addr, int, error) {
	if !m.cfg.Public.IsValid() {
		return netip.Addr{}, 0, node.Errorf(node.Refused, "cannot join member %s: public_ip6 is true, must be false: this node has no public IPv6 range", member)
	}
	taken, indexes := map[netip.Addr]bool{}, map[int]bool{}
	for _, n := range m.networks {
		for _, one := range n.Members {
			if one.Public.IsValid() {
				taken[one.Public], indexes[one.PublicIndex] = true, true
			}
		}
	}
	index := 0
	for indexes[index] {
		index++
	}
	base := m.cfg.Public.Addr().As16()
	for try := range 1 << 10 {
		sum := sha256.Sum256([]byte(member + "/" + strconv.Itoa(try)))
		host := binary.BigEndian.Uint64(sum[:])
		if width := 128 - m.cfg.Public.Bits(); width < 64 {
			host &= 1<<width - 1
		}
		a := base
		binary.BigEndian.PutUint64(a[8:], binary.BigEndian.Uint64(base[8:])|host)
		// The lowest addresses are the router's and the node's own, by custom.
		if at := netip.AddrFrom16(a); host > 0xff && !taken[at] {
			return at, index, nil
		}
	}
	return netip.Addr{}, 0, node.Errorf(node.NoSpace, "cannot join member %s: no public IPv6 address of %s is free", member, m.cfg.Public)
}

// plumbPublic brings a member's public interface to what it shall be.
func (m *Module) plumbPublic(one *member, out *plumber) error {
	if !one.Public.IsValid() || one.gone() != "" {
		return nil
	}
	name := m.publicName(one.PublicIndex)
	outer, err := out.link(name, func() error { return makePublic(one, out, name) })
	if err != nil || outer == nil {
		return err
	}
	theirs, err := plumbing(one.path(), out.look)
	if err != nil {
		return err
	}
	defer theirs.close()
	inner, err := theirs.find(publicLink)
	if err != nil {
		return err
	}
	if inner == nil {
		out.differs("link %s of member %s is gone", publicLink, one.ID)
		return nil
	}
	own := netip.PrefixFrom(one.Public, 128)
	err = firstError([]error{
		out.label(outer, one.ID), out.addresses(outer), out.linkLocal(outer, publicGateway), out.rate(outer, m.cfg.Rate.Receive), out.up(outer), out.routes(outer, route{dst: own}),
		theirs.addresses(inner, own), theirs.rate(inner, m.cfg.Rate.Send), theirs.up(inner), theirs.routes(inner, route{netip.PrefixFrom(netip.IPv6Unspecified(), 0), publicGateway}),
	})
	out.diff = append(out.diff, theirs.diff...)
	return err
}

// unplugPublic removes a member's public interface, if it has one.
func (m *Module) unplugPublic(one *member) error {
	if !one.Public.IsValid() {
		return nil
	}
	out, err := plumbing("", false)
	if err != nil {
		return err
	}
	defer out.close()
	return out.remove(m.publicName(one.PublicIndex))
}

func makePublic(one *member, out *plumber, name string) error {
	theirs, err := vnetns.GetFromPath(one.path())
	if err != nil {
		return node.Errorf(node.Transient, "cannot join member %s: %w", one.ID, err)
	}
	defer theirs.Close()
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MTU = name, linkMTU
	attrs.HardwareAddr = macOf(name)
	return out.nl.LinkAdd(&netlink.Veth{
		LinkAttrs: attrs, PeerName: publicLink, PeerNamespace: netlink.NsFd(int(theirs)), PeerMTU: linkMTU, PeerHardwareAddr: macOf(name + "/" + one.ID),
	})
}

// linkLocal gives l a link-local address beside its own.
func (p *plumber) linkLocal(l netlink.Link, at netip.Addr) error {
	have, err := netns.Whole(func() ([]netlink.Addr, error) { return p.nl.AddrList(l, netlink.FAMILY_V6) })
	if err != nil {
		return node.Errorf(node.Internal, "cannot list addresses of %s: %w", l.Attrs().Name, err)
	}
	for _, a := range have {
		if fromIPNet(a.IPNet).Addr() == at {
			return nil
		}
	}
	if !p.differs("%s has no address %s", l.Attrs().Name, at) {
		return nil
	}
	a := &netlink.Addr{IPNet: toIPNet(netip.PrefixFrom(at, 64)), Flags: unix.IFA_F_NODAD}
	if err := p.nl.AddrReplace(l, a); err != nil {
		return node.Errorf(node.Internal, "cannot give %s the address %s: %w", l.Attrs().Name, at, err)
	}
	return nil
}
