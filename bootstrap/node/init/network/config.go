package network

import (
	"net"
	"net/netip"
	"regexp"
	"slices"

	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/bootstrap/node/init/network/lease"
	"github.com/croft-edge/croft/pkg/fielderror"
)

// Config says which interfaces are brought up, and how.
type Config struct {
	// Interfaces are the names of the machine's own interfaces; empty for every Ethernet interface of the hardware.
	Interfaces []string
	// Static are interfaces with addresses that the operator has set.
	Static []Static
	// DHCP4 and DHCP6 have addresses and servers asked for. Addresses by IPv6's router advertisements are used in any case.
	DHCP4, DHCP6 bool
	// ResolvConf is the file for resolvers.
	ResolvConf string
	// Hostname is sent to DHCP servers; nil or empty for none. It may become known later.
	Hostname func() string
	// Changed is called when State may say something else about addresses, name servers or time servers; nil for nobody. It mustn't wait.
	Changed func()
	Log     zerolog.Logger
}

// Static is an interface's fixed part. A family of IP with an address here isn't asked for by DHCP. If any interface has name servers
// here, these alone are used.
type Static struct {
	// Interface or MAC name it; the first interface is meant if both are empty.
	Interface string
	MAC       net.HardwareAddr
	Addresses []netip.Prefix
	Gateways  []netip.Addr
	DNS       []netip.Addr
}

// mostStatic bounds the addresses, gateways and servers of one interface.
const mostStatic = 16

// Validate names the first field that can't be used, and what is allowed.
func (c Config) Validate() error {
	for i, name := range c.Interfaces {
		if !interfaceName(name) {
			return fielderror.New("interfaces", name, "names of network interfaces, such as eth0")
		}
		if slices.Contains(c.Interfaces[:i], name) {
			return fielderror.New("interfaces", name, "there once")
		}
	}
	if c.ResolvConf == "" {
		return fielderror.New("resolv-conf", fielderror.Missing, "the path of a file")
	}
	for _, s := range c.Static {
		if err := s.validate(); err != nil {
			return err
		}
	}
	return nil
}

func (s Static) validate() error {
	if s.Interface != "" && !interfaceName(s.Interface) {
		return fielderror.New("interface", s.Interface, "the name of a network interface, such as eth0")
	}
	if len(s.MAC) != 0 && len(s.MAC) != 6 {
		return fielderror.New("mac", s.MAC.String(), "an Ethernet address, such as 52:54:00:12:34:56")
	}
	if len(s.Addresses) > mostStatic || len(s.Gateways) > mostStatic || len(s.DNS) > mostStatic {
		return fielderror.New("address", fielderror.Words("a long list"), "at most %d addresses, gateways or name servers", mostStatic)
	}
	for _, p := range s.Addresses {
		if !p.IsValid() || !lease.Unicast(p.Addr()) || p.Bits() == 0 {
			return fielderror.New("address", p.String(), "one machine's address with its network's length, such as 192.0.2.7/24")
		}
	}
	for _, g := range s.Gateways {
		if !g.IsValid() || g.Is4In6() || g.Zone() != "" || !lease.Unicast(g) && !g.IsLinkLocalUnicast() {
			return fielderror.New("gateway", g.String(), "a router's address, such as 192.0.2.1")
		}
		if !slices.ContainsFunc(s.Addresses, func(p netip.Prefix) bool { return p.Addr().Is4() == g.Is4() && p.Addr() != g }) {
			return fielderror.New("gateway", g.String(), "of the same kind as one of the addresses, and none of them")
		}
	}
	for _, d := range s.DNS {
		if !lease.Unicast(d) && !d.IsLoopback() {
			return fielderror.New("dns", d.String(), "name servers' addresses")
		}
	}
	return nil
}

// interfaceName reports whether the kernel could have an interface of that name, and the name can be a part of a path.
func interfaceName(name string) bool {
	ok, err := regexp.MatchString(`^[A-Za-z0-9][A-Za-z0-9_.:@-]*$`, name)
	return ok && err == nil && len(name) < unix.IFNAMSIZ
}

// lease is what a static interface has.
func (s Static) lease() *lease.Lease {
	l := &lease.Lease{Server: "settings", Addresses: s.Addresses, DNS: s.DNS}
	for _, g := range s.Gateways {
		everything := netip.PrefixFrom(netip.IPv4Unspecified(), 0)
		if g.Is6() {
			everything = netip.PrefixFrom(netip.IPv6Unspecified(), 0)
		}
		l.Routes = append(l.Routes, lease.Route{To: everything, Via: g})
	}
	return l
}

// has reports whether the operator has set an address of a family.
func (s Static) has(four bool) bool {
	return slices.ContainsFunc(s.Addresses, func(p netip.Prefix) bool { return p.Addr().Is4() == four })
}
