package network

import (
	"encoding/binary"
	stderrors "errors"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/pkg/errors"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	vishnetns "github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/bootstrap/node/init/network/lease"
	"github.com/croft-edge/croft/pkg/netns"
)

const (
	// own marks the routes of this package in the kernel.
	own = netlink.RouteProtocol(unix.RTPROT_DHCP)
	// noEnd is the lifetime of a leased address without an end, in seconds. It is one, so that all leased addresses are known by having it.
	noEnd = 1<<31 - 2
	// hostBits is the length of the network that DHCPv6's addresses are in.
	hostBits = 128
)

// Flags of an interface's IPv6, of the kernel's include/net/if_inet6.h: a router has spoken, it says that DHCPv6 gives addresses.
const (
	routerSpoke  = 0x20
	givesAddress = 0x40
)

// kernel is the kernel's side of the machine's interfaces.
type kernel struct {
	links *netlink.Handle
	// space is the network namespace, nil for the process's, and within runs a function in it.
	space  *vishnetns.NsHandle
	within func(func() error) error
	// sys is where sysfs has the interfaces.
	sys string
}

func machine() (*kernel, error) {
	handle, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return nil, errors.Wrap(err, "cannot speak to the kernel about networks")
	}
	return &kernel{links: handle, within: func(f func() error) error { return f() }, sys: "/sys/class/net"}, nil
}

// hardware reports whether an interface is Ethernet hardware with a cable.
func (k *kernel) hardware(name string) bool {
	there := func(file string) bool {
		_, err := os.Stat(filepath.Join(k.sys, name, file))
		return err == nil
	}
	return there("device") && !there("wireless") && !there("phy80211")
}

// link reads an interface.
func (k *kernel) link(index int) (netlink.Link, error) {
	link, err := k.links.LinkByIndex(index)
	return link, errors.Wrapf(err, "cannot read interface %d", index)
}

// prepare switches an interface on, and has it hear router advertisements also when the machine forwards, as croft's networks need it. Default
// routes by advertisements get the interface's metric where the kernel can do that. An address that replaces another of the same network
// stays when that one goes.
func (k *kernel) prepare(link netlink.Link, metric string) error {
	name := link.Attrs().Name
	err := k.within(func() error {
		return stderrors.Join(
			netns.Sysctl("net/ipv6/conf/"+name+"/accept_ra", "2"), netns.Sysctl("net/ipv4/conf/"+name+"/promote_secondaries", "1"),
			netns.Sysctl("net/ipv6/conf/"+name+"/ra_defrtr_metric", metric))
	})
	if link.Attrs().Flags&net.FlagUp == 0 {
		err = stderrors.Join(err, errors.Wrapf(k.links.LinkSetUp(link), "cannot switch %s on", name))
	}
	return err
}

// want is what an interface should have.
type want struct {
	leases []*lease.Lease
	metric int
	mtu    int
	// settled4 and settled6 are whether it is known what the families have: else what is there from before stays.
	settled4, settled6 bool
}

// apply makes an interface have what it should. It goes on after a failure.
func (k *kernel) apply(link netlink.Link, w want) error {
	var failed []error
	if w.mtu != 0 && link.Attrs().MTU != w.mtu {
		failed = append(failed, errors.Wrapf(k.links.LinkSetMTU(link, w.mtu), "cannot set the MTU of %s to %d", link.Attrs().Name, w.mtu))
	}
	return stderrors.Join(append(failed, k.addresses(link, w), k.routes(link, w))...)
}

func (k *kernel) addresses(link netlink.Link, w want) error {
	there, err := k.links.AddrList(link, netlink.FAMILY_ALL)
	if err != nil {
		return errors.Wrapf(err, "cannot read the addresses of %s", link.Attrs().Name)
	}
	var failed []error
	wanted := map[netip.Prefix]bool{}
	for _, l := range w.leases {
		for _, p := range l.Addresses {
			if wanted[p] || !l.End().IsZero() && time.Until(l.End()) < time.Second {
				continue
			}
			wanted[p] = true
			failed = append(failed, errors.Wrapf(k.links.AddrReplace(link, addr(p, l)), "cannot add the address %s to %s", p, link.Attrs().Name))
		}
	}
	for _, a := range there {
		p := prefix(a.IPNet)
		settled := p.Addr().Is4() && w.settled4 || p.Addr().Is6() && w.settled6
		if settled && leased(a) && !wanted[p] {
			failed = append(failed, errors.Wrapf(k.links.AddrDel(link, &a), "cannot remove the address %s from %s", p, link.Attrs().Name))
		}
	}
	return stderrors.Join(failed...)
}

// leased reports whether an address of the kernel is of a lease: it has a lifetime, and isn't one that the kernel makes of advertisements.
func leased(a netlink.Addr) bool {
	four := a.IP.To4() != nil
	ones, _ := a.Mask.Size()
	return a.Flags&unix.IFA_F_PERMANENT == 0 && (four || ones == hostBits)
}

// addr is a leased or static address. The kernel knows when it ends, so that it is given up even if this process doesn't live.
func addr(p netip.Prefix, l *lease.Lease) *netlink.Addr {
	a := &netlink.Addr{IPNet: ipNet(p)}
	switch {
	case l.Begun.IsZero():
		return a
	case l.End().IsZero():
		a.ValidLft = noEnd
	default:
		a.ValidLft = min(int(time.Until(l.End())/time.Second), noEnd)
	}
	a.PreferedLft = a.ValidLft
	return a
}

