package network

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/vishvananda/netlink"
)

// A real server's lease: address, router, servers, MTU; and IPv6 by advertisement and DHCPv6.
func TestBothKindsOfIP(t *testing.T) {
	for _, c := range []struct {
		name, range6 string
		stateful     bool
	}{
		{"stateless", "fd00:9::,ra-stateless,2m", false},
		{"stateful", "fd00:9::100,fd00:9::1ff,64,2m", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			router := addressed(w.cable("eth0"), "192.0.2.1/24", "fd00:9::1/64")
			router.Forward()
			w.dnsmasq(router, "--enable-ra", "--dhcp-range=192.0.2.50,192.0.2.60,2m", "--dhcp-range="+c.range6,
				"--dhcp-option=option:dns-server,192.0.2.1,192.0.2.2", "--dhcp-option=option:ntp-server,192.0.2.3", "--dhcp-option=option:mtu,1400",
				"--dhcp-option=option:domain-name,example.org", "--dhcp-option=option6:dns-server,[fd00:9::1]",
				"--dhcp-option=option6:ntp-server,[fd00:9::3]", "--dhcp-option=option6:sntp-server,[fd00:9::4]")
			n, _ := w.run(Config{DHCP4: true, DHCP6: true, Hostname: func() string { return "croft-12345678" }})
			settle(t, "there is a lease of each kind", 30*time.Second, func() bool {
				s := n.State()
				return len(s.Interfaces) == 1 && s.Interfaces[0].Server4 == "192.0.2.1" && s.Interfaces[0].Server6 != ""
			})
			settle(t, "there are addresses and routes of both kinds", 10*time.Second, func() bool {
				s := n.State().Interfaces[0]
				own := func(p netip.Prefix) bool {
					return netip.MustParsePrefix("fd00:9::/64").Contains(p.Addr()) && (p.Bits() == 128) == c.stateful
				}
				four := func(p netip.Prefix) bool { return p.Addr().Is4() && p.Bits() == 24 }
				return slices.ContainsFunc(s.Addresses, own) && slices.ContainsFunc(s.Addresses, four) && len(s.Gateways) == 2 && s.MTU == 1400
			})
			s := n.State()
			if want := addrs("192.0.2.1", "192.0.2.2", "fd00:9::1"); !slices.Equal(s.DNS, want) {
				t.Errorf("name servers are %v, want %v", s.DNS, want)
			}
			if want := []string{"192.0.2.3", "fd00:9::3", "fd00:9::4"}; !slices.Equal(s.NTP, want) {
				t.Errorf("time servers are %v, want %v", s.NTP, want)
			}
			settle(t, "the servers are written", 10*time.Second, func() bool {
				return strings.HasPrefix(w.resolvers(), "nameserver 192.0.2.1\nnameserver 192.0.2.2\nnameserver fd00:9::1\nsearch example.org")
			})
			if ends := time.Until(s.Interfaces[0].Ends4); ends < time.Minute || ends > 2*time.Minute {
				t.Errorf("the lease ends in %s", ends)
			}
			// The machine begins to forward: its way out stays.
			w.node.Forward()
			for _, address := range []string{"192.0.2.1:80", "[fd00:9::1]:80"} {
				router.ListenTCP(address)
				settle(t, "the router is reached", 10*time.Second, func() bool {
					conn, err := w.node.DialTCP(address, time.Second)
					if err == nil {
						conn.Close()
					}
					return err == nil
				})
			}
			if got := w.routes(); !strings.Contains(got, "default via 192.0.2.1 dev eth0 proto dhcp src 192.0.2.") || !strings.Contains(got, "default via fe80:") || !strings.Contains(got, "metric 100") {
				t.Errorf("the routes are %s", got)
			}
		})
	}
}

