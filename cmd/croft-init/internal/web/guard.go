package web

import (
	"net/http"
	"net/netip"
	"strings"
)

// zone is the DNS zone of a network's members.
const zone = ".croft.internal"

// guard holds the host names and addresses that a request may name. A foreign name that resolves to one
// of our addresses (DNS rebinding) would make a foreign page look like ours.
type guard struct {
	addresses map[netip.AddrPort]bool
	ports     map[uint16]bool
	names     map[string]bool
}

// newGuard makes a guard for addresses and for names, each with and without the zone.
func newGuard(listen []netip.AddrPort, names []string) guard {
	g := guard{addresses: map[netip.AddrPort]bool{}, ports: map[uint16]bool{}, names: map[string]bool{}}
	for _, address := range listen {
		g.addresses[plain(address)] = true
		g.ports[address.Port()] = true
	}
	for _, name := range names {
		name = strings.ToLower(name)
		g.names[name] = name != ""
		if name != "" && !strings.Contains(name, ".") {
			g.names[name+zone] = true
		}
	}
	return g
}

// allows reports whether a request's host is ours; local is the address that it arrived at.
func (g guard) allows(host string, local netip.AddrPort) bool {
	if address, ok := parseAddress(host); ok {
		return g.addresses[address] || address == plain(local)
	}
	name, port, ok := cutPort(host)
	return ok && g.ports[port] && g.names[strings.ToLower(name)]
}

// ownPage reports whether a request comes from a page of the same host.
func ownPage(r *http.Request) bool {
	origins := r.Header.Values("Origin")
	return len(origins) == 1 && strings.EqualFold(origins[0], "http://"+r.Host)
}

// parseAddress parses a host that is an address, with or without a port.
func parseAddress(host string) (netip.AddrPort, bool) {
	if address, err := netip.ParseAddrPort(host); err == nil {
		return plain(address), address.Addr().Zone() == ""
	}
	bare, ok := strings.CutPrefix(host, "[")
	if ok {
		bare, ok = strings.CutSuffix(bare, "]")
		if !ok {
			return netip.AddrPort{}, false
		}
	}
	address, err := netip.ParseAddr(bare)
	if err != nil || address.Zone() != "" {
		return netip.AddrPort{}, false
	}
	return plain(netip.AddrPortFrom(address, httpPort)), true
}

// plain converts an IPv4-mapped IPv6 address to IPv4.
func plain(a netip.AddrPort) netip.AddrPort { return netip.AddrPortFrom(a.Addr().Unmap(), a.Port()) }
