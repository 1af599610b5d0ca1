package guest

import (
	"fmt"
	"net"
	"os"
	"strings"

	"github.com/pkg/errors"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/pkg/nocloud"
)

// LinkUp switches an interface on.
func LinkUp(name string) error {
	link, err := netlink.LinkByName(name)
	if err != nil {
		return err
	}
	return netlink.LinkSetUp(link)
}

// Configure sets up the interface with n's MAC: MTU, addresses, default routes. It returns the interface's name.
func Configure(n nocloud.Interface) (string, error) {
	link, err := byMAC(n.MAC)
	if err != nil {
		return "", err
	}
	name := link.Attrs().Name
	if n.MTU > 0 {
		if err := netlink.LinkSetMTU(link, n.MTU); err != nil {
			return name, errors.Wrapf(err, "cannot set MTU %d", n.MTU)
		}
	}
	if err := netlink.LinkSetUp(link); err != nil {
		return name, err
	}
	for _, p := range n.Addresses {
		address := &netlink.Addr{IPNet: &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}}
		if p.Addr().Is6() {
			// The address is of use at once: nobody else has it.
			address.Flags = unix.IFA_F_NODAD
		}
		if err := netlink.AddrAdd(link, address); err != nil {
			return name, errors.Wrapf(err, "cannot add address %s", p)
		}
	}
	for _, gateway := range n.Gateways {
		route := &netlink.Route{LinkIndex: link.Attrs().Index, Gw: gateway.AsSlice()}
		if err := netlink.RouteAdd(route); err != nil {
			return name, errors.Wrapf(err, "cannot add a route over %s", gateway)
		}
	}
	return name, nil
}

// WriteResolver writes /etc/resolv.conf. It leaves the file alone if n has no name servers, or the same ones: on a full disk the
// new one would be empty.
func WriteResolver(n nocloud.Interface) error {
	if len(n.DNS) == 0 {
		return nil
	}
	var text strings.Builder
	for _, a := range n.DNS {
		fmt.Fprintln(&text, "nameserver", a)
	}
	if len(n.Search) > 0 {
		fmt.Fprintln(&text, "search", strings.Join(n.Search, " "))
	}
	if err := os.MkdirAll("/etc", 0o755); err != nil {
		return err
	}
	const path = "/etc/resolv.conf"
	if have, err := os.ReadFile(path); err == nil && string(have) == text.String() {
		return nil
	}
	return os.WriteFile(path, []byte(text.String()), 0o644)
}

func byMAC(mac net.HardwareAddr) (netlink.Link, error) {
	links, err := netlink.LinkList()
	if err != nil {
		return nil, err
	}
	for _, link := range links {
		if link.Attrs().HardwareAddr.String() == mac.String() {
			return link, nil
		}
	}
	return nil, errors.Errorf("there is no interface %s", mac)
}
