package network

import (
	"net/netip"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/cmd/croftd/internal/config"
)

// settings are those of the module.
func settings() []config.Setting {
	return config.InGroup("Networks", []config.Setting{
		{Name: "network-uplinks", Kind: config.Text, Default: "169.254.64.0/18", Help: "IPv4 range between the node and its users' networks, two addresses a network; nothing else may use it", ReadBy: []string{config.Process},
			Set: prefix(func(c *config.Config) *netip.Prefix { return &c.NetworkUplinks }, isIPv4)},
		{Name: "public-ip6-range", Kind: config.Text, Default: "", Help: "IPv6 range, routed to this node, that containers with public_ip6 get addresses of; empty: none can be had",
			Set: prefix(func(c *config.Config) *netip.Prefix { return &c.PublicIP6Range }, isIPv6)},
		{Name: "dns-servers", Kind: config.List, Default: "", Help: "DNS servers that answer users' networks, as address or address:port; empty: those of /etc/resolv.conf",
			Set: addresses(func(c *config.Config) *[]netip.AddrPort { return &c.DNSServers })},
	})
}

// dnsPort is the default port of a DNS server.
const dnsPort = 53

// family reports whether a range is of the wanted family, and describes that family.
type family func(netip.Prefix) (is bool, allowed string)

func isIPv4(p netip.Prefix) (bool, string) {
	return p.Addr().Is4() && p.Bits() <= 28, "an IPv4 range of at most /28, such as 169.254.64.0/18"
}

func isIPv6(p netip.Prefix) (bool, string) {
	return p.Addr().Is6() && !p.Addr().Is4In6() && p.Bits() <= 112, "an IPv6 range of at most /112, such as 2001:db8:7::/64"
}

// prefix reads a range; an empty text is none.
func prefix(field func(*config.Config) *netip.Prefix, of family) config.Setter {
	return config.Parsed(func(c *config.Config, text string) error {
		if text == "" {
			*field(c) = netip.Prefix{}
			return nil
		}
		p, err := netip.ParsePrefix(text)
		ok, allowed := of(p)
		if err != nil || !ok || p != p.Masked() {
			return errors.New(allowed + ", with nothing after the mask")
		}
		*field(c) = p
		return nil
	})
}

// addresses reads a list of addresses, each with or without a port.
func addresses(field func(*config.Config) *[]netip.AddrPort) config.Setter {
	return config.Parsed(func(c *config.Config, text string) error {
		*field(c) = nil
		for _, item := range config.Split(text) {
			at, err := netip.ParseAddrPort(item)
			if a, aerr := netip.ParseAddr(item); aerr == nil {
				at, err = netip.AddrPortFrom(a, dnsPort), nil
			}
			if err != nil || at.Port() == 0 {
				return errors.Errorf("addresses such as 192.0.2.53 or [2001:db8::53]:5353; %q isn't one", item)
			}
			*field(c) = append(*field(c), at)
		}
		return nil
	})
}
