package links

import (
	"bytes"
	"net"

	"github.com/vishvananda/netlink"

	"github.com/croft-edge/croft/pkg/node"
)

// tapFlags are a tap device's: frames begin with a virtio header, and nothing else.
const tapFlags = netlink.TUNTAP_VNET_HDR | netlink.TUNTAP_NO_PI

// Tap returns the tap device of that name, with that hardware address at the node's
// side and that MTU in bytes. It stays while no process has it open, and only root can
// open it, once at a time. A link that isn't such a device is made anew, since its kind
// can't be changed. It is nil when the device is missing and the Reconciler only looks.
func (r *Reconciler) Tap(name string, mac net.HardwareAddr, mtu int) (netlink.Link, error) {
	l, err := r.Find(name)
	if err != nil {
		return nil, err
	}
	if l != nil && !isTap(l) {
		if !r.Differs("link %s isn't a lasting tap device of root", name) {
			return nil, nil
		}
		if err := r.Remove(name); err != nil {
			return nil, err
		}
	}
	l, err = r.Link(name, func() error { return r.Do(func() error { return addTap(name) }) })
	if err != nil || l == nil {
		return nil, err
	}
	if have := l.Attrs().HardwareAddr; !bytes.Equal(have, mac) && r.Differs("link %s has hardware address %s, not %s", name, have, mac) {
		if err := r.nl.LinkSetHardwareAddr(l, mac); err != nil {
			return nil, node.Errorf(node.Internal, "cannot give link %s the hardware address %s: %w", name, mac, err)
		}
	}
	if have := l.Attrs().MTU; have != mtu && r.Differs("link %s has MTU %d, not %d", name, have, mtu) {
		if err := r.nl.LinkSetMTU(l, mtu); err != nil {
			return nil, node.Errorf(node.Internal, "cannot give link %s the MTU %d: %w", name, mtu, err)
		}
	}
	return l, nil
}

// addTap makes a device in the thread's namespace. The library opens /dev/net/tun there,
// and makes the device one of user 0 and group 0. While a child has it open, nobody else can open it.
func addTap(name string) error {
	attrs := netlink.NewLinkAttrs()
	attrs.Name = name
	defer HoldForks()()
	return netlink.LinkAdd(&netlink.Tuntap{LinkAttrs: attrs, Mode: netlink.TUNTAP_MODE_TAP, Flags: tapFlags})
}

// isTap reports whether a link is what addTap makes. Who has it open may change its
// owner and whether it lasts.
func isTap(l netlink.Link) bool {
	have, is := l.(*netlink.Tuntap)
	return is && have.Mode == netlink.TUNTAP_MODE_TAP && have.Flags == tapFlags && !have.NonPersist && have.Owner == 0 && have.Group == 0
}