// A lease is renewed by its server; without it others are asked, and at its end the address is given up. A server that is back gives it again.
func TestRenewalAndEnd(t *testing.T) {
	w := newWorld(t)
	at := addressed(w.cable("eth0"), "192.0.2.1/24")
	short := func(_, reply *dhcpv4.DHCPv4) bool {
		reply.UpdateOption(dhcpv4.OptIPAddressLeaseTime(6 * time.Second))
		reply.UpdateOption(dhcpv4.OptRouter([]byte{192, 0, 2, 1}))
		return true
	}
	s := w.serve(at, short)
	n, _ := w.run(Config{DHCP4: true})
	settle(t, "there is a lease", 20*time.Second, func() bool { return w.has("eth0", "192.0.2.50/24") })
	before := s.count("DISCOVER")
	settle(t, "the lease is renewed twice", 30*time.Second, func() bool { return s.count("REQUEST from 192.0.2.50") >= 2 })
	if !w.has("eth0", "192.0.2.50/24") {
		t.Fatalf("the address isn't there: %v", w.addresses("eth0"))
	}
	if now := s.count("DISCOVER"); now != before {
		t.Errorf("%d times a server was looked for after the first lease, want never", now-before)
	}
	s.stop()
	settle(t, "the address is given up", 20*time.Second, func() bool { return !w.has("eth0", "192.0.2.50/24") })
	settle(t, "so is the route, and it is shown", 10*time.Second, func() bool {
		return !strings.Contains(w.routes(), "default") && n.State().Interfaces[0].Problem != "" && n.State().Interfaces[0].Server4 == ""
	})
	w.serve(at, short)
	settle(t, "the address is back", 60*time.Second, func() bool { return w.has("eth0", "192.0.2.50/24") })
	settle(t, "no problem is shown", 5*time.Second, func() bool { return n.State().Interfaces[0].Problem == "" })
}

// The server that gave the lease is away; another one, that anyone is asked of, keeps it.
func TestRebinding(t *testing.T) {
	w := newWorld(t)
	at := addressed(w.cable("eth0"), "192.0.2.1/24")
	s := w.serve(at, func(question, reply *dhcpv4.DHCPv4) bool {
		reply.UpdateOption(dhcpv4.OptIPAddressLeaseTime(8 * time.Second))
		if question.ClientIPAddr.IsUnspecified() {
			return true
		}
		// Only what is sent to all is answered, and by somebody else.
		reply.UpdateOption(dhcpv4.OptServerIdentifier([]byte{192, 0, 2, 9}))
		return true
	})
	n, _ := w.run(Config{DHCP4: true})
	settle(t, "there is a lease", 20*time.Second, func() bool { return w.has("eth0", "192.0.2.50/24") })
	before := s.count("DISCOVER")
	settle(t, "the lease is another server's", 20*time.Second, func() bool {
		i := n.State().Interfaces
		return len(i) == 1 && i[0].Server4 == "192.0.2.9"
	})
	if now := s.count("DISCOVER"); now != before {
		t.Errorf("%d times a server was looked for after the first lease, want never", now-before)
	}
}

// A server takes the address back: another one is asked for at once.
func TestRefusal(t *testing.T) {
	w := newWorld(t)
	at := addressed(w.cable("eth0"), "192.0.2.1/24")
	refused := false
	w.serve(at, func(question, reply *dhcpv4.DHCPv4) bool {
		reply.UpdateOption(dhcpv4.OptIPAddressLeaseTime(6 * time.Second))
		if refused {
			reply.YourIPAddr = []byte{192, 0, 2, 60}
		}
		if !question.ClientIPAddr.IsUnspecified() && !refused {
			refused = true
			reply.UpdateOption(dhcpv4.OptMessageType(dhcpv4.MessageTypeNak))
		}
		return true
	})
	w.run(Config{DHCP4: true})
	settle(t, "there is the first address", 20*time.Second, func() bool { return w.has("eth0", "192.0.2.50/24") })
	settle(t, "the second one alone is there", 20*time.Second, func() bool {
		return w.has("eth0", "192.0.2.60/24") && !w.has("eth0", "192.0.2.50/24")
	})
}

