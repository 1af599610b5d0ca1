package dial

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/croft-edge/croft/pkg/node"
)

func TestAddressesRefusedByDefault(t *testing.T) {
	d := newDialer(t, Config{})
	for addresses, what := range map[string]string{
		"0.0.0.0 0.1.2.3 :: ":                                        "unspecified",
		"10.0.0.0 10.255.255.255 172.16.0.0 172.31.255.255":          "private",
		"192.168.0.0 192.168.255.255 fc00:: fdff::1":                 "private",
		"100.64.0.0 100.127.255.255 100.100.100.200":                 "shared by carriers",
		"127.0.0.0 127.0.0.1 127.255.255.255 ::1":                    "loopback",
		"169.254.0.0 169.254.169.254 169.254.255.255":                "link-local",
		"fe80:: fe80::1 febf:ffff::1":                                "link-local",
		"fec0:: feff::1":                                             "site-local",
		"192.0.0.1 192.0.0.192":                                      "protocol assignments",
		"192.0.2.1 198.51.100.1 203.0.113.255 2001:db8::1":           "documentation",
		"3fff::1 3fff:fff:ffff::1":                                   "documentation",
		"198.18.0.0 198.19.255.255 2001:2::1":                        "benchmarks",
		"192.88.99.1":                                                "6to4 relays",
		"168.63.129.16":                                              "cloud",
		"224.0.0.1 239.255.255.255 ff02::1 ff0e::1":                  "multicast",
		"255.255.255.255":                                            "broadcast",
		"240.0.0.1 255.255.255.254":                                  "reserved",
		"100::1":                                                     "discard",
		"2001:10::1 2001:2f::1":                                      "ORCHID",
		"5f00::1":                                                    "segment routing",
		"64:ff9b:1::1 64:ff9b:1:ffff::808:808":                       "local NAT64",
		"::8.8.8.8":                                                  "IPv4-compatible",
		"1:: 200::1 4000::1 fbff::1 8000::1 ::ffff:0:8.8.8.8":        "not global unicast",
		"64:ff9b:0:0:1::1 64:ff9a::808:808 e000::1":                  "not global unicast",
		"::ffff:127.0.0.1 2002:7f00:1:: 64:ff9b::127.0.0.1":          "loopback (127.0.0.0/8)",
		"2001:0:7f00:1:: 2001:0:808:808::80ff:fffe":                  "loopback (127.0.0.0/8)",
		"2606:4700::5efe:127.0.0.1 2606:4700::200:5efe:127.9.9.9":    "loopback (127.0.0.0/8)",
		"::ffff:169.254.169.254 64:ff9b::a9fe:a9fe 2002:a9fe:a9fe::": "link-local (169.254.0.0/16)",
		"64:ff9b::10.0.0.1 2002:a00:1::":                             "private (10.0.0.0/8)",
	} {
		for _, text := range strings.Fields(addresses) {
			err := d.Judge(netip.AddrPortFrom(netip.MustParseAddr(text), 443))
			if node.KindOf(err) != node.Refused || !strings.Contains(err.Error(), what) {
				t.Errorf("%s: want %s, got %v", text, what, err)
			}
		}
	}
}

func TestAddressesAllowedByDefault(t *testing.T) {
	d := newDialer(t, Config{})
	for _, text := range strings.Fields(`1.1.1.1 9.255.255.255 11.0.0.0 100.63.255.255 100.128.0.0 126.255.255.255 128.0.0.0
		169.253.255.255 169.255.0.0 172.15.255.255 172.32.0.0 191.255.255.255 192.0.1.0 192.167.255.255 192.169.0.0
		198.17.255.255 198.20.0.0 223.255.255.255 168.63.129.15 ::ffff:8.8.8.8
		2000::1 2606:4700:4700::1111 2a00:1450::1 2001:4860:4860::8888 3ffe:ffff::1
		64:ff9b::8.8.8.8 2002:808:808::1 2001:0:808:808::f7f7:f7f7 2606:4700::5efe:8.8.8.8`) {
		if err := d.Judge(netip.AddrPortFrom(netip.MustParseAddr(text), 443)); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestJudgeNeedsAnAddress(t *testing.T) {
	d := newDialer(t, Config{})
	wantError(t, d.Judge(netip.AddrPort{}), node.Invalid)
	wantError(t, d.Judge(netip.MustParseAddrPort("8.8.8.8:0")), node.Invalid, "8.8.8.8:0")
	wantError(t, d.Judge(netip.MustParseAddrPort("[fe80::1%lo]:1")), node.Refused, "zone")
}

func TestRangesThatCantBeReadRefuseAll(t *testing.T) {
	for text, bad := range map[string]netip.Prefix{
		"isn't valid":         {},
		"mixes IPv4 and IPv6": netip.PrefixFrom(netip.MustParseAddr("::ffff:1.2.3.4"), 95),
	} {
		d := newDialer(t, Config{Own: func() []netip.Prefix { return []netip.Prefix{bad} }})
		wantError(t, d.Judge(netip.MustParseAddrPort("8.8.8.8:53")), node.Internal, text)
		wantError(t, dialNow(t, d, "tcp", "8.8.8.8:53"), node.Internal, text)
		_, err := New(Config{Own: none, Refuse: []netip.Prefix{bad}})
		wantError(t, err, node.Invalid, "Refuse", text)
	}
}

func TestOwnAndRefusedRanges(t *testing.T) {
	d := newDialer(t, Config{
		Refuse: []netip.Prefix{netip.MustParsePrefix("11.1.2.3/32"), netip.MustParsePrefix("::ffff:11.2.0.0/112")},
		Own: func() []netip.Prefix {
			return []netip.Prefix{netip.MustParsePrefix("2a00:1::/32"), netip.MustParsePrefix("11.3.9.9/16")}
		},
	})
	for text, says := range map[string]string{
		"11.1.2.3": "refused by the operator", "11.2.255.255": "refused by the operator", "64:ff9b::11.1.2.3": "leads to 11.1.2.3",
		"2a00:1::5": "a tenant's network", "11.3.0.1": "a tenant's network", "::ffff:11.3.0.1": "a tenant's network", "2002:b03:1::": "leads to 11.3.0.1",
	} {
		err := d.Judge(netip.AddrPortFrom(netip.MustParseAddr(text), 443))
		wantError(t, err, node.Refused, says, "may list an exception")
		if strings.Contains(err.Error(), "/") {
			t.Errorf("tells a tenant about the ranges of others: %v", err)
		}
	}
	for _, text := range []string{"11.1.2.2", "11.1.2.4", "11.4.0.1", "2a00:2::5"} {
		if err := d.Judge(netip.AddrPortFrom(netip.MustParseAddr(text), 443)); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestInvalidConfig(t *testing.T) {
	for says, c := range map[string]Config{
		"Own is missing": {},
		"Timeout -1s":    {Own: none, Timeout: -1e9},
		"Allow: cannot use exception invalid Prefix: it has neither a host nor a prefix": {Own: none, Allow: []Exception{{}}},
	} {
		_, err := New(c)
		wantError(t, err, node.Invalid, says)
	}
}
