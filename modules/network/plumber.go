package network

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/pkg/errors"
	"github.com/vishvananda/netlink"
	vnetns "github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/modules/network/netns"
	"github.com/croft-edge/croft/pkg/node"
)

// plumber brings links, addresses and routes of one namespace to what is
// wanted. When it only looks it changes nothing and says what differs; else it
// mends that. What it isn't asked about stays as it is.
type plumber struct {
	nl *netlink.Handle
	// path is the namespace's file, empty for the node's own.
	path string
	look bool
	diff []string
	// seen is what a plumber that only looks has read already: the kernel tells
	// the addresses and routes of all links at once.
	seen *seen
}

// plumbing opens the namespace of path, the process's own when path is empty.
func plumbing(path string, look bool) (*plumber, error) {
	at := vnetns.None()
	if path != "" {
		var err error
		if at, err = vnetns.GetFromPath(path); err != nil {
			return nil, node.Errorf(node.NotExist, "cannot enter network namespace %s: %w", path, err)
		}
		defer at.Close()
	}
	nl, err := netlink.NewHandleAt(at, unix.NETLINK_ROUTE)
	if err != nil {
		return nil, node.Errorf(node.Internal, "cannot open netlink in %q: %w", path, err)
	}
	return &plumber{nl: nl, path: path, look: look}, nil
}

func (p *plumber) close() { p.nl.Close() }

// do runs fn in the plumber's namespace.
func (p *plumber) do(fn func() error) error {
	if p.path == "" {
		return fn()
	}
	return netns.Do(p.path, fn)
}

// differs notes a difference and reports whether it shall be mended.
func (p *plumber) differs(format string, args ...any) bool {
	p.diff = append(p.diff, fmt.Sprintf(format, args...))
	return !p.look
}

// drift is all that differs, in one line.
func (p *plumber) drift() string { return strings.Join(p.diff, "; ") }

// find returns the link of that name, nil when there is none.
func (p *plumber) find(name string) (netlink.Link, error) {
	l, err := p.nl.LinkByName(name)
	if isNoLink(err) {
		return nil, nil
	}
	if err != nil {
		return nil, node.Errorf(node.Internal, "cannot look at link %s: %w", name, err)
	}
	return l, nil
}

// isNoLink reports whether err says that the link isn't there: the library's own
// error of a look, or the kernel's ENODEV for a link that went since. A namespace
// that ends takes the other ends of its pairs with it at any time.
func isNoLink(err error) bool {
	_, ok := err.(netlink.LinkNotFoundError) //nolint:errorlint // the library returns it bare
	return ok || errors.Is(err, unix.ENODEV)
}

// link returns the link of that name; create makes it where it is missing. It
// is nil when it is missing and the plumber only looks.
func (p *plumber) link(name string, create func() error) (netlink.Link, error) {
	l, err := p.find(name)
	if err != nil || l != nil {
		return l, err
	}
	if !p.differs("link %s is gone", name) {
		return nil, nil
	}
	if err := create(); err != nil {
		return nil, node.Errorf(node.Internal, "cannot make link %s: %w", name, err)
	}
	l, err = p.find(name)
	if err == nil && l == nil {
		err = node.Errorf(node.Internal, "cannot make link %s: it isn't there", name)
	}
	return l, err
}

// label says on a link of the node's namespace whose it is. Busy when it is
// somebody else's: two nodes of one machine may have come by the same name.
func (p *plumber) label(l netlink.Link, id string) error {
	want := labelPrefix + id
	switch have := l.Attrs().Alias; {
	case have == want:
		return nil
	case have != "":
		return node.Errorf(node.Busy, "cannot use link %s: it is %q, not croft's of network %s", l.Attrs().Name, have, id)
	case !p.differs("link %s has no label", l.Attrs().Name):
		return nil
	}
	if err := p.nl.LinkSetAlias(l, want); err != nil {
		return node.Errorf(node.Internal, "cannot label link %s: %w", l.Attrs().Name, err)
	}
	return nil
}

