// Package lease is what a network gives a machine for a time: addresses, routes, name servers. It also bounds it: whoever answers a
// machine's questions on its network may be anyone, and what they say ends up in the kernel's tables, in resolv.conf and in chrony's
// files. It has no effects.
package lease

import (
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// Bounds of a lease. More than that is left out.
const (
	MostAddresses = 8
	MostRoutes    = 64
	MostServers   = 8
	MostDomains   = 6
	// mostDomain is a domain's most characters, as in DNS.
	mostDomain = 253
	// LeastMTU is IPv6's: with less the kernel ends IPv6 on the interface.
	LeastMTU = 1280
	// Least is the shortest lease that is accepted. Longest is the longest: one of 68 years and less than for ever is that too.
	Least   = 4 * time.Second
	Longest = 1 << 31 * time.Second
)

// Route is a way to a network. Without Via its addresses are on the link itself.
type Route struct {
	To  netip.Prefix
	Via netip.Addr
}

// Lease is what one server gave, or what the operator has set.
type Lease struct {
	// Server is the one that gave it.
	Server    string
	Addresses []netip.Prefix
	Routes    []Route
	// MTU is 0 if nothing was said of it.
	MTU    int
	DNS    []netip.Addr
	Search []string
	NTP    []string
	// Begun is when it was asked for, on the monotonic clock: the wall clock may be set meanwhile.
	Begun time.Time
	Times Times
}

// Times are how long a lease lasts, and when it is asked for again: first its server, then anyone. Lasts is 0 for a lease without an end.
type Times struct {
	Renew, Rebind, Lasts time.Duration
}

// End is when the lease ends; zero for one without an end.
func (l *Lease) End() time.Time { return l.at(l.Times.Lasts) }

// RenewAt and RebindAt are when its server and when anyone is asked for it again; zero for never.
func (l *Lease) RenewAt() time.Time { return l.at(l.Times.Renew) }

// RebindAt is described at RenewAt.
func (l *Lease) RebindAt() time.Time { return l.at(l.Times.Rebind) }

func (l *Lease) at(after time.Duration) time.Time {
	if l.Times.Lasts == 0 {
		return time.Time{}
	}
	return l.Begun.Add(after)
}

// NewTimes bounds what a server said. Renewal and rebinding that make no sense become half and seven eighths of the lease. It reports
// whether the lease is long enough.
func NewTimes(renew, rebind, lasts time.Duration) (Times, bool) {
	if lasts >= Longest {
		return Times{}, true
	}
	if lasts < Least {
		return Times{}, false
	}
	if renew < time.Second || renew >= lasts {
		renew = lasts / 2
	}
	if rebind <= renew || rebind >= lasts {
		rebind = max(lasts*7/8, renew+(lasts-renew)/2)
	}
	return Times{Renew: renew, Rebind: rebind, Lasts: lasts}, true
}

// Unicast reports whether a is an address that one machine of a network can have: no loopback, no multicast, no link-local one.
func Unicast(a netip.Addr) bool {
	return a.IsValid() && a.IsGlobalUnicast() && !a.Is4In6() && !(a.Is4() && (a.As4()[0] == 0 || a.As4()[0] >= 240))
}

// Addr is an address of a packet.
func Addr(ip net.IP) netip.Addr {
	a, _ := netip.AddrFromSlice(ip)
	return a.Unmap()
}

// Servers are the addresses of servers, each once, without those that can't be one. A link-local one can't be named without its interface.
func Servers(ips []net.IP, most int) []netip.Addr {
	var out []netip.Addr
	for _, ip := range ips {
		if a := Addr(ip); Unicast(a) && !slices.Contains(out, a) && len(out) < most {
			out = append(out, a)
		}
	}
	return out
}

// Domains are the search domains, each once, without those that aren't names: they become words of a file.
func Domains(names []string) []string {
	var out []string
	for _, name := range names {
		name = strings.ToLower(strings.TrimSuffix(name, "."))
		if Name(name) && !slices.Contains(out, name) && len(out) < MostDomains {
			out = append(out, name)
		}
	}
	return out
}

// Name reports whether text is a name as DNS has them.
func Name(text string) bool {
	if text == "" || len(text) > mostDomain {
		return false
	}
	for label := range strings.SplitSeq(text, ".") {
		if label == "" || len(label) > 63 || label[0] == '-' || strings.Trim(label, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_") != "" {
			return false
		}
	}
	return true
}

// Texts are the addresses as text.
func Texts(in []netip.Addr) []string {
	var out []string
	for _, a := range in {
		out = append(out, a.String())
	}
	return out
}
