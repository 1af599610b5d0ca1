package dial

import "net/netip"

// embedded are the IPv4 addresses to which a translator or a tunnel leads from an
// IPv6 address: NAT64 (RFC 6052), 6to4 (RFC 3056), Teredo (RFC 4380:
// its server, and the client with its bits flipped), ISATAP (RFC 5214), and
// the old IPv4-compatible form. An address may not hide where it leads.
func embedded(addr netip.Addr) []netip.Addr {
	if !addr.Is6() || addr.Is4In6() {
		return nil
	}
	b := addr.As16()
	v4 := func(from int) netip.Addr { return netip.AddrFrom4([4]byte(b[from : from+4])) }
	var out []netip.Addr
	switch head := [4]byte(b[:4]); {
	case isNAT64(addr), [12]byte(b[:12]) == [12]byte{}:
		out = append(out, v4(12))
	case head[0] == 0x20 && head[1] == 0x02:
		out = append(out, v4(2))
	case head == [4]byte{0x20, 0x01, 0, 0}:
		client := v4(12).As4()
		for i := range client {
			client[i] ^= 0xff
		}
		out = append(out, v4(4), netip.AddrFrom4(client))
	}
	if (b[8] == 0 || b[8] == 2) && b[9] == 0 && b[10] == 0x5e && b[11] == 0xfe {
		out = append(out, v4(12))
	}
	return out
}

// isNAT64 reports whether addr has the well-known prefix of NAT64, 64:ff9b::/96.
func isNAT64(addr netip.Addr) bool {
	b := addr.As16()
	return addr.Is6() && [12]byte(b[:12]) == [12]byte{0, 0x64, 0xff, 0x9b}
}
