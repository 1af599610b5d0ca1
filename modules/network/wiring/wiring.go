// Package wiring is the links of networks: in a network's own namespace the bridge,
// the uplink and the members' ports, in the members' namespaces their ends, and in the
// node's namespace the ends of uplinks and of public interfaces.
//
// Of the node's namespace it touches only links whose names begin with its prefixes,
// and that carry its mark. The tunnel's link is package tunnel's.
package wiring

import (
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"

	"github.com/croft-edge/croft/modules/network/links"
	"github.com/croft-edge/croft/modules/network/resource"
	"github.com/croft-edge/croft/modules/network/vouched"
	"github.com/croft-edge/croft/pkg/netns"
	"github.com/croft-edge/croft/pkg/node"
)

// Config is a Wiring's configuration.
type Config struct {
	Uplinks Uplinks
	// PublicPrefix starts the names of the node's ends of public interfaces.
	PublicPrefix string
	// Rate bounds each container's traffic.
	Rate links.Rate
}

// Wiring makes, checks and removes the links of networks.
type Wiring struct {
	uplinks Uplinks
	ports   ports
	public  public
}

// New makes one.
func New(c Config) *Wiring {
	return &Wiring{uplinks: c.Uplinks, ports: ports{c.Rate}, public: public{prefix: c.PublicPrefix, rate: c.Rate}}
}

// AllocateUplink chooses the index of a new uplink, see Uplinks.
func (w *Wiring) AllocateUplink(taken map[int]bool) (int, error) { return w.uplinks.allocate(taken) }

// Places are the namespaces and links that n has.
func (w *Wiring) Places(n *resource.Network) vouched.Places {
	p := vouched.Places{Namespaces: []string{n.Namespace}, Outside: []string{w.uplinks.name(n.Index)}, Owner: n.Spec.Label, Ports: map[string]string{}}
	for _, one := range n.Members {
		switch {
		case one.Tap:
			p.Ports[one.Port()], p.Ports[one.Intake()] = one.ID, one.ID
			continue
		case MemberDrift(one) != "":
			continue // it is left alone until it joins again
		case one.Public.IsValid():
			p.Outside = append(p.Outside, w.public.name(one.PublicIndex))
		}
		p.Namespaces = append(p.Namespaces, namespaceOf(one))
	}
	return p
}

// Mend brings all links of n to the desired state.
func (w *Wiring) Mend(n *resource.Network) error {
	if err := MakeNamespace(n); err != nil {
		return err
	}
	outside, err := links.Open("", links.Mend)
	if err != nil {
		return err
	}
	defer outside.Close()
	_, err = w.reconcile(n, outside)
	return err
}

// Drift says how the links of n differ from the desired state. outside looks at the
// node's own namespace, and may do so for many networks.
func (w *Wiring) Drift(n *resource.Network, outside *links.Reconciler) (string, error) {
	if _, err := netns.Inode(n.Namespace); err != nil {
		return "its namespace is gone", nil
	}
	return w.reconcile(n, outside)
}

// reconcile brings all links of n to the desired state, or only looks, as outside does.
func (w *Wiring) reconcile(n *resource.Network, outside *links.Reconciler) (drift string, err error) {
	inside, err := links.Open(n.Namespace, outside.Mode())
	if err != nil {
		return "", err
	}
	defer inside.Close()
	before := len(outside.Differences())
	bridge, err := reconcileBridge(n, inside)
	if err != nil || inside.Mode() == links.Look && bridge == nil {
		return inside.Drift(), err
	}
	if err := w.uplinks.reconcile(n, inside, outside); err != nil {
		return "", err
	}
	for _, one := range n.Sorted() {
		if err := w.ports.reconcile(n, one, inside, bridge); err != nil {
			return "", err
		}
		if err := w.public.reconcile(one, outside); err != nil {
			return "", err
		}
	}
	inside.Note(outside.Differences()[before:]...)
	return inside.Drift(), nil
}

