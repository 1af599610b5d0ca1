package links

import (
	"net/netip"
	"os"
	"strings"

	"github.com/pkg/errors"
	"github.com/vishvananda/netlink"

	"github.com/croft-edge/croft/pkg/netns"
)

// TryVeth says why this kernel has no pairs of links, TryBridge why it has no bridges, and TryTap why it has no tap devices; nil when it does. Each
// tries in a namespace that ends at once.
func TryVeth() error { return tryLink(&netlink.Veth{LinkAttrs: named("try"), PeerName: "peer"}) }

// TryBridge is described at TryVeth.
func TryBridge() error {
	snooping := false
	return tryLink(&netlink.Bridge{LinkAttrs: named("try"), MulticastSnooping: &snooping})
}

// TryTap is described at TryVeth.
func TryTap() error {
	return netns.New(func() error { return errors.Wrap(addTap("try"), "cannot make a tap device") })
}

func named(name string) netlink.LinkAttrs {
	attrs := netlink.NewLinkAttrs()
	attrs.Name = name
	return attrs
}

func tryLink(l netlink.Link) error {
	return netns.New(func() error { return errors.Wrapf(netlink.LinkAdd(l), "cannot make a link of type %s", l.Type()) })
}

// TryIPv6 says why this kernel gives no link an IPv6 address, in a namespace that ends at once; nil when it does.
func TryIPv6() error {
	return netns.New(func() error {
		lo, err := netlink.LinkByName("lo")
		if err == nil {
			address := netip.MustParsePrefix("fd00::1/128")
			err = netlink.AddrAdd(lo, &netlink.Addr{IPNet: toIPNet(address)})
		}
		return errors.Wrap(err, "cannot give a link an IPv6 address")
	})
}

// TryNodeIPv6 says whether the machine's administrator has switched IPv6 off; nil when it is on.
func TryNodeIPv6() error {
	const name = "/proc/sys/net/ipv6/conf/all/disable_ipv6"
	text, err := os.ReadFile(name)
	if err == nil && strings.TrimSpace(string(text)) != "0" {
		err = errors.Errorf("it is switched off: %s is %s", name, strings.TrimSpace(string(text)))
	}
	return err
}
