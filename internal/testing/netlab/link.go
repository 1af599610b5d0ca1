package netlab

import (
	"net"
	"net/netip"
	"os"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Veth links two namespaces by interfaces of the given names, both up.
func (l *Lab) Veth(a *Namespace, nameA string, b *Namespace, nameB string) {
	l.t.Helper()
	veth := &netlink.Veth{
		LinkAttrs: netlink.LinkAttrs{Name: nameA}, PeerName: nameB, PeerNamespace: netlink.NsFd(b.Fd()),
	}
	l.must(a.link.LinkAdd(veth), "link %s of %s with %s of %s", nameA, a.name, nameB, b.name)
	a.Up(nameA)
	b.Up(nameB)
}

// Link is the interface of that name.
func (n *Namespace) Link(name string) netlink.Link {
	n.lab.t.Helper()
	link, err := n.link.LinkByName(name)
	n.lab.must(err, "find %s in namespace %s", name, n.name)
	return link
}

// Up sets an interface up.
func (n *Namespace) Up(name string) {
	n.lab.t.Helper()
	n.lab.must(n.link.LinkSetUp(n.Link(name)), "take %s up in namespace %s", name, n.name)
}

// Bridge makes a bridge, up, whose ports forward without delay.
func (n *Namespace) Bridge(name string) {
	n.lab.t.Helper()
	n.lab.must(n.link.LinkAdd(&netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: name}}), "make bridge %s in namespace %s", name, n.name)
	n.Up(name)
}

// Attach makes an interface a port of a bridge.
func (n *Namespace) Attach(port, bridge string) {
	n.lab.t.Helper()
	n.lab.must(n.link.LinkSetMaster(n.Link(port), n.Link(bridge)), "attach %s to %s in namespace %s", port, bridge, n.name)
}

// MAC is the hardware address of an interface.
func (n *Namespace) MAC(name string) net.HardwareAddr {
	n.lab.t.Helper()
	return n.Link(name).Attrs().HardwareAddr
}

// SetMAC changes the hardware address of an interface.
func (n *Namespace) SetMAC(name, mac string) {
	n.lab.t.Helper()
	address, err := net.ParseMAC(mac)
	n.lab.must(err, "read the hardware address %q", mac)
	n.lab.must(n.link.LinkSetHardwareAddr(n.Link(name), address), "set the hardware address of %s in namespace %s", name, n.name)
}

// Addr adds an address in CIDR notation, usable at once: without duplicate address detection.
func (n *Namespace) Addr(name, cidr string) {
	n.lab.t.Helper()
	addr, err := netlink.ParseAddr(cidr)
	n.lab.must(err, "read the address %q", cidr)
	if addr.IP.To4() == nil {
		addr.Flags |= unix.IFA_F_NODAD
	}
	n.lab.must(n.link.AddrAdd(n.Link(name), addr), "add %s to %s in namespace %s", cidr, name, n.name)
}

// Route adds a route to a CIDR, via an address. "0.0.0.0/0" and "::/0" are the
// default routes.
func (n *Namespace) Route(dst, via string) {
	n.lab.t.Helper()
	route := &netlink.Route{Dst: n.prefix(dst), Gw: net.ParseIP(via)}
	n.lab.must(n.link.RouteAdd(route), "route %s via %s in namespace %s", dst, via, n.name)
}

// RouteVia adds a route to a CIDR, out of an interface, via a neighbour's address that needs no route
// itself; with an empty via, all of the CIDR are neighbours.
func (n *Namespace) RouteVia(dst, dev, via string) {
	n.lab.t.Helper()
	route := &netlink.Route{Dst: n.prefix(dst), LinkIndex: n.Link(dev).Attrs().Index, Scope: netlink.SCOPE_LINK}
	if via != "" {
		route.Gw = net.ParseIP(via)
		route.Scope = netlink.SCOPE_UNIVERSE
		route.Flags = int(netlink.FLAG_ONLINK)
	}
	n.lab.must(n.link.RouteAdd(route), "route %s via %s %s in namespace %s", dst, dev, via, n.name)
}

func (n *Namespace) prefix(cidr string) *net.IPNet {
	n.lab.t.Helper()
	p, err := netip.ParsePrefix(cidr)
	n.lab.must(err, "read the range %q", cidr)
	p = p.Masked()
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}

// Tap makes a tap device, up, and returns its open end: each read and write is a frame. The device is
// removed with the test.
func (n *Namespace) Tap(name string) *os.File {
	return n.tun(name, unix.IFF_TAP)
}

// Tun makes a tun device, up, and returns its open end: each read and write is an IP packet. The device
// is removed with the test.
func (n *Namespace) Tun(name string) *os.File {
	return n.tun(name, unix.IFF_TUN)
}

func (n *Namespace) tun(name string, kind uint16) *os.File {
	n.lab.t.Helper()
	var file *os.File
	n.Do(func() {
		fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC, 0)
		n.lab.must(err, "open /dev/net/tun")
		request, err := unix.NewIfreq(name)
		n.lab.must(err, "name the device %s", name)
		request.SetUint16(kind | unix.IFF_NO_PI)
		if err := unix.IoctlIfreq(fd, unix.TUNSETIFF, request); err != nil {
			unix.Close(fd)
			n.lab.must(err, "make the device %s in namespace %s", name, n.name)
		}
		// Non-blocking, so that reads can have a deadline.
		n.lab.must(unix.SetNonblock(fd, true), "set up the device %s", name)
		file = os.NewFile(uintptr(fd), name)
	})
	n.lab.undo(func() { file.Close() })
	n.Up(name)
	return file
}