func reconcileBridge(n *resource.Network, in *links.Reconciler) (netlink.Link, error) {
	bridge, err := in.Link(resource.Bridge, func() error {
		attrs := netlink.NewLinkAttrs()
		attrs.Name, attrs.MTU, attrs.HardwareAddr = resource.Bridge, resource.LinkMTU, resource.MACOf(n.ID()+"/gateway")
		// Without a querier snooping would cut off IPv6's neighbour discovery.
		snooping := false
		return in.Add(&netlink.Bridge{LinkAttrs: attrs, MulticastSnooping: &snooping})
	})
	if err != nil || bridge == nil {
		return nil, err
	}
	if in.Mode() == links.Mend { // also that of a bridge that an earlier croft has made; it isn't worth a look
		if err := links.ForwardAtOnce(in, bridge); err != nil {
			return nil, err
		}
	}
	err = in.Addresses(bridge, netip.PrefixFrom(n.Plan.Gateway, n.Plan.Subnet.Bits()), netip.PrefixFrom(n.Plan.Gateway6, 64))
	if err != nil {
		return nil, err
	}
	return bridge, in.Up(bridge)
}

// Whole reports whether the links of n that its members share are there and up.
func Whole(n *resource.Network) (bool, error) {
	inside, err := links.Open(n.Namespace, links.Look)
	if node.KindOf(err) == node.NotExist {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer inside.Close()
	for _, name := range []string{resource.Tunnel, resource.Uplink, resource.Bridge} {
		l, err := inside.Find(name)
		if err != nil || l == nil || l.Attrs().Flags&net.FlagUp == 0 {
			return false, err
		}
	}
	return true, nil
}

// MendMember brings the links of one member to the desired state, in a network that
// is whole.
func (w *Wiring) MendMember(n *resource.Network, one *resource.Member) error {
	inside, err := links.Open(n.Namespace, links.Mend)
	if err != nil {
		return err
	}
	defer inside.Close()
	bridge, err := inside.Find(resource.Bridge)
	if err != nil {
		return err
	}
	if err := w.ports.reconcile(n, one, inside, bridge); err != nil || !one.Public.IsValid() {
		return err
	}
	outside, err := links.Open("", links.Mend)
	if err != nil {
		return err
	}
	defer outside.Close()
	return w.public.reconcile(one, outside)
}

// PortDrift says how a member's link to the bridge differs from the desired state.
func (w *Wiring) PortDrift(n *resource.Network, one *resource.Member) (string, error) {
	inside, err := links.Open(n.Namespace, links.Look)
	if node.KindOf(err) == node.NotExist {
		return "its network's namespace is gone", nil
	}
	if err != nil {
		return "", err
	}
	defer inside.Close()
	bridge, err := inside.Find(resource.Bridge)
	if err != nil {
		return "", err
	}
	if err := w.ports.reconcile(n, one, inside, bridge); err != nil {
		return "", err
	}
	return inside.Drift(), nil
}

// Unplug removes a member's links.
func (w *Wiring) Unplug(n *resource.Network, one *resource.Member) error {
	if err := w.UnplugPublic(one); err != nil {
		return err
	}
	in, err := links.Open(n.Namespace, links.Mend)
	if node.KindOf(err) == node.NotExist {
		return nil // its port went with the namespace
	}
	if err != nil {
		return err
	}
	defer in.Close()
	if one.Tap {
		if err := in.Remove(one.Intake()); err != nil {
			return err
		}
	}
	return in.Remove(one.Port())
}

// UnplugPublic removes a member's public interface, if it has one.
func (w *Wiring) UnplugPublic(one *resource.Member) error {
	if !one.Public.IsValid() {
		return nil
	}
	name := w.public.name(one.PublicIndex)
	return remove(name, one.ID, resource.MACOf(name))
}

// Remove removes all links of a network that nobody is in, and its namespace.
func (w *Wiring) Remove(n *resource.Network) error {
	name := w.uplinks.name(n.Index)
	if err := remove(name, n.ID(), outerMAC(n, name)); err != nil {
		return err
	}
	if err := netns.Remove(n.Namespace); err != nil && node.KindOf(err) != node.NotExist {
		return err
	}
	return nil
}

// remove removes a link of the node's namespace, if it is id's.
func remove(name, id string, mac net.HardwareAddr) error {
	out, err := links.Open("", links.Mend)
	if err != nil {
		return err
	}
	defer out.Close()
	l, err := out.Owned(name, id, mac)
	if kind := node.KindOf(err); kind == node.Exist || kind == node.Busy {
		return nil
	}
	if err != nil || l == nil {
		return err
	}
	return out.Remove(name)
}
