package firewall

import (
	"net/netip"
	"slices"
)

// span is the addresses from first to last, both of one family.
type span struct{ first, last netip.Addr }

func spanOf(p netip.Prefix) span {
	p = p.Masked()
	last := p.Addr().AsSlice()
	for i := p.Bits(); i < len(last)*8; i++ {
		last[i/8] |= 0x80 >> (i % 8)
	}
	end, _ := netip.AddrFromSlice(last)
	return span{first: p.Addr(), last: end}
}

// spansOf are the addresses of the prefixes in order, each once: the kernel
// takes no overlapping ranges into a set.
func spansOf(prefixes []netip.Prefix) []span {
	var all []span
	for _, p := range prefixes {
		all = append(all, spanOf(p))
	}
	return merge(all)
}

// merge puts spans in order and joins those with no gap between them.
func merge(all []span) []span {
	slices.SortFunc(all, func(a, b span) int { return a.first.Compare(b.first) })
	var out []span
	for _, s := range all {
		if n := len(out); n > 0 && out[n-1].touches(s) {
			if out[n-1].last.Less(s.last) {
				out[n-1].last = s.last
			}
			continue
		}
		out = append(out, s)
	}
	return out
}

// touches reports whether next, which doesn't begin before s, leaves no gap.
func (s span) touches(next span) bool {
	after := s.last.Next()
	return !after.IsValid() || next.first.Compare(after) <= 0
}

// without is s less the spans, which are in order.
func (s span) without(holes []span) []span {
	var out []span
	for _, h := range holes {
		if h.last.Less(s.first) || s.last.Less(h.first) {
			continue
		}
		if s.first.Less(h.first) {
			out = append(out, span{first: s.first, last: h.first.Prev()})
		}
		if !h.last.Less(s.last) {
			return out
		}
		s.first = h.last.Next()
	}
	return append(out, s)
}

// family keeps the prefixes of IPv4, or those of IPv6.
func family(prefixes []netip.Prefix, four bool) []netip.Prefix {
	var out []netip.Prefix
	for _, p := range prefixes {
		if p.Addr().Is4() == four {
			out = append(out, p)
		}
	}
	return out
}
