package resource

import (
	"crypto/sha256"
	"encoding/binary"
	"iter"
	"net/netip"
	"strconv"

	"github.com/croft-edge/croft/pkg/node"
)

// ChoosePublic chooses a public address of a range, which none of the networks'
// members has: always the same for the same member while it is free. index gives
// the name of its link. The zero range has no addresses.
func ChoosePublic(within netip.Prefix, networks iter.Seq[*Network], member string) (at netip.Addr, index int, err error) {
	if !within.IsValid() {
		return netip.Addr{}, 0, node.Errorf(node.Refused, "cannot join member %s: public_ip6 is true, must be false: this node has no public IPv6 range", member)
	}
	taken, indexes := map[netip.Addr]bool{}, map[int]bool{}
	for n := range networks {
		for _, one := range n.Members {
			if one.Public.IsValid() {
				taken[one.Public], indexes[one.PublicIndex] = true, true
			}
		}
	}
	for indexes[index] {
		index++
	}
	base := within.Addr().As16()
	for try := range 1 << 10 {
		sum := sha256.Sum256([]byte(member + "/" + strconv.Itoa(try)))
		host := binary.BigEndian.Uint64(sum[:])
		if width := 128 - within.Bits(); width < 64 {
			host &= 1<<width - 1
		}
		a := base
		binary.BigEndian.PutUint64(a[8:], binary.BigEndian.Uint64(base[8:])|host)
		// The lowest addresses are the router's and the node's own, by custom.
		if at := netip.AddrFrom16(a); host > 0xff && !taken[at] {
			return at, index, nil
		}
	}
	return netip.Addr{}, 0, node.Errorf(node.NoSpace, "cannot join member %s: no public IPv6 address of %s is free", member, within)
}
