package mesh

import (
	"net/netip"

	"github.com/pkg/errors"
)

// usualBits is the size of the subnets that are chosen.
const usualBits = 24

// Ports are chosen between these: above those of services, below those that
// Linux gives to outgoing connections.
const (
	firstPort = 10000
	lastPort  = 32767
)

// FreeRange is the first private range that overlaps none of the others.
func FreeRange(others []netip.Prefix) (netip.Prefix, error) {
	var all [][4]byte
	for i := 1; i < 256; i++ {
		all = append(all, [4]byte{10, byte(i)})
	}
	for i := 16; i < 32; i++ {
		all = append(all, [4]byte{172, byte(i)})
	}
	for _, b := range append(all, [4]byte{10, 0}, [4]byte{192, 168}) {
		p := netip.PrefixFrom(netip.AddrFrom4(b), RangeBits)
		if !overlaps(others, p) {
			return p, nil
		}
	}
	return netip.Prefix{}, errors.Errorf("cannot choose a range: the %d others leave no private /%d free", len(others), RangeBits)
}

// FreeSubnet is the first free /24 of the network that overlaps none of avoid.
// The one that begins where the range does is left out.
func (n Network) FreeSubnet(avoid []netip.Prefix) (netip.Prefix, error) {
	others := append(n.subnets(), avoid...)
	base := n.IPRange.Addr().As4()
	for i := 1; i < 256; i++ {
		p := netip.PrefixFrom(netip.AddrFrom4([4]byte{base[0], base[1], byte(i)}), usualBits)
		if !overlaps(others, p) {
			return p, nil
		}
	}
	return netip.Prefix{}, errors.Errorf("cannot choose a subnet: no /%d of %s is free; name a smaller one with --subnet", usualBits, n.IPRange)
}

func overlaps(all []netip.Prefix, p netip.Prefix) bool {
	for _, one := range all {
		if one.Overlaps(p) {
			return true
		}
	}
	return false
}

// FreePort is one that isn't taken; pick returns a number from 0 to n-1. Other
// users' networks choose on the same node and don't see each other: a port by
// chance is less often the same than the first.
func FreePort(taken map[uint16]bool, pick func(n int) int) (uint16, error) {
	const span = lastPort - firstPort + 1
	start := pick(span)
	for i := range span {
		if port := uint16(firstPort + (start+i)%span); !taken[port] {
			return port, nil
		}
	}
	return 0, errors.Errorf("cannot choose a port: all from %d to %d are taken; name one with --port", firstPort, lastPort)
}
