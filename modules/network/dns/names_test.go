package dns_test

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	mdns "github.com/miekg/dns"

	"github.com/croft-edge/croft/modules/network/dns"
)

// said is an answer in few words: its code, and its records' data in order.
func said(m *mdns.Msg) string {
	var out []string
	for _, rr := range m.Answer {
		out = append(out, strings.TrimPrefix(rr.String(), rr.Header().String()))
	}
	slices.Sort(out)
	return strings.TrimSpace(mdns.RcodeToString[m.Rcode] + " " + strings.Join(out, " "))
}

func TestMemberNames(t *testing.T) {
	up := newUpstream(t, withA("192.0.2.7"))
	n := newNamespace(t)
	serving(t, n, dns.Config{Upstreams: []netip.AddrPort{up.addr}})
	const a, aaaa, ptr = mdns.TypeA, mdns.TypeAAAA, mdns.TypePTR
	reverse6 := func(ip string) string {
		name, err := mdns.ReverseAddr(ip)
		if err != nil {
			t.Fatal(err)
		}
		return name
	}
	for _, c := range []struct {
		name  string
		qtype uint16
		want  string
	}{
		{"web", a, "NOERROR 10.1.1.5"},
		{"web", aaaa, "NOERROR fd00:1:2:100::a01:105"},
		{"WeB", a, "NOERROR 10.1.1.5"},
		{"web.net1", a, "NOERROR 10.1.1.5"},
		{"Web.NET1", aaaa, "NOERROR fd00:1:2:100::a01:105"},
		{"web.croft.internal", a, "NOERROR 10.1.1.5"},
		{"WEB.Croft.Internal", a, "NOERROR 10.1.1.5"},
		{"db", a, "NOERROR 10.1.1.6 10.1.1.7"},
		{"db", aaaa, "NOERROR"},
		{"v6", a, "NOERROR"},
		{"v6", aaaa, "NOERROR fd00:1:2:100::a01:108"},
		{"web", mdns.TypeTXT, "NOERROR"},
		{"web.croft.internal", mdns.TypeHTTPS, "NOERROR"},
		{"croft.internal", a, "NOERROR"},
		{"net1", a, "NOERROR"},

		{"nobody", a, "NXDOMAIN"},
		{"com", mdns.TypeNS, "NXDOMAIN"},
		{"nobody.croft.internal", a, "NXDOMAIN"},
		{"x.web.croft.internal", a, "NXDOMAIN"},

		{"5.1.1.10.in-addr.arpa", ptr, "NOERROR web.croft.internal."},
		{"5.1.1.10.IN-ADDR.ARPA", ptr, "NOERROR web.croft.internal."},
		{"5.1.1.10.in-addr.arpa", a, "NOERROR"},
		{reverse6("fd00:1:2:100::a01:105"), ptr, "NOERROR web.croft.internal."},
		{"1.10.in-addr.arpa", mdns.TypeSOA, "NOERROR"},
		{"9.1.1.10.in-addr.arpa", ptr, "NXDOMAIN"},
		{"lb._dns-sd._udp.0.1.1.10.in-addr.arpa", ptr, "NXDOMAIN"},
		{"168.192.in-addr.arpa", mdns.TypeNS, "NXDOMAIN"},
		{"1.0.16.172.in-addr.arpa", ptr, "NXDOMAIN"},
		{"2.1.64.100.in-addr.arpa", ptr, "NXDOMAIN"},
		{"1.0.0.127.in-addr.arpa", ptr, "NXDOMAIN"},
		{"1.1.254.169.in-addr.arpa", ptr, "NXDOMAIN"},
		{reverse6("fd00::9"), ptr, "NXDOMAIN"},
		{reverse6("fe80::1"), ptr, "NXDOMAIN"},
		{reverse6("::1"), ptr, "NXDOMAIN"},
		{"d.f.ip6.arpa", mdns.TypeNS, "NOERROR"},
		{"c.f.ip6.arpa", mdns.TypeNS, "NXDOMAIN"},
	} {
		for _, network := range []string{"udp", "tcp"} {
			m := n.ask(network, c.name, c.qtype)
			if got := said(m); got != c.want {
				t.Errorf("%s %s over %s: %s, want %s", c.name, mdns.TypeToString[c.qtype], network, got, c.want)
			}
			if !m.RecursionAvailable || !m.Authoritative {
				t.Errorf("%s over %s: RA is %v, AA is %v", c.name, network, m.RecursionAvailable, m.Authoritative)
			}
			for _, rr := range slices.Concat(m.Answer, m.Ns) {
				if ttl := rr.Header().Ttl; ttl < 5 || ttl > 30 {
					t.Errorf("%s: a record may be kept for %d s", c.name, ttl)
				}
			}
		}
	}
	if seen := up.asked(); len(seen) != 0 {
		t.Errorf("forwarded were %v", seen)
	}
}

