package dhcp6

import (
	"net"
	"testing"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv6"
	"github.com/insomniacslk/dhcp/iana"

	"github.com/croft-edge/croft/bootstrap/node/init/network/lease"
)

// Whatever a packet says, reading it doesn't panic, and what comes of it is within its bounds.
func FuzzParse(f *testing.F) {
	good := reply(f, dhcpv6.OptIAAddress{IPv6Addr: net.ParseIP("fd00::9"), ValidLifetime: time.Minute, PreferredLifetime: time.Minute})
	f.Add(good.ToBytes(), true)
	f.Add(good.ToBytes(), false)
	f.Fuzz(func(t *testing.T, b []byte, need bool) {
		m, err := dhcpv6.MessageFromBytes(b)
		if err != nil {
			return
		}
		l, err := Parse(m, time.Now(), need)
		if err != nil {
			return
		}
		if need && len(l.Addresses) == 0 || len(l.Addresses) > lease.MostAddresses || len(l.DNS) > lease.MostServers || len(l.NTP) > lease.MostServers ||
			l.Times.Lasts != 0 && l.Times.Lasts < lease.Least {
			t.Errorf("a lease without bounds: %+v", l)
		}
	})
}

func reply(t testing.TB, addresses ...dhcpv6.OptIAAddress) *dhcpv6.Message {
	m, err := dhcpv6.NewMessage(dhcpv6.WithServerID(&dhcpv6.DUIDLL{HWType: iana.HWTypeEthernet, LinkLayerAddr: net.HardwareAddr{2, 0, 0, 0, 0, 1}}),
		dhcpv6.WithIANA(addresses...), dhcpv6.WithDNS(net.ParseIP("fd00::53")), dhcpv6.WithDomainSearchList("example.org"))
	if err != nil {
		t.Fatal(err)
	}
	m.MessageType = dhcpv6.MessageTypeReply
	return m
}

// TestNoIdentifier: a server without one can't be asked for an address again, but what it says about name servers is of use.
func TestNoIdentifier(t *testing.T) {
	m := reply(t, dhcpv6.OptIAAddress{IPv6Addr: net.ParseIP("fd00::9"), ValidLifetime: time.Minute})
	m.Options.Del(dhcpv6.OptionServerID)
	if l, err := Parse(m, time.Now(), true); err == nil {
		t.Errorf("an address without a server: %+v", l)
	}
	if l, err := Parse(m, time.Now(), false); err != nil || len(l.DNS) != 1 || l.Server != "unknown" {
		t.Errorf("name servers without a server: %+v, %v", l, err)
	}
}

func TestParse(t *testing.T) {
	ok := dhcpv6.OptIAAddress{IPv6Addr: net.ParseIP("fd00::9"), ValidLifetime: time.Minute}
	for name, c := range map[string]struct {
		addresses []dhcpv6.OptIAAddress
		want      int
	}{
		"one":                {[]dhcpv6.OptIAAddress{ok}, 1},
		"none":               {nil, 0},
		"one that is over":   {[]dhcpv6.OptIAAddress{{IPv6Addr: net.ParseIP("fd00::9")}}, 0},
		"multicast":          {[]dhcpv6.OptIAAddress{{IPv6Addr: net.ParseIP("ff02::1"), ValidLifetime: time.Minute}}, 0},
		"IPv4":               {[]dhcpv6.OptIAAddress{{IPv6Addr: net.IPv4(192, 0, 2, 1), ValidLifetime: time.Minute}}, 0},
		"one good, one bad":  {[]dhcpv6.OptIAAddress{{IPv6Addr: net.ParseIP("::"), ValidLifetime: time.Minute}, ok}, 1},
		"more than are used": {[]dhcpv6.OptIAAddress{ok, ok, ok, ok, ok, ok, ok, ok, ok, ok}, lease.MostAddresses},
	} {
		l, err := Parse(reply(t, c.addresses...), time.Now(), true)
		if (err == nil) != (c.want > 0) || err == nil && len(l.Addresses) != c.want {
			t.Errorf("%s: %+v, %v; want %d addresses", name, l, err, c.want)
		}
		if c.want > 0 && l.Server != "02:00:00:00:00:01" {
			t.Errorf("%s: the server is %s", name, l.Server)
		}
	}
}
