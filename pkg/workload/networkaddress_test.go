package workload_test

import (
	"net/netip"
	"testing"

	"pgregory.net/rapid"

	"github.com/croft-edge/croft/pkg/workload"
)

func TestNetworkPrefix6(t *testing.T) {
	// The first 40 bits of the key in TestNetworkKeysAreApart.
	if got := workload.NetworkPrefix6("u", "net1").String(); got != "fd4a:a79a:3d02::/48" {
		t.Errorf("the range is %s", got)
	}
	if workload.NetworkPrefix6("u", "net1") == workload.NetworkPrefix6("un", "et1") {
		t.Error("two networks share a range because their names run together")
	}
}

func TestCounterpart6(t *testing.T) {
	for _, c := range []struct{ prefix, whole, p, want string }{
		{"fd00:1:2::/48", "10.1.0.0/16", "10.1.2.0/24", "fd00:1:2:200::/56"},
		{"fd00:1:2::/48", "10.1.0.0/16", "10.1.0.0/16", "fd00:1:2::/48"},
		{"fd00:1:2::/48", "10.1.0.0/16", "10.1.128.0/17", "fd00:1:2:8000::/49"},
		{"fd00:1:2::/48", "10.1.0.0/16", "10.1.2.4/30", "fd00:1:2:204::/62"},
		{"fd00:1:2::/48", "10.1.0.0/16", "10.1.2.5/32", "fd00:1:2:205::/64"},
		{"fd00:1:2::/48", "10.1.0.0/16", "10.1.2.5/24", "fd00:1:2:200::/56"},
		{"fd00:1:2::/48", "10.1.0.0/16", "10.2.2.0/24", ""},
		{"fd00:1:2::/48", "10.1.0.0/16", "0.0.0.0/0", ""},
		{"fd00:1:2::/48", "10.1.0.0/16", "10.0.0.0/15", ""},
		{"fd00:1:2::/48", "10.1.0.0/16", "fd00:1:2::/64", ""},
		{"fd00:1:2::/48", "10.1.0.0/24", "10.1.0.0/25", ""},
		{"fd00:1:2::/56", "10.1.0.0/16", "10.1.2.0/24", ""},
		{"::ffff:10.0.0.0/48", "10.1.0.0/16", "10.1.2.0/24", ""},
		{"10.0.0.0/8", "10.1.0.0/16", "10.1.2.0/24", ""},
	} {
		got := workload.Counterpart6(prefix(t, c.prefix), prefix(t, c.whole), prefix(t, c.p))
		if want := prefix(t, c.want); got != want {
			t.Errorf("%s of %s beside %s is %s, want %s", c.p, c.whole, c.prefix, got, want)
		}
	}
	if got := workload.Counterpart6(netip.Prefix{}, netip.Prefix{}, netip.Prefix{}); got.IsValid() {
		t.Errorf("nothing has the counterpart %s", got)
	}
}

func TestAddress6(t *testing.T) {
	for _, c := range []struct{ prefix, subnet, ip, want string }{
		{"fd00:1:2::/48", "10.1.2.0/24", "10.1.2.5", "fd00:1:2:200::a01:205"},
		{"fd00:1:2::/48", "10.1.0.0/17", "10.1.77.1", "fd00:1:2::a01:4d01"},
		{"fd00:1:2::/48", "10.1.2.4/30", "10.1.2.6", "fd00:1:2:204::a01:206"},
		{"fd00:1:2::/48", "10.1.2.9/24", "10.1.2.5", "fd00:1:2:200::a01:205"},
		{"fd00:1:2::/48", "10.1.2.0/24", "10.1.3.5", ""},
		{"fd00:1:2::/48", "10.1.2.0/24", "fd00::1", ""},
		{"fd00:1:2::/48", "fd00::/64", "fd00::1", ""},
		{"10.1.0.0/16", "10.1.2.0/24", "10.1.2.5", ""},
	} {
		var want netip.Addr
		if c.want != "" {
			want = netip.MustParseAddr(c.want)
		}
		if got := workload.Address6(prefix(t, c.prefix), prefix(t, c.subnet), netip.MustParseAddr(c.ip)); got != want {
			t.Errorf("%s of %s beside %s is %s, want %s", c.ip, c.subnet, c.prefix, got, want)
		}
	}
}

func TestTunnelAddress(t *testing.T) {
	for _, c := range []struct{ subnet, want string }{
		{"10.1.2.0/24", "100.64.1.2"},
		{"172.16.255.0/30", "100.64.16.255"},
		{"192.168.128.0/17", "100.64.168.128"},
		{"10.1.2.9/24", "100.64.1.2"},
		{"10.1.2.128/25", ""},
		{"10.1.2.4/30", ""},
		{"fd00::/64", ""},
	} {
		got, ok := workload.TunnelAddress(prefix(t, c.subnet))
		if ok != (c.want != "") || ok && got.String() != c.want {
			t.Errorf("%s has %s, %v, want %q", c.subnet, got, ok, c.want)
		}
	}
	if got, ok := workload.TunnelAddress(netip.Prefix{}); ok {
		t.Errorf("nothing has %s", got)
	}
}

// Disjoint subnets stay disjoint, nested ones nested, and a member's address is in
// its subnet's range.
func TestBothSidesOfANetworkAgree(t *testing.T) {
	whole, prefix48 := netip.MustParsePrefix("10.1.0.0/16"), netip.MustParsePrefix("fd01:2:3::/48")
	subnet := rapid.Custom(func(t *rapid.T) netip.Prefix {
		low := rapid.Uint16().Draw(t, "low")
		return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 1, byte(low >> 8), byte(low)}), rapid.IntRange(17, 32).Draw(t, "bits")).Masked()
	})
	rapid.Check(t, func(t *rapid.T) {
		a, b := subnet.Draw(t, "a"), subnet.Draw(t, "b")
		a6, b6 := workload.Counterpart6(prefix48, whole, a), workload.Counterpart6(prefix48, whole, b)
		if a6 != a6.Masked() || !prefix48.Overlaps(a6) || a.Overlaps(b) != a6.Overlaps(b6) || a.Contains(b.Addr()) != a6.Contains(b6.Addr()) {
			t.Fatalf("%s and %s have %s and %s", a, b, a6, b6)
		}
		if ip6 := workload.Address6(prefix48, a, a.Addr()); !a6.Contains(ip6) || b6.Contains(ip6) != a6.Overlaps(b6) && !a.Overlaps(b) {
			t.Fatalf("%s in %s has %s, outside %s", a.Addr(), a, ip6, a6)
		}
	})
}

func prefix(t *testing.T, text string) netip.Prefix {
	t.Helper()
	if text == "" {
		return netip.Prefix{}
	}
	p, err := netip.ParsePrefix(text)
	if err != nil {
		t.Fatal(err)
	}
	return p
}
