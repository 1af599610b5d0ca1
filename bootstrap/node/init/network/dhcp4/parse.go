package dhcp4

import (
	"net"
	"net/netip"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/pkg/errors"

	"github.com/croft-edge/croft/bootstrap/node/init/network/lease"
)

// leastBits is the shortest length of the network that an address may be in: with a shorter one a server would claim half the internet.
const leastBits = 8

// Parse is the lease of an offer or an acknowledgement. What can be left out of it and makes no sense is left out; a message without a
// usable address, network, server or time is refused.
func Parse(m *dhcpv4.DHCPv4, begun time.Time) (*lease.Lease, error) {
	server := lease.Addr(m.ServerIdentifier())
	if !server.IsValid() || server.IsUnspecified() || server.IsMulticast() {
		return nil, errors.Errorf("cannot use what a server offers: its own address is %v, must be one machine's", m.ServerIdentifier())
	}
	address, err := address(m)
	if err != nil {
		return nil, err
	}
	lasts := m.IPAddressLeaseTime(0)
	times, ok := lease.NewTimes(m.IPAddressRenewalTime(0), m.IPAddressRebindingTime(0), lasts)
	if !ok {
		return nil, errors.Errorf("cannot use what server %s offers: its lease lasts %s, must last %s or longer", server, lasts, lease.Least)
	}
	l := &lease.Lease{
		Server: server.String(), Addresses: []netip.Prefix{address}, Routes: routes(m, address), Begun: begun, Times: times,
		DNS: lease.Servers(m.DNS(), lease.MostServers), NTP: lease.Texts(lease.Servers(m.NTPServers(), lease.MostServers)),
		Search: search(m),
	}
	if mtu, err := dhcpv4.GetUint16(dhcpv4.OptionInterfaceMTU, m.Options); err == nil && mtu >= lease.LeastMTU {
		l.MTU = int(mtu)
	}
	return l, nil
}

func address(m *dhcpv4.DHCPv4) (netip.Prefix, error) {
	a := lease.Addr(m.YourIPAddr)
	if !lease.Unicast(a) {
		return netip.Prefix{}, errors.Errorf("cannot use what server %s offers: its address is %v, must be one machine's", m.ServerIdentifier(), m.YourIPAddr)
	}
	mask := m.SubnetMask()
	if mask == nil {
		mask = net.IP(a.AsSlice()).DefaultMask()
	}
	ones, bits := mask.Size()
	if bits != 32 || ones < leastBits {
		return netip.Prefix{}, errors.Errorf("cannot use what server %s offers: its network's mask is %s, must have %d to 32 bits", m.ServerIdentifier(), mask, leastBits)
	}
	return netip.PrefixFrom(a, ones), nil
}

// routes are those of the classless option, with which RFC 3442 has a client ignore the routers; else one over the first usable router.
func routes(m *dhcpv4.DHCPv4, address netip.Prefix) []lease.Route {
	var out []lease.Route
	for _, r := range m.ClasslessStaticRoute() {
		ones, _ := r.Dest.Mask.Size()
		to := netip.PrefixFrom(lease.Addr(r.Dest.IP), ones).Masked()
		via := lease.Addr(r.Router)
		if via.IsUnspecified() {
			via = netip.Addr{}
		}
		if routable(to) && (!via.IsValid() || gateway(via, address)) && len(out) < lease.MostRoutes {
			out = append(out, lease.Route{To: to, Via: via})
		}
	}
	if len(out) > 0 {
		return out
	}
	for _, ip := range m.Router() {
		if via := lease.Addr(ip); gateway(via, address) {
			return []lease.Route{{To: netip.PrefixFrom(netip.IPv4Unspecified(), 0), Via: via}}
		}
	}
	return nil
}

// gateway reports whether via can be a router of a machine with that address. It may be outside of the network: so it is where each machine
// has a network of its own.
func gateway(via netip.Addr, address netip.Prefix) bool {
	return (lease.Unicast(via) || via.IsLinkLocalUnicast()) && via != address.Addr()
}

// routable reports whether a network is one that packets are sent to: all, or one of addresses that machines have.
func routable(to netip.Prefix) bool {
	return to.IsValid() && (to.Bits() == 0 || !to.Addr().IsLoopback() && !to.Addr().IsMulticast())
}

func search(m *dhcpv4.DHCPv4) []string {
	var names []string
	if labels := m.DomainSearch(); labels != nil {
		names = labels.Labels
	}
	return lease.Domains(append(names, m.DomainName()))
}
