package firewall

import (
	"net/netip"
	"testing"

	"pgregory.net/rapid"
)

func TestSpans(t *testing.T) {
	for _, c := range []struct {
		prefixes []string
		want     [][2]string
	}{
		{nil, nil},
		{[]string{"10.0.0.0/8"}, [][2]string{{"10.0.0.0", "10.255.255.255"}}},
		{[]string{"10.1.2.3/8", "10.9.0.0/16"}, [][2]string{{"10.0.0.0", "10.255.255.255"}}},
		{[]string{"10.128.0.0/9", "10.0.0.0/9"}, [][2]string{{"10.0.0.0", "10.255.255.255"}}},
		{[]string{"10.0.0.0/32", "10.0.0.2/32"}, [][2]string{{"10.0.0.0", "10.0.0.0"}, {"10.0.0.2", "10.0.0.2"}}},
		{[]string{"0.0.0.0/0", "255.0.0.0/8"}, [][2]string{{"0.0.0.0", "255.255.255.255"}}},
		{[]string{"ff00::/8"}, [][2]string{{"ff00::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"}}},
	} {
		var prefixes []netip.Prefix
		for _, p := range c.prefixes {
			prefixes = append(prefixes, prefix(p))
		}
		got := spansOf(prefixes)
		if len(got) != len(c.want) {
			t.Errorf("%v: %v, want %v", c.prefixes, got, c.want)
			continue
		}
		for i, s := range got {
			if s.first.String() != c.want[i][0] || s.last.String() != c.want[i][1] {
				t.Errorf("%v: %v, want %v", c.prefixes, got, c.want)
			}
		}
	}
}

// Small ranges in a small space, so that they meet.
func smallPrefix() *rapid.Generator[netip.Prefix] {
	return rapid.Custom(func(t *rapid.T) netip.Prefix {
		last := rapid.Byte().Draw(t, "last")
		third := rapid.SampledFrom([]byte{0, 1, 255}).Draw(t, "third")
		start := rapid.SampledFrom([]byte{0, 255}).Draw(t, "start")
		return netip.PrefixFrom(netip.AddrFrom4([4]byte{start, start, third, last}), rapid.IntRange(20, 32).Draw(t, "bits")).Masked()
	})
}

// What a tenant reaches by the sets is what the ranges say, address by address.
func TestSetsMatchTheRanges(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := nodeRules()
		n.Refuse = rapid.SliceOfN(smallPrefix(), 0, 6).Draw(t, "refuse")
		n.Allow = nil
		for _, p := range rapid.SliceOfN(smallPrefix(), 0, 4).Draw(t, "allow") {
			n.Allow = append(n.Allow, Allowed{Prefix: p, Port: rapid.SampledFrom([]uint16{0, 80}).Draw(t, "port")})
		}
		set := n.sets()[0]
		if set.name != "reach4" {
			t.Fatalf("the first set is %s", set.name)
		}
		for range 50 {
			addr := smallPrefix().Draw(t, "address").Addr()
			if got, want := inIntervals(set, addr), n.reached(addr, 0); got != want {
				t.Fatalf("%s: reached is %v, want %v", addr, got, want)
			}
			inPorts := false
			for _, s := range opened(n.Allow, n.Refuse, 80, true) {
				inPorts = inPorts || s.first.Compare(addr) <= 0 && addr.Compare(s.last) <= 0
			}
			if want := n.reached(addr, 80); (inPorts || inIntervals(set, addr)) != want {
				t.Fatalf("%s port 80: reached is %v, want %v", addr, !want, want)
			}
		}
	})
}

// reached is the rule in plain words.
func (n Node) reached(addr netip.Addr, port uint16) bool {
	refused := false
	for _, r := range n.Refuse {
		refused = refused || r.Contains(addr)
	}
	if !refused {
		return true
	}
	for _, a := range n.Allow {
		if !a.Prefix.Contains(addr) || a.Port != 0 && a.Port != port {
			continue
		}
		narrower := false
		for _, r := range n.Refuse {
			narrower = narrower || r.Contains(addr) && r.Bits() > a.Prefix.Bits()
		}
		if !narrower {
			return true
		}
	}
	return false
}

// inIntervals looks an address up as the kernel does: it is in when the last
// element up to it begins a range.
func inIntervals(s set, addr netip.Addr) bool {
	in := false
	for _, e := range s.elements {
		at, _ := netip.AddrFromSlice(e.Key)
		if at.Compare(addr) > 0 {
			break
		}
		in = !e.IntervalEnd
	}
	return in
}
