package limit

import (
	"net"
	"net/netip"
)

// Source is the key that addr counts for: an IPv4 address itself, and of an IPv6
// address its /64, of which everybody has all addresses (RFC 6177). Invalid
// addresses share the source "unknown".
func Source(addr netip.Addr) string {
	addr = addr.Unmap().WithZone("")
	switch {
	case !addr.IsValid():
		return "unknown"
	case addr.Is4():
		return addr.String()
	}
	return netip.PrefixFrom(addr, 64).Masked().String()
}

// SourceOf is the Source of a connection's other end, "local" for one without an
// IP address, such as a Unix socket.
func SourceOf(remote net.Addr) string {
	switch a := remote.(type) {
	case *net.TCPAddr:
		return Source(a.AddrPort().Addr())
	case *net.UDPAddr:
		return Source(a.AddrPort().Addr())
	case *net.UnixAddr, nil:
		return "local"
	}
	return SourceOfHostPort(remote.String())
}

// SourceOfHostPort is the Source of "address:port" or of an address alone, as in
// http.Request.RemoteAddr.
func SourceOfHostPort(remote string) string {
	if ap, err := netip.ParseAddrPort(remote); err == nil {
		return Source(ap.Addr())
	}
	addr, _ := netip.ParseAddr(remote)
	return Source(addr)
}
