package dns

import (
	"net/netip"
	"strconv"
	"strings"
)

// reversed reads a name below in-addr.arpa or ip6.arpa, in lower case, as the
// range that it speaks of: a whole address, or the first octets or nibbles of
// one. It isn't exact when there are labels below, such as those of service
// discovery.
func reversed(name string) (part netip.Prefix, exact, ok bool) {
	if rest, ok := strings.CutSuffix(name, ".in-addr.arpa."); ok {
		part, exact = reversed4(strings.Split(rest, "."))
		return part, exact, true
	}
	if rest, ok := strings.CutSuffix(name, ".ip6.arpa."); ok {
		part, exact = reversed6(strings.Split(rest, "."))
		return part, exact, true
	}
	return netip.Prefix{}, false, false
}

func reversed4(labels []string) (netip.Prefix, bool) {
	var b [4]byte
	n := 0
	for ; n < min(len(labels), len(b)); n++ {
		label := labels[len(labels)-1-n]
		octet, err := strconv.ParseUint(label, 10, 8)
		if err != nil || strconv.FormatUint(octet, 10) != label {
			break
		}
		b[n] = byte(octet)
	}
	return netip.PrefixFrom(netip.AddrFrom4(b), 8*n), n == len(labels)
}

func reversed6(labels []string) (netip.Prefix, bool) {
	var b [16]byte
	n := 0
	for ; n < min(len(labels), 2*len(b)); n++ {
		label := labels[len(labels)-1-n]
		nibble, err := strconv.ParseUint(label, 16, 4)
		if err != nil || len(label) != 1 {
			break
		}
		b[n/2] |= byte(nibble) << (4 * (1 - n%2))
	}
	return netip.PrefixFrom(netip.AddrFrom16(b), 4*n), n == len(labels)
}

// withheld reports whether reverse lookups of the range aren't forwarded: no
// server outside has an answer, and a query reveals the addresses used inside
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
