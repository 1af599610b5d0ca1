package firewall

import (
	"net/netip"
	"os"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/croft-edge/croft/internal/testing/netlab"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The names and addresses of the test's world. Routes lead everywhere, so that
// nothing but the rules is in anybody's way.
//
//	out ── node ─┬─ A ─┬─ a1, a2 (bridge)     pubA, pubB: members' public
//	             │     └─ peer, peer2 (wg0)    interfaces, straight at the node
//	             ├─ B ─── b1 (bridge)          other: a tenant network of another
//	             └─ other                      croft node on the same machine
const (
	table1             = "croft-12ab"
	uplinkA, uplinkB   = "cr12abu0000000a", "cr12abu0000000b"
	publicA, publicB   = "cr12abp0000000a", "cr12abp0000000b"
	uplinkOther        = "cr99ffu00000001"
	macA1, macA2       = "02:00:00:00:01:0a", "02:00:00:00:01:0b"
	macBridge          = "02:00:00:00:01:01"
	udpPort, otherPort = 4000, 4001
	// openPort is one of the node's that tenants reach.
	openPort = 4002
)

type world struct {
	t   testing.TB
	lab *netlab.Lab
	ns  map[string]*netlab.Namespace
	// heard are the probes that came to where they were sent to.
	heard *heard
}

func prefix(text string) netip.Prefix { return netip.MustParsePrefix(text) }

// nodeRules are the rules of the test's node.
func nodeRules() Node {
	return Node{
		Table: table1, Uplink: "cr12abu", Public: "cr12abp",
		Uplinks4: prefix("169.254.64.0/18"), Uplinks6: prefix("fdc7::/112"),
		Refuse: []netip.Prefix{
			prefix("10.0.0.0/8"), prefix("169.254.0.0/16"), prefix("fc00::/7"), prefix("10.98.66.0/24"), prefix("fd98:66::/32"),
		},
		Allow: []Allowed{
			{Prefix: prefix("10.98.0.0/16")}, {Prefix: prefix("fd98::/16")},
			{Prefix: prefix("10.97.0.0/16"), Port: udpPort}, {Prefix: prefix("fd97::/16"), Port: udpPort},
		},
		Open: Ports{First: openPort, Last: openPort + 1},
	}
}

// rulesA are the rules of network A, with these ports beside those of its members.
func (w *world) rulesA(more ...Port) Network {
	return Network{Bridge: "br0", Uplink: "up0", Tunnel: "wg0", Ports: append([]Port{
		{Name: "m1", MAC: w.ns["a1"].MAC("eth0"), IPs: []netip.Addr{netip.MustParseAddr("10.1.1.2"), netip.MustParseAddr("fd11::2")}},
		{Name: "m2", MAC: w.ns["a2"].MAC("eth0"), IPs: []netip.Addr{netip.MustParseAddr("10.1.1.3"), netip.MustParseAddr("fd11::3")}},
	}, more...)}
}

func (w *world) rulesB() Network {
	return Network{Bridge: "br0", Uplink: "up0", Tunnel: "wg0", Ports: []Port{
		{Name: "m1", MAC: w.ns["b1"].MAC("eth0"), IPs: []netip.Addr{netip.MustParseAddr("10.1.2.2"), netip.MustParseAddr("fd12::2")}},
	}}
}

// applyAll applies the rules of the whole world.
func (w *world) applyAll() {
	w.t.Helper()
	w.apply("node", nodeRules().tables())
	w.apply("A", w.rulesA().tables())
	w.apply("B", w.rulesB().tables())
}

func (w *world) apply(ns string, tables []table) Fingerprint {
	w.t.Helper()
	f, err := apply(w.ns[ns].Path(), tables)
	if err != nil {
		w.t.Fatal(err)
	}
	return f
}

func newWorld(t testing.TB) *world {
	t.Helper()
	w := &world{t: t, lab: netlab.New(t), ns: map[string]*netlab.Namespace{}, heard: &heard{}}
	for _, name := range []string{"out", "node", "A", "B", "a1", "a2", "b1", "peer", "peer2", "pubA", "pubB", "other"} {
		n := w.lab.Namespace(name)
		w.ns[name] = n
		n.Sysctl("ipv6.conf.default.accept_dad", "0")
		n.Sysctl("ipv4.conf.default.rp_filter", "0")
		n.Sysctl("ipv4.conf.all.rp_filter", "0")
	}
	w.outside()
	w.tenant("A", uplinkA, "169.254.64.", "fdc7::", 0)
	w.tenant("B", uplinkB, "169.254.64.", "fdc7::", 2)
	w.member("a1", "A", "m1", macA1, "10.1.1.2/24", "fd11::2/64")
	w.member("a2", "A", "m2", macA2, "10.1.1.3/24", "fd11::3/64")
	w.member("b1", "B", "m1", "02:00:00:00:02:0a", "10.1.2.2/24", "fd12::2/64")
	w.tunnel()
	w.public("pubA", publicA, "2001:db8:aa::a", "10.60.0.")
	w.public("pubB", publicB, "2001:db8:aa::b", "10.61.0.")
	w.otherNode()
	return w
}

// outside is the network that the node reaches: public addresses, and a private LAN.
func (w *world) outside() {
	out, n := w.ns["out"], w.ns["node"]
	n.Forward()
	w.lab.Veth(out, "eth0", n, "eth0")
	n.Addr("eth0", "198.51.100.1/24")
	n.Addr("eth0", "2001:db8:ff::1/64")
	out.Addr("eth0", "198.51.100.2/24")
	out.Addr("eth0", "2001:db8:ff::2/64")
	out.Route("0.0.0.0/0", "198.51.100.1")
	out.Route("::/0", "2001:db8:ff::1")
	for _, lan := range []string{"10.99.0.9/32", "10.98.0.8/32", "10.98.66.6/32", "10.97.0.7/32"} {
		out.Addr("eth0", lan)
		n.Route(lan, "198.51.100.2")
	}
	for _, lan := range []string{"fd99::9/128", "fd98::8/128", "fd98:66::6/128", "fd97::7/128"} {
		out.Addr("eth0", lan)
		n.Route(lan, "2001:db8:ff::2")
	}
}

// tenant is a network's namespace with its uplink: the node's end has the
// address that ends in last, its own end the one behind it.
func (w *world) tenant(name, uplink, start4, start6 string, last int) {
	n, at := w.ns[name], w.ns["node"]
	n.Forward()
	digit := func(d int) string { return string(rune('0' + d)) }
	w.lab.Veth(at, uplink, n, "up0")
	at.Addr(uplink, start4+digit(last)+"/31")
	at.Addr(uplink, start6+digit(last)+"/127")
	n.Addr("up0", start4+digit(last+1)+"/31")
	n.Addr("up0", start6+digit(last+1)+"/127")
	n.Route("0.0.0.0/0", start4+digit(last))
	n.Route("::/0", start6+digit(last))
	subnet := map[string]string{"A": "1", "B": "2"}[name]
	n.Bridge("br0")
	n.SetMAC("br0", "02:00:00:00:0"+subnet+":01")
	n.Addr("br0", "10.1."+subnet+".1/24")
	n.Addr("br0", "fd1"+subnet+"::1/64")
	at.Route("10.1."+subnet+".0/24", start4+digit(last+1))
	at.Route("fd1"+subnet+"::/64", start6+digit(last+1))
}

func (w *world) member(name, network, port, mac, ip4, ip6 string) {
	m, n := w.ns[name], w.ns[network]
	w.lab.Veth(n, port, m, "eth0")
	m.SetMAC("eth0", mac)
	n.Attach(port, "br0")
	m.Addr("eth0", ip4)
	m.Addr("eth0", ip6)
	m.Route("0.0.0.0/0", prefix(ip4).Masked().Addr().Next().String())
	m.Route("::/0", prefix(ip6).Masked().Addr().Next().String())
}

// tunnel is A's wg0 and two peers behind it, that meet in A only.
func (w *world) tunnel() {
	n := w.ns["A"]
	hub, ends := n.Tun("wg0"), map[byte]*os.File{}
	for name, subnet := range map[string]byte{"peer": 9, "peer2": 8} {
		p, digit := w.ns[name], string('0'+rune(subnet))
		ends[subnet] = p.Tun("wg0")
		n.RouteVia("10.1."+digit+".0/24", "wg0", "")
		n.RouteVia("fd1"+digit+"::/64", "wg0", "")
		p.Addr("wg0", "10.1."+digit+".2/24")
		p.Addr("wg0", "fd1"+digit+"::2/64")
		p.RouteVia("0.0.0.0/0", "wg0", "")
		p.RouteVia("::/0", "wg0", "")
		w.ns["node"].Route("10.1."+digit+".0/24", "169.254.64.1")
		w.ns["node"].Route("fd1"+digit+"::/64", "fdc7::1")
	}
	var done sync.WaitGroup
	carry := func(from *os.File, to func(packet []byte) *os.File) {
		buf := make([]byte, 65536)
		for {
			size, err := from.Read(buf)
			if err != nil {
				return
			}
			if end := to(buf[:size]); end != nil {
				_, _ = end.Write(buf[:size])
			}
		}
	}
	done.Go(func() {
		carry(hub, func(packet []byte) *os.File {
			if packet[0]>>4 == 4 {
				return ends[packet[18]]
			}
			return ends[packet[25]&0x0f]
		})
	})
	for _, end := range ends {
		done.Go(func() { carry(end, func([]byte) *os.File { return hub }) })
	}
	w.t.Cleanup(func() {
		hub.Close()
		for _, end := range ends {
			end.Close()
		}
		done.Wait()
	})
}

// public is a member's public interface. It has an IPv4 address too, which it
// has no right to.
func (w *world) public(name, iface, ip6, start4 string) {
	m, n := w.ns[name], w.ns["node"]
	w.lab.Veth(n, iface, m, "eth0")
	n.Addr(iface, "fe80::1/64")
	n.RouteVia(ip6+"/128", iface, "")
	n.Addr(iface, start4+"1/24")
	m.Addr("eth0", start4+"2/24")
	m.Addr("eth0", ip6+"/128")
	m.RouteVia("::/0", "eth0", "fe80::1")
	m.Route("0.0.0.0/0", start4+"1")
}

func (w *world) otherNode() {
	m, n := w.ns["other"], w.ns["node"]
	w.lab.Veth(n, uplinkOther, m, "up0")
	n.Addr(uplinkOther, "10.70.0.1/24")
	n.Addr(uplinkOther, "fd70::1/64")
	m.Addr("up0", "10.70.0.2/24")
	m.Addr("up0", "fd70::2/64")
	m.Route("0.0.0.0/0", "10.70.0.1")
	m.Route("::/0", "fd70::1")
}