// Nobody answers at first; an interface appears later, too. The second one's routes come after the first one's.
func TestLateServerAndLateInterface(t *testing.T) {
	w := newWorld(t)
	first := addressed(w.cable("eth0"), "192.0.2.1/24")
	n, _ := w.run(Config{DHCP4: true})
	settle(t, "the interface waits for a server", 30*time.Second, func() bool {
		i := n.State().Interfaces
		return len(i) == 1 && strings.Contains(i[0].Problem, "no DHCP server answers")
	})
	w.dnsmasq(first, "--dhcp-range=192.0.2.50,192.0.2.60,2m", "--dhcp-option=option:dns-server,192.0.2.1")
	second := w.lab.Namespace("second")
	w.plug("eth1", second)
	addressed(second, "198.51.100.1/24")
	w.dnsmasq(second, "--dhcp-range=198.51.100.50,198.51.100.60,2m", "--dhcp-option=option:dns-server,198.51.100.1")
	settle(t, "both have routes", 60*time.Second, func() bool {
		r := w.routes()
		return strings.Contains(r, "default via 192.0.2.1") && strings.Contains(r, "default via 198.51.100.1")
	})
	for _, line := range strings.Split(w.routes(), "\n") {
		if strings.Contains(line, "default via 192.0.2.1") != strings.Contains(line, "metric 100") && strings.Contains(line, "default") {
			t.Errorf("the order of the routes is wrong: %s", line)
		}
	}
	settle(t, "the servers of both are written", 10*time.Second, func() bool {
		return w.resolvers() == "nameserver 192.0.2.1\nnameserver 198.51.100.1\n"
	})
	if err := w.node.Netlink().LinkDel(w.node.Link("eth1")); err != nil {
		t.Fatal(err)
	}
	settle(t, "the second interface is forgotten", 10*time.Second, func() bool {
		return len(n.State().Interfaces) == 1 && w.resolvers() == "nameserver 192.0.2.1\n"
	})
}

// A cable is pulled and plugged in elsewhere: the old lease stays until the other network's is there.
func TestCarrierChange(t *testing.T) {
	w := newWorld(t)
	at := addressed(w.cable("eth0"), "192.0.2.1/24")
	s := w.serve(at, func(_, _ *dhcpv4.DHCPv4) bool { return true })
	n, _ := w.run(Config{DHCP4: true})
	settle(t, "there is a lease", 20*time.Second, func() bool { return w.has("eth0", "192.0.2.50/24") })
	at.Run("ip", "link", "set", "eth0", "down")
	settle(t, "the lost carrier is seen", 10*time.Second, func() bool { return !n.State().Interfaces[0].Carrier })
	if !w.has("eth0", "192.0.2.50/24") {
		t.Error("the address went with the carrier")
	}
	s.mu.Lock()
	s.answer = func(_, reply *dhcpv4.DHCPv4) bool { reply.YourIPAddr = []byte{192, 0, 2, 70}; return true }
	s.mu.Unlock()
	at.Run("ip", "link", "set", "eth0", "up")
	settle(t, "the other lease replaces it", 20*time.Second, func() bool { return w.has("eth0", "192.0.2.70/24") && !w.has("eth0", "192.0.2.50/24") })
}

// The process that does this is started again: it takes over what it finds, and nothing is away meanwhile.
func TestRestart(t *testing.T) {
	w := newWorld(t)
	at := addressed(w.cable("eth0"), "192.0.2.1/24")
	s := w.serve(at, func(question, reply *dhcpv4.DHCPv4) bool {
		if want := question.RequestedIPAddress(); want != nil {
			reply.YourIPAddr = want
		}
		reply.UpdateOption(dhcpv4.OptRouter([]byte{192, 0, 2, 1}))
		return true
	})
	_, end := w.run(Config{DHCP4: true})
	settle(t, "there is a route", 20*time.Second, func() bool { return strings.Contains(w.routes(), "default via 192.0.2.1") })
	end()
	if !w.has("eth0", "192.0.2.50/24") {
		t.Fatal("the address went with the process")
	}
	s.mu.Lock()
	s.answer = func(_, reply *dhcpv4.DHCPv4) bool { reply.YourIPAddr = []byte{192, 0, 2, 71}; return true }
	s.mu.Unlock()
	w.run(Config{DHCP4: true})
	settle(t, "the new lease replaces the old one, with its route", 20*time.Second, func() bool {
		return w.has("eth0", "192.0.2.71/24") && !w.has("eth0", "192.0.2.50/24") && !strings.Contains(w.routes(), "default")
	})
}

