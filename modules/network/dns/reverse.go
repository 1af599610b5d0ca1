package dns

import (
	"net/netip"
	"strconv"
	"strings"
)

// reversed reads a name below in-addr.arpa or ip6.arpa, in lower case, as the
// range that it speaks of: a whole address, or the first octets or nibbles of
// one.
func reversed(name string) (netip.Prefix, bool) {
	if rest, ok := strings.CutSuffix(name, ".in-addr.arpa."); ok {
		return reversed4(strings.Split(rest, "."))
	}
	if rest, ok := strings.CutSuffix(name, ".ip6.arpa."); ok {
		return reversed6(strings.Split(rest, "."))
	}
	return netip.Prefix{}, false
}

func reversed4(labels []string) (netip.Prefix, bool) {
	var b [4]byte
	if len(labels) > len(b) {
		return netip.Prefix{}, false
	}
	for i, label := range labels {
		n, err := strconv.ParseUint(label, 10, 8)
		if err != nil || strconv.FormatUint(n, 10) != label {
			return netip.Prefix{}, false
		}
		b[len(labels)-1-i] = byte(n)
	}
	return netip.PrefixFrom(netip.AddrFrom4(b), 8*len(labels)), true
}

func reversed6(labels []string) (netip.Prefix, bool) {
	var b [16]byte
	if len(labels) > 2*len(b) {
		return netip.Prefix{}, false
	}
	for i, label := range labels {
		n, err := strconv.ParseUint(label, 16, 4)
		if err != nil || len(label) != 1 {
			return netip.Prefix{}, false
		}
		at := len(labels) - 1 - i
		b[at/2] |= byte(n) << (4 * (1 - at%2))
	}
	return netip.PrefixFrom(netip.AddrFrom16(b), 4*len(labels)), true
}

// withheld reports whether reverse lookups of the range stay here: nobody
// outside has an answer, and who asks says what addresses are used inside
// (RFC 6303).
func withheld(p netip.Prefix) bool {
	for _, text := range [...]string{
		"0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.168.0.0/16", "255.255.255.255/32",
		"::/127", "fc00::/7", "fe80::/10",
	} {
		r := netip.MustParsePrefix(text)
		if p.Bits() >= r.Bits() && r.Contains(p.Addr()) {
			return true
		}
	}
	return false
}
