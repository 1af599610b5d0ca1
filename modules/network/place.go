package network

import (
	"context"
	"net"

	"github.com/vishvananda/netlink"

	"github.com/croft-edge/croft/modules/network/firewall"
	"github.com/croft-edge/croft/pkg/node"
)

// ensureMember brings one member's place in n to what it shall be, or only the
// rules and the names when one is nil: its place is gone then. What isn't of that
// member is left alone, so that a change costs the same among many. Where n itself
// isn't whole all of it is brought to what it shall be. was is the rules before
// the change.
func (m *Module) ensureMember(ctx context.Context, n *network, one *member, was firewall.Network) error {
	inside, err := plumbing(m.namespace(n.id()), false)
	if node.KindOf(err) == node.NotExist {
		return m.ensure(ctx, n)
	}
	if err != nil {
		return err
	}
	defer inside.close()
	bridge, whole, err := inside.trunk()
	if err != nil {
		return err
	}
	if !whole {
		return m.ensure(ctx, n)
	}
	if err := m.save(n); err != nil {
		return err
	}
	if _, err := m.ensureHost(); err != nil {
		return err
	}
	if err := m.guard(n, was); err != nil {
		return err
	}
	if one != nil {
		if err := m.plumbOne(n, one, inside, bridge); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, carrierPatience)
	defer cancel()
	t, err := m.connect(ctx)
	if err != nil {
		return err
	}
	return t.carrier.SetZone(ctx, n.zone(m.namespace(n.id())))
}

// plumbOne makes the links of one member.
func (m *Module) plumbOne(n *network, one *member, inside *plumber, bridge netlink.Link) error {
	if err := m.plumbPort(n, one, inside, bridge); err != nil || !one.Public.IsValid() {
		return err
	}
	outside, err := plumbing("", false)
	if err != nil {
		return err
	}
	defer outside.close()
	return m.plumbPublic(one, outside)
}

// trunk is a network's bridge, and whether the links are up that its members
// share.
func (p *plumber) trunk() (bridge netlink.Link, whole bool, err error) {
	for _, name := range []string{tunnelName, uplinkName, bridgeName} {
		l, err := p.find(name)
		if err != nil || l == nil || l.Attrs().Flags&net.FlagUp == 0 {
			return nil, false, err
		}
		bridge = l
	}
	return bridge, true, nil
}
