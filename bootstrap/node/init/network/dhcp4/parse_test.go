package dhcp4

import (
	"testing"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"

	"github.com/croft-edge/croft/bootstrap/node/init/network/lease"
)

// Whatever a packet says, reading it doesn't panic, and what comes of it is within its bounds.
func FuzzParse(f *testing.F) {
	good, err := dhcpv4.New(dhcpv4.WithYourIP([]byte{192, 0, 2, 9}), dhcpv4.WithLeaseTime(60), dhcpv4.WithNetmask([]byte{255, 255, 255, 0}),
		dhcpv4.WithOption(dhcpv4.OptServerIdentifier([]byte{192, 0, 2, 1})), dhcpv4.WithDomainSearchList("example.org"), dhcpv4.WithRouter([]byte{192, 0, 2, 1}),
		dhcpv4.WithGeneric(dhcpv4.OptionClasslessStaticRoute, []byte{0, 192, 0, 2, 1}))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good.ToBytes())
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := dhcpv4.FromBytes(b)
		if err != nil {
			return
		}
		l, err := Parse(m, time.Now())
		if err != nil {
			return
		}
		if len(l.Addresses) != 1 || !lease.Unicast(l.Addresses[0].Addr()) || len(l.DNS) > lease.MostServers || len(l.Search) > lease.MostDomains ||
			len(l.Routes) > lease.MostRoutes || l.Times.Lasts != 0 && (l.Times.Renew < time.Second || l.Times.Rebind <= l.Times.Renew || l.Times.Rebind >= l.Times.Lasts) {
			t.Errorf("a lease without bounds: %+v", l)
		}
		for _, r := range l.Routes {
			if !r.To.IsValid() || r.To != r.To.Masked() {
				t.Errorf("a route to nowhere: %+v", r)
			}
		}
	})
}
