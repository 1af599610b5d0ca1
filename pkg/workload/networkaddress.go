package workload

import (
	"crypto/md5"
	"crypto/sha256"
	"encoding/binary"
	"net/netip"

	"github.com/mr-tron/base58"
)

// The IPv6 side of a network isn't in its document: every node computes the
// same one from the user and the name, so all of them agree without asking.
const (
	// prefix6Bits is the size of a network's IPv6 range: a unique local /48.
	prefix6Bits = 48
	// wider is the growth of a prefix from IPv4 to IPv6: 16 bits of network
	// and name are 48 there.
	wider = prefix6Bits - networkBits
)

// NetworkPrefix6 is the unique local IPv6 range (RFC 4193) of a user's
// network, a /48: fd, followed by the first 40 bits of NetworkKey.
func NetworkPrefix6(user, name string) netip.Prefix {
	key := NetworkKey(user, name)
	b := [16]byte{0xfd}
	copy(b[1:6], key[:5])
	return netip.PrefixFrom(netip.AddrFrom16(b), prefix6Bits)
}

// Counterpart6 is the IPv6 range beside p, a part of the network's IPv4 range
// ipRange (a /16): prefix48, then the low 16 bits of p's address, of p's
// length and 32: fd…:0200::/56 beside 10.1.2.0/24. Ranges that nest or are
// disjoint in IPv4 do so in IPv6. The zero Prefix when the arguments aren't a
// /48, a /16 and a part of it.
func Counterpart6(prefix48, ipRange, p netip.Prefix) netip.Prefix {
	p = p.Masked()
	if !isRange6(prefix48) || !isRange4(ipRange) || !p.IsValid() || p.Bits() < networkBits || !ipRange.Contains(p.Addr()) {
		return netip.Prefix{}
	}
	return netip.PrefixFrom(netip.AddrFrom16(beside(prefix48, p.Addr())), p.Bits()+wider)
}

// Address6 is the IPv6 address of the member that has ip in subnet: prefix48,
// the low 16 bits of the subnet's address, and ip in the last 32 bits:
// fd…:0200::10.1.2.5 beside 10.1.2.5 in 10.1.2.0/24. It is within
// Counterpart6 of the subnet. The zero Addr when the arguments aren't a /48,
// an IPv4 range and an address in it.
func Address6(prefix48, subnet netip.Prefix, ip netip.Addr) netip.Addr {
	subnet = subnet.Masked()
	if !isRange6(prefix48) || !subnet.IsValid() || !subnet.Addr().Is4() || !subnet.Contains(ip) {
		return netip.Addr{}
	}
	b, v4 := beside(prefix48, subnet.Addr()), ip.As4()
	copy(b[12:], v4[:])
	return netip.AddrFrom16(b)
}

// TunnelAddress is the seed's address of a network resource at the end of its
// tunnels: 100.64, and the second and third octet of its subnet: 100.64.1.2 of
// 10.1.2.0/24. Only a subnet whose last octet is 0 has one: within a network,
// whose subnets don't overlap, no other has the same.
func TunnelAddress(subnet netip.Prefix) (netip.Addr, bool) {
	subnet = subnet.Masked()
	if !subnet.IsValid() || !subnet.Addr().Is4() {
		return netip.Addr{}, false
	}
	b := subnet.Addr().As4()
	if b[3] != 0 {
		return netip.Addr{}, false
	}
	return netip.AddrFrom4([4]byte{100, 64, b[1], b[2]}), true
}

// beside is the first address of the /64 beside ip.
func beside(prefix48 netip.Prefix, ip netip.Addr) [16]byte {
	b, v4 := prefix48.Masked().Addr().As16(), ip.As4()
	binary.BigEndian.PutUint16(b[prefix6Bits/8:], binary.BigEndian.Uint16(v4[2:]))
	return b
}

func isRange6(p netip.Prefix) bool {
	return p.IsValid() && p.Bits() == prefix6Bits && p.Addr().Is6() && !p.Addr().Is4In6()
}

func isRange4(p netip.Prefix) bool {
	return p.IsValid() && p.Bits() == networkBits && p.Addr().Is4()
}

// netIDLength is the length of base58 text that the seed keeps.
const netIDLength = 13

// NetworkID is the seed's ID of a user's network: the first 13 characters of
// base58(md5(user name)). It is for the wire and for display only. Nothing
// separates user and name and MD5 can be collided, so two networks may share
// one: use NetworkKey as a key.
func NetworkID(user, name string) NetID {
	sum := md5.Sum([]byte(user + name))
	return NetID(base58.Encode(sum[:])[:netIDLength])
}

// NetworkKey identifies a user's network: SHA-256 of LP(user) LP(name).
func NetworkKey(user, name string) [sha256.Size]byte {
	return sha256.Sum256(appendLP(appendLP(nil, user), name))
}

// ContainerKey identifies a user's containers of one name on a node:
// SHA-256 of LP("container") LP(user) LP(name). It is never a NetworkKey, whose
// text begins with a user's ID, which is longer.
func ContainerKey(user, name string) [sha256.Size]byte {
	return sha256.Sum256(appendLP(appendLP(appendLP(nil, string(TypeContainer)), user), name))
}