// labelPrefix starts the alias of croft's links.
const labelPrefix = "croft:"

// up brings a link up.
func (p *plumber) up(l netlink.Link) error {
	if l == nil || l.Attrs().Flags&net.FlagUp != 0 || !p.differs("link %s is down", l.Attrs().Name) {
		return nil
	}
	if err := p.nl.LinkSetUp(l); err != nil {
		return node.Errorf(node.Internal, "cannot bring up link %s: %w", l.Attrs().Name, err)
	}
	return nil
}

// master makes l a port of the bridge.
func (p *plumber) master(l, bridge netlink.Link) error {
	if l == nil || bridge == nil || l.Attrs().MasterIndex == bridge.Attrs().Index {
		return nil
	}
	if !p.differs("link %s isn't on the bridge", l.Attrs().Name) {
		return nil
	}
	if err := p.nl.LinkSetMaster(l, bridge); err != nil {
		return node.Errorf(node.Internal, "cannot put link %s on the bridge: %w", l.Attrs().Name, err)
	}
	return nil
}

// remove removes the link of that name, if there is one.
func (p *plumber) remove(name string) error {
	l, err := p.find(name)
	if err != nil || l == nil {
		return err
	}
	if err := p.nl.LinkDel(l); err != nil && !isNoLink(err) {
		return node.Errorf(node.Internal, "cannot remove link %s: %w", name, err)
	}
	return nil
}

// addresses gives l exactly the wanted ones; what the kernel adds by itself
// (IPv6 link-local) stays.
func (p *plumber) addresses(l netlink.Link, wanted ...netip.Prefix) error {
	if l == nil {
		return nil
	}
	name := l.Attrs().Name
	have, err := p.addressesOf(l)
	if err != nil {
		return node.Errorf(node.Internal, "cannot list addresses of %s: %w", name, err)
	}
	missing := slices.Clone(wanted)
	for _, a := range have {
		at := fromIPNet(a.IPNet)
		why := "has address"
		connected, err := p.connected(l, at)
		if err != nil {
			return err
		}
		switch {
		case !slices.Contains(wanted, at):
			if at.Addr().Is6() && at.Addr().IsLinkLocalUnicast() {
				continue
			}
		case connected:
			missing = slices.DeleteFunc(missing, func(m netip.Prefix) bool { return m == at })
			continue
		default:
			why = "has no route to its own range for address"
		}
		if p.differs("%s %s %s", name, why, at) {
			if err := p.nl.AddrDel(l, &a); err != nil {
				return node.Errorf(node.Internal, "cannot remove address %s of %s: %w", at, name, err)
			}
		} else {
			missing = slices.DeleteFunc(missing, func(m netip.Prefix) bool { return m == at })
		}
	}
	return p.give(l, missing)
}

// give gives l addresses that it doesn't have.
func (p *plumber) give(l netlink.Link, missing []netip.Prefix) error {
	for _, at := range missing {
		if !p.differs("%s has no address %s", l.Attrs().Name, at) {
			continue
		}
		a := &netlink.Addr{IPNet: toIPNet(at)}
		if at.Addr().Is6() {
			a.Flags = unix.IFA_F_NODAD // nobody else can have it: the node gives all of them
		}
		if err := p.nl.AddrReplace(l, a); err != nil {
			return node.Errorf(node.Internal, "cannot give %s the address %s: %w", l.Attrs().Name, at, err)
		}
	}
	return nil
}