// What the operator has set needs no server, and its name servers are used alone.
func TestStatic(t *testing.T) {
	w := newWorld(t)
	at := addressed(w.cable("eth0"), "192.0.2.1/24", "fd00:9::1/64")
	cfg := Config{DHCP4: true, DHCP6: true, Static: []Static{{
		Addresses: []netip.Prefix{netip.MustParsePrefix("192.0.2.9/24"), netip.MustParsePrefix("fd00:9::9/64")},
		Gateways:  addrs("192.0.2.1", "fd00:9::1"), DNS: addrs("9.9.9.9"),
	}}}
	n, _ := w.run(cfg)
	settle(t, "the routes are there", 20*time.Second, func() bool {
		r := w.routes()
		return strings.Contains(r, "default via 192.0.2.1") && strings.Contains(r, "default via fd00:9::1")
	})
	settle(t, "the operator's server is written", 10*time.Second, func() bool { return w.resolvers() == "nameserver 9.9.9.9\n" })
	// A cable that is pulled takes routes with it; they come back.
	w.node.Run("ip", "link", "set", "eth0", "down")
	settle(t, "the interface is switched on again, with its routes", 20*time.Second, func() bool {
		r := w.routes()
		return n.State().Interfaces[0].Carrier && strings.Contains(r, "default via 192.0.2.1") && strings.Contains(r, "default via fd00:9::1")
	})
	at.ListenTCP("192.0.2.1:80")
	conn, err := w.node.DialTCP("192.0.2.1:80", 5*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
}

// Interfaces that aren't the machine's are left alone.
func TestForeignInterfaces(t *testing.T) {
	w := newWorld(t)
	w.cable("eth0")
	for _, name := range []string{"croft-x", "cr-y", "eth1"} {
		w.cable(name)
	}
	if err := os.RemoveAll(filepath.Join(w.dir, "sys", "eth1")); err != nil {
		t.Fatal(err)
	}
	n, _ := w.run(Config{DHCP4: true})
	settle(t, "the machine's interface is on", 10*time.Second, func() bool {
		s := n.State().Interfaces
		return len(s) == 1 && s[0].Name == "eth0" && s[0].Carrier
	})
	links, err := w.node.Netlink().LinkList()
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range links {
		if l.Attrs().Name != "eth0" && l.Attrs().Name != "lo" && l.Attrs().OperState == netlink.OperUp {
			t.Errorf("%s is on", l.Attrs().Name)
		}
	}
}

func TestValidate(t *testing.T) {
	static := func(s Static) Config { return Config{ResolvConf: "/x", Static: []Static{s}} }
	four := netip.MustParsePrefix("192.0.2.9/24")
	for want, cfg := range map[string]Config{
		"cannot accept interfaces":  {ResolvConf: "/x", Interfaces: []string{"../etc"}},
		"cannot accept resolv-conf": {},
		"cannot accept address":     static(Static{Addresses: []netip.Prefix{netip.MustParsePrefix("224.0.0.1/4")}}),
		"cannot accept gateway":     static(Static{Addresses: []netip.Prefix{four}, Gateways: addrs("fd00::1")}),
		"cannot accept dns":         static(Static{DNS: addrs("0.0.0.0")}),
		"cannot accept mac":         static(Static{MAC: []byte{1}}),
	} {
		if err := cfg.Validate(); err == nil || !strings.HasPrefix(fmt.Sprint(err), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}
