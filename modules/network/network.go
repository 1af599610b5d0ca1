package network

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"

	"github.com/vishvananda/netlink"

	"github.com/croft-edge/croft/modules/network/firewall"
	"github.com/croft-edge/croft/modules/network/netns"
	"github.com/croft-edge/croft/pkg/workload"
)

// The names of the links in a network's namespace.
const (
	bridgeName = "br0"
	uplinkName = "up0"
	tunnelName = "wg0"
	// memberLink and publicLink are in a member's own namespace.
	memberLink = "eth0"
	publicLink = "pub0"
)

// Sizes of packets in bytes: a tunnel adds up to 80.
const (
	linkMTU   = 1500
	tunnelMTU = 1420
)

// network is a network resource that is on the node.
type network struct {
	state
	plan plan
	// moved is whether a peer's name leads elsewhere than the tunnel.
	moved bool
}

func (n *network) id() string { return n.plan.spec.ID }

// ports are what the firewall lets through on the bridge, in a stable order.
func (n *network) ports() []firewall.Port {
	out := make([]firewall.Port, 0, len(n.Members))
	for _, m := range n.sorted() {
		out = append(out, firewall.Port{Name: m.port(), MAC: n.mac(m), IPs: slices.Concat(m.IPs, []netip.Addr{n.address6(m)})})
	}
	return out
}

// sorted are the members by port.
func (n *network) sorted() []*member {
	out := make([]*member, 0, len(n.Members))
	for _, m := range n.Members {
		out = append(out, m)
	}
	slices.SortFunc(out, func(a, b *member) int { return a.Index - b.Index })
	return out
}

// port is the name of the member's link in the network's namespace.
func (m *member) port() string {
	if m.Tap {
		return "t" + strconv.Itoa(m.Index)
	}
	return "m" + strconv.Itoa(m.Index)
}

// address6 is a member's IPv6 address; it follows from its first IPv4 address.
func (n *network) address6(m *member) netip.Addr {
	return workload.Address6(n.plan.prefix6, n.plan.subnet, m.IPs[0])
}

// mac is a member's hardware address.
func (n *network) mac(m *member) net.HardwareAddr {
	// By its first address, which one member has at a time: whoever takes that over
	// is who its neighbours know already.
	if len(m.IPs) > 0 {
		return macOf(n.id() + "/" + m.IPs[0].String())
	}
	return macOf(n.id() + "/" + m.ID)
}

// macOf makes a locally administered hardware address of a name.
func macOf(name string) net.HardwareAddr {
	sum := sha256.Sum256([]byte(name))
	return net.HardwareAddr{0x02, sum[0], sum[1], sum[2], sum[3], sum[4]}
}

// settings are the kernel's of a new network namespace: a router that learns
// nothing from its neighbours, and whose bridge doesn't ask the router's rules.
func settings() map[string]string {
	return map[string]string{
		"net/ipv4/ip_forward":                    "1",
		"net/ipv4/conf/all/send_redirects":       "0",
		"net/ipv4/conf/default/send_redirects":   "0",
		"net/ipv4/conf/all/accept_redirects":     "0",
		"net/ipv4/conf/default/accept_redirects": "0",
		"net/ipv4/conf/all/accept_source_route":  "0",
		"net/ipv6/conf/all/forwarding":           "1",
		"net/ipv6/conf/all/accept_ra":            "0",
		"net/ipv6/conf/default/accept_ra":        "0",
		"net/ipv6/conf/all/accept_redirects":     "0",
		"net/ipv6/conf/default/accept_redirects": "0",
		"net/bridge/bridge-nf-call-iptables":     "0",
		"net/bridge/bridge-nf-call-ip6tables":    "0",
		"net/bridge/bridge-nf-call-arptables":    "0",
	}
}

// plumb brings n to what it shall be, or only looks; outside is of the node's
// own namespace. The tunnel and DNS are the carrier's, the rules the
// firewall's: see ensure and check.
func (m *Module) plumb(n *network, look bool, outside *plumber) (drift string, err error) {
	path := m.namespace(n.id())
	if _, err := netns.Inode(path); err != nil {
		if look {
			return "its namespace is gone", nil
		}
		if err := m.makeNamespace(path); err != nil {
			return "", err
		}
		drift = "its namespace is gone; "
	}
	inside, err := plumbing(path, look)
	if err != nil {
		return "", err
	}
	defer inside.close()
	before := len(outside.diff)
	bridge, err := n.plumbBridge(inside)
	if err != nil || look && bridge == nil {
		return drift + inside.drift(), err
	}
	if err := m.plumbUplink(n, inside, outside); err != nil {
		return "", err
	}
	for _, one := range n.sorted() {
		if err := m.plumbPort(n, one, inside, bridge); err != nil {
			return "", err
		}
		if err := m.plumbPublic(one, outside); err != nil {
			return "", err
		}
	}
	inside.diff = append(inside.diff, outside.diff[before:]...)
	return drift + inside.drift(), nil
}

