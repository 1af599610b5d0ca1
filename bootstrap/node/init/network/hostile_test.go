package network

import (
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
)

// Whatever a server says, nothing breaks; what can't be used is refused or left out, and says so.
func TestHostileServer(t *testing.T) {
	many := func(n int) (out []net.IP) {
		for i := range n {
			out = append(out, net.IPv4(198, 51, 100, byte(i+1)))
		}
		return out
	}
	mtu := func(n byte, m byte) dhcpv4.Option {
		return dhcpv4.OptGeneric(dhcpv4.OptionInterfaceMTU, []byte{n, m})
	}
	for _, c := range []struct {
		name   string
		change func(r *dhcpv4.DHCPv4)
		raw    func(r *dhcpv4.DHCPv4) []byte
		// refused is a part of the problem that is shown; empty if the lease is taken. check looks at the node.
		refused string
		check   func(w *world, i Interface) string
	}{
		{name: "many servers", change: func(r *dhcpv4.DHCPv4) {
			r.UpdateOption(dhcpv4.OptDNS(many(60)...))
			r.UpdateOption(dhcpv4.OptNTPServers(many(60)...))
		}, check: func(w *world, i Interface) string {
			if len(i.DNS) != 8 || strings.Count(w.resolvers(), "nameserver") != 3 {
				return "the servers aren't bounded: " + w.resolvers()
			}
			return ""
		}},
		{name: "no machine's servers", change: func(r *dhcpv4.DHCPv4) {
			r.UpdateOption(dhcpv4.OptDNS(net.IPv4zero, net.IPv4bcast, net.IPv4(127, 0, 0, 1), net.IPv4(224, 0, 0, 1)))
		}, check: func(w *world, i Interface) string { return w.resolvers() }},
		{name: "a name with a line of its own", change: func(r *dhcpv4.DHCPv4) {
			r.UpdateOption(dhcpv4.OptDNS(net.IPv4(192, 0, 2, 1)))
			r.UpdateOption(dhcpv4.OptDomainName("example.org\nnameserver 6.6.6.6"))
		}, check: func(w *world, i Interface) string { return strings.TrimPrefix(w.resolvers(), "nameserver 192.0.2.1\n") }},
		{name: "MTU 0", change: func(r *dhcpv4.DHCPv4) { r.UpdateOption(mtu(0, 0)) }, check: ordinaryMTU},
		{name: "MTU 68", change: func(r *dhcpv4.DHCPv4) { r.UpdateOption(mtu(0, 68)) }, check: ordinaryMTU},
		{name: "a router outside", change: func(r *dhcpv4.DHCPv4) { r.UpdateOption(dhcpv4.OptRouter(net.IPv4(203, 0, 113, 1))) },
			check: func(w *world, i Interface) string {
				if !strings.Contains(w.routes(), "default via 203.0.113.1") {
					return w.routes()
				}
				return ""
			}},
		{name: "no machine's router", change: func(r *dhcpv4.DHCPv4) {
			r.UpdateOption(dhcpv4.OptRouter(net.IPv4zero, net.IPv4bcast, net.IPv4(192, 0, 2, 50)))
		}, check: func(w *world, i Interface) string { return strings.Join(defaults(w), " ") }},
		{name: "many routes", change: func(r *dhcpv4.DHCPv4) {
			var routes []*dhcpv4.Route
			for i := range 30 {
				routes = append(routes, &dhcpv4.Route{Dest: &net.IPNet{IP: net.IPv4(10, byte(i), 0, 0), Mask: net.CIDRMask(16, 32)}, Router: net.IPv4(192, 0, 2, 1)})
			}
			routes = append(routes, &dhcpv4.Route{Dest: &net.IPNet{IP: net.IPv4(127, 0, 0, 0), Mask: net.CIDRMask(8, 32)}, Router: net.IPv4(192, 0, 2, 1)})
			r.UpdateOption(dhcpv4.OptClasslessStaticRoute(routes...))
			r.UpdateOption(dhcpv4.OptRouter(net.IPv4(192, 0, 2, 1)))
		}, check: func(w *world, i Interface) string {
			if n := strings.Count(w.routes(), "via 192.0.2.1"); n != 30 {
				return fmt.Sprintf("%d routes: %s", n, w.routes())
			}
			return strings.Join(defaults(w), " ")
		}},
		{name: "a lease for ever", change: func(r *dhcpv4.DHCPv4) { r.UpdateOption(dhcpv4.OptIPAddressLeaseTime(dhcpv4.MaxLeaseTime)) },
			check: func(w *world, i Interface) string {
				if !i.Ends4.IsZero() {
					return "it ends at " + i.Ends4.String()
				}
				return ""
			}},
		{name: "senseless times", change: func(r *dhcpv4.DHCPv4) {
			r.UpdateOption(dhcpv4.OptRenewTimeValue(0))
			r.UpdateOption(dhcpv4.OptRebindingTimeValue(dhcpv4.MaxLeaseTime))
		}, check: func(w *world, i Interface) string { return "" }},
		{name: "a lease of no time", change: func(r *dhcpv4.DHCPv4) { r.UpdateOption(dhcpv4.OptIPAddressLeaseTime(0)) }, refused: "its lease lasts 0s, must last 4s or longer"},
		{name: "no time", change: func(r *dhcpv4.DHCPv4) { r.DeleteOption(dhcpv4.OptionIPAddressLeaseTime) }, refused: "its lease lasts 0s"},
		{name: "all of the internet", change: func(r *dhcpv4.DHCPv4) { r.UpdateOption(dhcpv4.OptSubnetMask(net.CIDRMask(1, 32))) }, refused: "must have 8 to 32 bits"},
		{name: "a mask with holes", change: func(r *dhcpv4.DHCPv4) { r.UpdateOption(dhcpv4.OptSubnetMask(net.IPMask{255, 0, 255, 0})) }, refused: "must have 8 to 32 bits"},
		{name: "a loopback address", change: func(r *dhcpv4.DHCPv4) { r.YourIPAddr = net.IPv4(127, 0, 0, 1) }, refused: "must be one machine's"},
		{name: "no server", change: func(r *dhcpv4.DHCPv4) { r.DeleteOption(dhcpv4.OptionServerIdentifier) }, refused: "must be one machine's"},
		{name: "half a packet", raw: func(r *dhcpv4.DHCPv4) []byte { return r.ToBytes()[:200] }, refused: "no DHCP server answers"},
		{name: "options that end early", raw: func(r *dhcpv4.DHCPv4) []byte { return append(r.ToBytes()[:240], 121, 255, 33, 1) }, refused: "no DHCP server answers"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			s := w.serve(addressed(w.cable("eth0"), "192.0.2.1/24"), func(_, r *dhcpv4.DHCPv4) bool {
				if c.change != nil {
					c.change(r)
				}
				return true
			})
			s.mu.Lock()
			s.raw = c.raw
			s.mu.Unlock()
			n, _ := w.run(Config{DHCP4: true})
			var i Interface
			settle(t, "there is a lease or a problem", 60*time.Second, func() bool {
				all := n.State().Interfaces
				if len(all) == 0 {
					return false
				}
				i = all[0]
				return c.refused != "" && strings.Contains(i.Problem, c.refused) || c.refused == "" && i.Server4 != ""
			})
			if c.refused != "" {
				if len(w.addresses("eth0")) > 0 && strings.Contains(strings.Join(w.addresses("eth0"), " "), "192.0.2.") {
					t.Errorf("the address is there: %v", w.addresses("eth0"))
				}
				return
			}
			settle(t, "the lease is applied", 10*time.Second, func() bool { return w.has("eth0", "192.0.2.50/24") && c.check(w, i) == "" })
			if p := n.State().Interfaces[0].Problem; p != "" {
				t.Errorf("the problem is %s", p)
			}
		})
	}
}