// connected reports whether the route to an address's own range is there,
// which the kernel makes with the address, but not again.
func (p *plumber) connected(l netlink.Link, at netip.Prefix) (bool, error) {
	if at.IsSingleIP() || l.Attrs().Flags&net.FlagUp == 0 {
		return true, nil
	}
	family := netlink.FAMILY_V4
	if at.Addr().Is6() {
		family = netlink.FAMILY_V6
	}
	have, err := p.routesOf(l, func() ([]netlink.Route, error) {
		return p.nl.RouteListFiltered(family, &netlink.Route{LinkIndex: l.Attrs().Index}, netlink.RT_FILTER_OIF)
	})
	if err != nil {
		// Unknown isn't lost: an address that is in use must not be taken for it.
		return true, node.Errorf(node.Internal, "cannot list routes of %s: %w", l.Attrs().Name, err)
	}
	return slices.ContainsFunc(have, func(r netlink.Route) bool { return r.Dst != nil && fromIPNet(r.Dst) == at.Masked() }), nil
}

// ours marks the routes that this module has made.
const ours netlink.RouteProtocol = 0xc7

// route is a way to dst: through the gateway via, or straight out of the link.
type route struct {
	dst netip.Prefix
	via netip.Addr
}

func (r route) String() string {
	if r.via.IsValid() {
		return r.dst.String() + " via " + r.via.String()
	}
	return r.dst.String()
}

// routes gives l exactly the wanted routes, of those that this module makes.
func (p *plumber) routes(l netlink.Link, wanted ...route) error {
	if l == nil {
		return nil
	}
	name := l.Attrs().Name
	filter := &netlink.Route{LinkIndex: l.Attrs().Index, Protocol: ours}
	have, err := p.routesOf(l, func() ([]netlink.Route, error) {
		return p.nl.RouteListFiltered(netlink.FAMILY_ALL, filter, netlink.RT_FILTER_OIF|netlink.RT_FILTER_PROTOCOL)
	})
	if err != nil {
		return node.Errorf(node.Internal, "cannot list routes of %s: %w", name, err)
	}
	var there []route
	for _, r := range have {
		if r.Protocol != ours {
			continue
		}
		at := readRoute(r)
		there = append(there, at)
		if !slices.Contains(wanted, at) && p.differs("%s has route %s", name, at) {
			if err := p.nl.RouteDel(&r); err != nil {
				return node.Errorf(node.Internal, "cannot remove route %s of %s: %w", at, name, err)
			}
		}
	}
	for _, at := range wanted {
		if slices.Contains(there, at) || !p.differs("%s has no route %s", name, at) {
			continue
		}
		if err := p.nl.RouteReplace(at.on(l)); err != nil {
			return node.Errorf(node.Internal, "cannot give %s the route %s: %w", name, at, err)
		}
	}
	return nil
}

func readRoute(r netlink.Route) route {
	at := route{dst: fromIPNet(r.Dst)}
	if via, ok := netip.AddrFromSlice(r.Gw); ok {
		at.via = via.Unmap()
	}
	if r.Dst == nil { // a default route, as older kernels tell it
		at.dst = netip.PrefixFrom(netip.IPv4Unspecified(), 0)
		if at.via.Is6() {
			at.dst = netip.PrefixFrom(netip.IPv6Unspecified(), 0)
		}
	}
	return at
}

func (r route) on(l netlink.Link) *netlink.Route {
	out := &netlink.Route{LinkIndex: l.Attrs().Index, Dst: toIPNet(r.dst), Protocol: ours, Scope: netlink.SCOPE_LINK}
	if r.dst.Addr().Is6() {
		out.Scope = netlink.SCOPE_UNIVERSE
	}
	if r.via.IsValid() {
		out.Gw, out.Scope = r.via.AsSlice(), netlink.SCOPE_UNIVERSE
	}
	return out
}

func toIPNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}

// fromIPNet keeps the bits of the host: an address of a link has them.
func fromIPNet(n *net.IPNet) netip.Prefix {
	if n == nil {
		return netip.Prefix{}
	}
	bits, size := n.Mask.Size()
	a, _ := netip.AddrFromSlice(n.IP)
	if size == 32 {
		a = a.Unmap()
	}
	return netip.PrefixFrom(a, bits)
}