// makeNamespace makes a namespace with the settings of a router.
func (m *Module) makeNamespace(path string) error {
	if err := netns.Make(path); err != nil {
		return err
	}
	return netns.Do(path, func() error {
		for name, value := range settings() {
			if err := sysctl(name, value); err != nil {
				return err
			}
		}
		lo, err := netlink.LinkByName("lo")
		if err == nil {
			err = netlink.LinkSetUp(lo)
		}
		return err
	})
}

func (n *network) plumbBridge(in *plumber) (netlink.Link, error) {
	bridge, err := in.link(bridgeName, func() error {
		attrs := netlink.NewLinkAttrs()
		attrs.Name, attrs.MTU, attrs.HardwareAddr = bridgeName, linkMTU, macOf(n.id()+"/gateway")
		// Without a querier snooping would cut off IPv6's neighbour discovery.
		snooping := false
		return in.nl.LinkAdd(&netlink.Bridge{LinkAttrs: attrs, MulticastSnooping: &snooping})
	})
	if err != nil || bridge == nil {
		return nil, err
	}
	err = in.addresses(bridge, netip.PrefixFrom(n.plan.gateway, n.plan.subnet.Bits()), netip.PrefixFrom(n.plan.gateway6, 64))
	if err != nil {
		return nil, err
	}
	return bridge, in.up(bridge)
}

// uplinkAddresses are the node's and the network's end's, of that index.
func (m *Module) uplinkAddresses(index int) (host, own [2]netip.Prefix) {
	base4, base6 := m.cfg.Uplinks.Addr().As4(), m.cfg.uplinks6().Addr().As16()
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

// uplinkLink is the name of the node's end.
func (m *Module) uplinkLink(index int) string {
	return m.cfg.uplinkPrefix() + strconv.FormatInt(int64(index), 16)
}

// plumbUplink makes the way out: a veth to the node's namespace.
func (m *Module) plumbUplink(n *network, in, out *plumber) error {
	name := m.uplinkLink(n.Index)
	host, own := m.uplinkAddresses(n.Index)
	if l, err := in.find(uplinkName); err != nil {
		return err
	} else if l == nil {
		// The node's end may be of a namespace that has just ended.
		if !in.differs("link %s is gone", uplinkName) {
			return nil
		}
		if err := out.remove(name); err != nil {
			return err
		}
	}
	outer, err := out.link(name, func() error { return m.makeUplink(n, in, name) })
	if err != nil || outer == nil {
		return err
	}
	if err := out.label(outer, n.id()); err != nil {
		return err
	}
	inner, err := in.find(uplinkName)
	if err != nil || inner == nil {
		return err
	}
	steps := []error{
		out.addresses(outer, host[0], host[1]), out.up(outer),
		in.addresses(inner, own[0], own[1]), in.up(inner),
		in.routes(inner, route{netip.PrefixFrom(netip.IPv4Unspecified(), 0), host[0].Addr()}, route{netip.PrefixFrom(netip.IPv6Unspecified(), 0), host[1].Addr()}),
	}
	return firstError(steps)
}

func (m *Module) makeUplink(n *network, in *plumber, name string) error {
	if err := in.remove(uplinkName); err != nil {
		return err
	}
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MTU = uplinkName, linkMTU
	attrs.HardwareAddr = macOf(n.id() + "/uplink")
	self, err := netns.Own()
	if err != nil {
		return err
	}
	defer self.Close()
	return in.nl.LinkAdd(&netlink.Veth{
		LinkAttrs: attrs, PeerName: name, PeerNamespace: netlink.NsFd(int(self.Fd())), PeerMTU: linkMTU,
		PeerHardwareAddr: macOf(n.id() + "/" + name),
	})
}

func firstError(errs []error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// shown bounds what of a value goes into an error.
func shown(value any) string {
	const most = 64
	text := fmt.Sprint(value)
	if len(text) > most {
		return text[:most] + "…"
	}
	return text
}
