package dhcp6

import (
	"net"
	"net/netip"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv6"
	"github.com/pkg/errors"

	"github.com/croft-edge/croft/bootstrap/node/init/network/lease"
)

const (
	// refresh is how often servers' settings are asked for again where they don't say it, and at most; leastRefresh at least.
	refresh, leastRefresh = 24 * time.Hour, 10 * time.Minute
	hostBits              = 128
	// mostName is how many bytes of a server's identifier are shown.
	mostName = 16
)

// Parse is the lease of an advertisement or a reply. Where an address is needed, a message without a usable one is refused, and so is one without the
// server's identifier: the address couldn't be renewed. QEMU's own server leaves it out of what it says about name servers.
func Parse(m *dhcpv6.Message, begun time.Time, needAddress bool) (*lease.Lease, error) {
	server := m.Options.ServerID()
	if server == nil && needAddress {
		return nil, errors.New("cannot use what a DHCPv6 server says: its identifier is missing")
	}
	if s := m.Options.Status(); s != nil && int(s.StatusCode) != 0 {
		return nil, errors.Errorf("cannot use what a DHCPv6 server says: it says %s", s.StatusCode)
	}
	l := &lease.Lease{
		Server: name(server), Begun: begun, DNS: lease.Servers(m.Options.DNS(), lease.MostServers),
		NTP: lease.Texts(lease.Servers(append(m.Options.NTPServers(), m.Options.SNTP()...), lease.MostServers)),
	}
	if names := m.Options.DomainSearchList(); names != nil {
		l.Search = lease.Domains(names.Labels)
	}
	if !needAddress {
		again := min(max(m.Options.InformationRefreshTime(refresh), leastRefresh), refresh)
		l.Times = lease.Times{Renew: again, Rebind: again, Lasts: again}
		return l, nil
	}
	return l, addresses(m, l)
}

// addresses reads those of the first association. The lease ends with the address that ends first.
func addresses(m *dhcpv6.Message, l *lease.Lease) error {
	ia := m.Options.OneIANA()
	if ia == nil {
		return errors.New("cannot use what a DHCPv6 server says: it has no address")
	}
	if s := ia.Options.Status(); s != nil && int(s.StatusCode) != 0 {
		return errors.Errorf("cannot use what a DHCPv6 server says of an address: it says %s", s.StatusCode)
	}
	lasts := lease.Longest
	for _, a := range ia.Options.Addresses() {
		address := lease.Addr(a.IPv6Addr)
		if !address.Is6() || !lease.Unicast(address) || a.ValidLifetime < lease.Least || len(l.Addresses) == lease.MostAddresses {
			continue
		}
		l.Addresses = append(l.Addresses, netip.PrefixFrom(address, hostBits))
		lasts = min(lasts, a.ValidLifetime)
	}
	if len(l.Addresses) == 0 {
		return errors.Errorf("cannot use what a DHCPv6 server says: it has no address of one machine that lasts %s or longer", lease.Least)
	}
	l.Times, _ = lease.NewTimes(ia.T1, ia.T2, lasts)
	return nil
}

// name shows a server's identifier: its MAC if it is made of one, else its first bytes.
func name(server dhcpv6.DUID) string {
	var mac net.HardwareAddr
	switch id := server.(type) {
	case nil:
		return "unknown"
	case *dhcpv6.DUIDLL:
		mac = id.LinkLayerAddr
	case *dhcpv6.DUIDLLT:
		mac = id.LinkLayerAddr
	default:
		mac = server.ToBytes()
	}
	return mac[:min(len(mac), mostName)].String()
}