func TestForwardedNames(t *testing.T) {
	up := newUpstream(t, withA("192.0.2.7"))
	n := newNamespace(t)
	serving(t, n, dns.Config{Upstreams: []netip.AddrPort{up.addr}})
	want := []string{}
	for _, name := range []string{"example.com", "x.web", "nobody.net1", "web.net2", "internal.croft", "8.8.8.8.in-addr.arpa", "x.8.in-addr.arpa", "11.in-addr.arpa", "172.in-addr.arpa", "1.1.0.0.2.ip6.arpa", "f.ip6.arpa"} {
		if got := said(n.ask("udp", name, mdns.TypeA)); got != "NOERROR 192.0.2.7" {
			t.Errorf("%s: %s", name, got)
		}
		want = append(want, "udp "+name+".")
	}
	if seen := up.asked(); !slices.Equal(seen, want) {
		t.Errorf("forwarded were %v, want %v", seen, want)
	}
}

// An answer leaves from the address that was asked: a connected socket takes
// no other. From this source the kernel would choose another one itself.
func TestAnswersLeaveFromWhereTheyWereAsked(t *testing.T) {
	n := newNamespace(t)
	serving(t, n, dns.Config{})
	for _, c := range [][2]string{{"127.0.0.1", gateway4}, {gateway4, "127.0.0.1"}, {"127.0.0.1", "127.0.0.9"}, {"::1", gateway6}, {gateway6, "::1"}} {
		for _, network := range []string{"udp", "tcp"} {
			m, err := exchange(n.dial(network, c[0], c[1]), question("web", mdns.TypeA))
			if err != nil || said(m) != "NOERROR 10.1.1.5" {
				t.Errorf("%s from %s to %s: %v, %v", network, c[0], c[1], m, err)
			}
		}
	}
}

// A name that has more addresses than a packet holds is asked for over TCP.
func TestManyAddresses(t *testing.T) {
	n := newNamespace(t)
	s := newServer(t, dns.Config{})
	z := n.zone("one")
	for i := range 200 {
		z.Names["many"] = append(z.Names["many"], netip.AddrFrom4([4]byte{10, 1, 2, byte(i)}))
	}
	set(t, s, z)
	small := n.ask("udp", "many", mdns.TypeA)
	if !small.Truncated || small.Len() > 512 {
		t.Errorf("without EDNS there are %d bytes, truncated %v", small.Len(), small.Truncated)
	}
	q := question("many", mdns.TypeA).SetEdns0(4096, true)
	large := n.send("udp", gateway4, q)
	if opt := large.IsEdns0(); opt == nil || opt.UDPSize() != 1232 || !opt.Do() {
		t.Errorf("the answer's options are %v", opt)
	}
	if !large.Truncated || large.Len() > 1232 || len(large.Answer) <= len(small.Answer) {
		t.Errorf("with EDNS there are %d bytes, truncated %v, %d records after %d", large.Len(), large.Truncated, len(large.Answer), len(small.Answer))
	}
	if whole := n.ask("tcp", "many", mdns.TypeA); whole.Truncated || len(whole.Answer) != 200 {
		t.Errorf("over TCP there are %d, truncated %v", len(whole.Answer), whole.Truncated)
	}
}

// A network's name that is no label names nothing; the others still answer.
func TestANetworkOfAnyScript(t *testing.T) {
	up := newUpstream(t, withA("192.0.2.7"))
	n := newNamespace(t)
	s := newServer(t, dns.Config{Upstreams: []netip.AddrPort{up.addr}})
	for i, name := range []string{"réseau ☃", "a.b", "-x", strings.Repeat("n", 64), ""} {
		z := n.zone("one")
		z.Network = name
		set(t, s, z)
		for _, known := range []string{"web", "web.croft.internal"} {
			if got := said(n.ask("udp", known, mdns.TypeA)); got != "NOERROR 10.1.1.5" {
				t.Errorf("in %q %s: %s", name, known, got)
			}
		}
		if got := said(n.ask("udp", "web.a.b", mdns.TypeA)); got != "NOERROR 192.0.2.7" || len(up.asked()) != i+1 {
			t.Errorf("in %q web.a.b: %s", name, got)
		}
	}
}

func TestDigest(t *testing.T) {
	n := namespace{t: t, path: "x"}
	same, other := n.zone("one"), n.zone("two")
	same.Names["db"] = []netip.Addr{netip.MustParseAddr("::ffff:10.1.1.7"), netip.MustParseAddr("10.1.1.6")}
	if same.Digest() != n.zone("one").Digest() || other.Digest() != same.Digest() {
		t.Error("the same names in another order have another digest")
	}
	for i, change := range []func(z *dns.Zone){
		func(z *dns.Zone) { z.Network = "net2" },
		func(z *dns.Zone) { delete(z.Names, "v6") },
		func(z *dns.Zone) { z.Names["v6"] = nil },
		func(z *dns.Zone) { z.Names["db"] = z.Names["db"][:1] },
	} {
		z := n.zone("one")
		change(&z)
		if z.Digest() == same.Digest() {
			t.Errorf("change %d leaves the digest", i)
		}
	}
}

func ExampleValidName() {
	fmt.Println(dns.ValidName("web-1"))
	fmt.Println(dns.ValidName("Web.1"))
	// Output:
	// <nil>
	// cannot use the name "Web.1": allowed is a DNS label: 1 to 63 of a-z, 0-9 and -, not first or last a -
}