func ordinaryMTU(_ *world, i Interface) string {
	if i.MTU != 1500 {
		return fmt.Sprint(i.MTU)
	}
	return ""
}

func defaults(w *world) []string {
	var out []string
	for _, line := range strings.Split(w.routes(), "\n") {
		if strings.HasPrefix(line, "default") {
			out = append(out, line)
		}
	}
	return out
}

// An MTU that the interface can't have is shown; the rest of the lease is used.
func TestImpossibleMTU(t *testing.T) {
	w := newWorld(t)
	w.serve(addressed(w.cable("eth0"), "192.0.2.1/24"), func(_, r *dhcpv4.DHCPv4) bool {
		r.UpdateOption(dhcpv4.OptGeneric(dhcpv4.OptionInterfaceMTU, []byte{0x24, 0}))
		r.UpdateOption(dhcpv4.OptRouter(net.IPv4(192, 0, 2, 1)))
		return true
	})
	w.run(Config{DHCP4: true})
	settle(t, "the address and the route are there", 20*time.Second, func() bool { return w.has("eth0", "192.0.2.50/24") && len(defaults(w)) == 1 })
}

// Name servers of several interfaces are joined, at most as many as resolvers read.
func TestResolvers(t *testing.T) {
	got := resolvers(addrs("192.0.2.1", "fd00::1"), []string{"a.example", "b.example"})
	if want := "nameserver 192.0.2.1\nnameserver fd00::1\nsearch a.example b.example\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	var dns []netip.Addr
	if dns = addNew(dns, addrs("192.0.2.1", "192.0.2.1", "192.0.2.2", "192.0.2.3", "192.0.2.4"), mostResolvers); len(dns) != 3 {
		t.Errorf("got %v, want three", dns)
	}
}