func (k *kernel) routes(link netlink.Link, w want) error {
	there, err := k.links.RouteListFiltered(netlink.FAMILY_ALL, &netlink.Route{LinkIndex: link.Attrs().Index, Protocol: own}, netlink.RT_FILTER_OIF|netlink.RT_FILTER_PROTOCOL)
	if err != nil {
		return errors.Wrapf(err, "cannot read the routes of %s", link.Attrs().Name)
	}
	var failed []error
	var wanted []lease.Route
	for _, l := range w.leases {
		for _, r := range l.Routes {
			if slices.Contains(wanted, r) {
				continue
			}
			wanted = append(wanted, r)
			failed = append(failed, errors.Wrapf(k.links.RouteReplace(route(link, r, l, w.metric)), "cannot add a route to %s on %s", r.To, link.Attrs().Name))
		}
	}
	for _, r := range there {
		is := shown(r)
		settled := is.To.Addr().Is4() && w.settled4 || is.To.Addr().Is6() && w.settled6
		if settled && (!slices.Contains(wanted, is) || r.Priority != w.metric) {
			failed = append(failed, errors.Wrapf(k.links.RouteDel(&r), "cannot remove the route to %s from %s", is.To, link.Attrs().Name))
		}
	}
	return stderrors.Join(failed...)
}

// route is a route of a lease. A router outside of the interface's network is asked for on the link all the same.
func route(link netlink.Link, r lease.Route, l *lease.Lease, metric int) *netlink.Route {
	out := &netlink.Route{LinkIndex: link.Attrs().Index, Dst: ipNet(r.To), Protocol: own, Priority: metric}
	for _, p := range l.Addresses {
		if p.Addr().Is4() && r.To.Addr().Is4() {
			out.Src = p.Addr().AsSlice()
			break
		}
	}
	if !r.Via.IsValid() {
		out.Scope = netlink.SCOPE_LINK
		return out
	}
	out.Gw = r.Via.AsSlice()
	if !slices.ContainsFunc(l.Addresses, func(p netip.Prefix) bool { return p.Contains(r.Via) }) {
		out.Flags = int(netlink.FLAG_ONLINK)
	}
	return out
}

// shown is a route of the kernel. Its default route may have no destination.
func shown(r netlink.Route) lease.Route {
	via := lease.Addr(r.Gw)
	if r.Dst != nil {
		return lease.Route{To: prefix(r.Dst), Via: via}
	}
	if r.Family == netlink.FAMILY_V6 {
		return lease.Route{To: netip.PrefixFrom(netip.IPv6Unspecified(), 0), Via: via}
	}
	return lease.Route{To: netip.PrefixFrom(netip.IPv4Unspecified(), 0), Via: via}
}

// shown are the addresses and the default routers that an interface has now; none if it is gone.
func (k *kernel) shown(index int) (addresses []netip.Prefix, gateways []netip.Addr) {
	link, err := k.links.LinkByIndex(index)
	if err != nil {
		return nil, nil
	}
	there, _ := k.links.AddrList(link, netlink.FAMILY_ALL)
	for _, a := range there {
		addresses = append(addresses, prefix(a.IPNet))
	}
	routes, _ := k.links.RouteListFiltered(netlink.FAMILY_ALL, &netlink.Route{LinkIndex: index}, netlink.RT_FILTER_OIF)
	for _, r := range routes {
		is := shown(r)
		if is.To.Bits() == 0 && is.Via.IsValid() && !slices.Contains(gateways, is.Via) {
			gateways = append(gateways, is.Via)
		}
	}
	return addresses, gateways
}

// leasedAddress is the IPv4 address of a lease that an interface has from before; invalid if it has none.
func (k *kernel) leasedAddress(link netlink.Link) netip.Addr {
	there, _ := k.links.AddrList(link, netlink.FAMILY_V4)
	for _, a := range there {
		if leased(a) {
			return prefix(a.IPNet).Addr()
		}
	}
	return netip.Addr{}
}

// router reports whether a router has advertised itself on an interface, and whether it says that DHCPv6 gives addresses.
func (k *kernel) router(index int) (spoke, gives bool, err error) {
	var answers [][]byte
	err = k.within(func() (err error) {
		request := nl.NewNetlinkRequest(unix.RTM_GETLINK, unix.NLM_F_ACK)
		about := nl.NewIfInfomsg(unix.AF_UNSPEC)
		about.Index = int32(index)
		request.AddData(about)
		answers, err = request.Execute(unix.NETLINK_ROUTE, 0)
		return err
	})
	if err != nil {
		return false, false, errors.Wrapf(err, "cannot read what interface %d heard of IPv6", index)
	}
	for _, answer := range answers {
		if len(answer) > unix.SizeofIfInfomsg {
			flags := flags6(answer[unix.SizeofIfInfomsg:])
			return flags&routerSpoke != 0, flags&givesAddress != 0, nil
		}
	}
	return false, false, nil
}

// flags6 finds the flags of IPv6 in an interface's attributes; 0 if it has none.
func flags6(attributes []byte) uint32 {
	for _, kind := range []uint16{unix.IFLA_AF_SPEC, unix.AF_INET6, unix.IFLA_INET6_FLAGS} {
		parsed, err := nl.ParseRouteAttr(attributes)
		if err != nil {
			return 0
		}
		attributes = nil
		for _, a := range parsed {
			if a.Attr.Type&^unix.NLA_F_NESTED == kind {
				attributes = a.Value
			}
		}
	}
	if len(attributes) < 4 {
		return 0
	}
	return binary.NativeEndian.Uint32(attributes)
}

func ipNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}

func prefix(n *net.IPNet) netip.Prefix {
	ones, _ := n.Mask.Size()
	return netip.PrefixFrom(lease.Addr(n.IP), ones)
}
