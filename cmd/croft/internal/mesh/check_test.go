package mesh_test

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/croft-edge/croft/cmd/croft/internal/mesh"
)

// TestCheck: what may not be, where it is said to be, and why.
func TestCheck(t *testing.T) {
	good := func() mesh.Network { return network([]mesh.Node{public(1), public(2), hidden(3)}, access(9, "n1")) }
	if err := good().Check(); err != nil {
		t.Fatal(err)
	}
	many := func(n *mesh.Network) {
		n.Nodes = nil
		for i := range 129 {
			n.Nodes = append(n.Nodes, hidden(i))
		}
	}
	for _, c := range []struct {
		when   string
		change func(*mesh.Network)
		path   string
		says   string
	}{
		{"a public range", func(n *mesh.Network) { n.IPRange = netip.MustParsePrefix("8.8.0.0/16") }, "ip_range", "private IPv4 range of /16"},
		{"a small range", func(n *mesh.Network) { n.IPRange = netip.MustParsePrefix("10.1.0.0/17") }, "ip_range", "private IPv4 range of /16"},
		{"an IPv6 range", func(n *mesh.Network) { n.IPRange = netip.MustParsePrefix("fd00::/16") }, "ip_range", "private IPv4 range of /16"},
		{"129 nodes", many, "nodes", "at most 128"},
		{"a node twice", func(n *mesh.Network) { n.Nodes[1].ID = "n1" }, "nodes[1].node", "as nodes[0].node is"},
		{"a subnet elsewhere", func(n *mesh.Network) { n.Nodes[0].Subnet = netip.MustParsePrefix("10.2.1.0/24") }, "nodes[0].subnet", "part of ip_range 10.1.0.0/16"},
		{"a subnet as wide as the range", func(n *mesh.Network) { n.Nodes[0].Subnet = n.IPRange }, "nodes[0].subnet", "from /17 to /30"},
		{"a subnet of two addresses", func(n *mesh.Network) { n.Nodes[0].Subnet = netip.MustParsePrefix("10.1.1.0/31") }, "nodes[0].subnet", "from /17 to /30"},
		{"an IPv6 subnet", func(n *mesh.Network) { n.Nodes[0].Subnet = netip.MustParsePrefix("fd00::/24") }, "nodes[0].subnet", "part of ip_range"},
		{"subnets that overlap", func(n *mesh.Network) { n.Nodes[1].Subnet = netip.MustParsePrefix("10.1.0.0/20") }, "nodes[1].subnet", "overlaps 10.1.1.0/24 of nodes[0]"},
		{"an access within a node", func(n *mesh.Network) { n.Access[0].Subnet = netip.MustParsePrefix("10.1.1.4/30") }, "access[0].subnet", "overlaps 10.1.1.0/24 of nodes[0]"},
		{"a port of the system", func(n *mesh.Network) { n.Nodes[0].Port = 1023 }, "nodes[0].listen_port", "from 1024"},
		{"no port", func(n *mesh.Network) { n.Nodes[2].Port = 0 }, "nodes[2].listen_port", "from 1024"},
		{"an endpoint without a port", func(n *mesh.Network) { n.Nodes[0].Endpoint = "192.0.2.1" }, "nodes[0].endpoint", "HOST:PORT"},
		{"an endpoint with port 0", func(n *mesh.Network) { n.Nodes[0].Endpoint = "192.0.2.1:0" }, "nodes[0].endpoint", "HOST:PORT"},
		{"an endpoint with a zone", func(n *mesh.Network) { n.Nodes[0].Endpoint = "[fe80::1%eth0]:1" }, "nodes[0].endpoint", "HOST:PORT"},
		{"an endpoint that is nowhere", func(n *mesh.Network) { n.Nodes[0].Endpoint = "0.0.0.0:1" }, "nodes[0].endpoint", "HOST:PORT"},
		{"an endpoint that is no address", func(n *mesh.Network) { n.Nodes[0].Endpoint = "1.2.3.400:1" }, "nodes[0].endpoint", "HOST:PORT"},
		{"an endpoint with a newline", func(n *mesh.Network) { n.Nodes[0].Endpoint = "host\n:1" }, "nodes[0].endpoint", "HOST:PORT"},
		{"the same endpoint", func(n *mesh.Network) { n.Nodes[1].Endpoint = n.Nodes[0].Endpoint }, "nodes[1].endpoint", "as nodes[0].endpoint is"},
		{"an access twice", func(n *mesh.Network) { n.Access = append(n.Access, access(9, "n1")) }, "access[1].name", "as access[0].name is"},
		{"a key that is none", func(n *mesh.Network) { n.Access[0].PublicKey = "key" }, "access[0].public_key", "32 bytes in standard base64"},
		{"a key of zeros", func(n *mesh.Network) { n.Access[0].PublicKey = strings.Repeat("A", 43) + "=" }, "access[0].public_key", "WireGuard public key"},
		{"a weak key", func(n *mesh.Network) { n.Access[0].PublicKey = "AQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=" }, "access[0].public_key", "WireGuard public key"},
		{"the same key", func(n *mesh.Network) {
			n.Access = append(n.Access, access(10, "n1"))
			n.Access[1].PublicKey = n.Access[0].PublicKey
		}, "access[1].public_key", "that of access[0]"},
		{"by way of a stranger", func(n *mesh.Network) { n.Access[0].Via = "n7" }, "access[0].via", "one of the network's nodes"},
		{"by way of a hidden node", func(n *mesh.Network) { n.Access[0].Via = "n3" }, "access[0].via", "has no endpoint"},
	} {
		t.Run(c.when, func(t *testing.T) {
			n := good()
			c.change(&n)
			err := n.Check()
			if err == nil || !strings.HasPrefix(err.Error(), c.path+": ") || !strings.Contains(err.Error(), c.says) {
				t.Errorf("got %v, want %s: … %s", err, c.path, c.says)
			}
		})
	}
}

func TestParseEndpoint(t *testing.T) {
	for text, want := range map[string]string{
		"192.0.2.7": "192.0.2.7:3001", "192.0.2.7:99": "192.0.2.7:99", "2001:db8::7": "[2001:db8::7]:3001", "[2001:db8::7]": "[2001:db8::7]:3001",
		"[2001:db8::7]:99": "[2001:db8::7]:99", "vpn.example.org": "vpn.example.org:3001", "vpn.example.org:99": "vpn.example.org:99",
		"": "", ":99": "", "host:0": "", "host:65536": "", "host:http": "", "host:+5": "", "a b": "", "1.2.3": "", "::": "", "host:1:2": "", "-a.org": "",
	} {
		got, err := mesh.ParseEndpoint(text, 3001)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%q: got %q, %v; want %q", text, got, err, want)
		}
	}
}

func TestPublicAddresses(t *testing.T) {
	for text, want := range map[string]bool{
		"185.69.166.10": true, "2a02:1802:5e::10": true, "::ffff:185.69.166.10": true,
		"10.0.0.1": false, "192.168.1.1": false, "100.64.0.1": false, "127.0.0.1": false, "169.254.1.1": false, "fd00::1": false, "fe80::1": false, "::1": false,
	} {
		if got := mesh.Public(netip.MustParseAddr(text)); got != want {
			t.Errorf("%s is public: %v, want %v", text, got, want)
		}
	}
	if mesh.Public(netip.Addr{}) {
		t.Error("no address is public")
	}
}

func TestDoubtfulEndpoints(t *testing.T) {
	for text, want := range map[string]bool{"10.0.0.1:5": true, "[fd00::1]:5": true, "185.69.166.10:5": false, "vpn.example.org:5": false, "": false} {
		if got := mesh.Doubtful(text); got != want {
			t.Errorf("%q is doubtful: %v, want %v", text, got, want)
		}
	}
}

func TestFreeRange(t *testing.T) {
	var all []netip.Prefix
	for range 257 + 16 {
		p, err := mesh.FreeRange(all)
		if err != nil || mesh.CheckRange(p) != nil {
			t.Fatalf("the range after %d is %s, %v", len(all), p, err)
		}
		for _, other := range all {
			if other.Overlaps(p) {
				t.Fatalf("%s was given twice", p)
			}
		}
		all = append(all, p)
	}
	if all[0].String() != "10.1.0.0/16" {
		t.Errorf("the first is %s", all[0])
	}
	if p, err := mesh.FreeRange(all); err == nil {
		t.Errorf("there is still %s", p)
	}
}

func TestFreeSubnet(t *testing.T) {
	n := network([]mesh.Node{public(1), public(2)}, access(4, "n1"))
	for _, c := range []struct {
		avoid string
		want  string
	}{{"192.168.0.0/24", "10.1.3.0/24"}, {"10.1.3.7/32", "10.1.5.0/24"}, {"10.1.0.0/17", "10.1.128.0/24"}, {"10.0.0.0/8", ""}} {
		got, err := n.FreeSubnet([]netip.Prefix{netip.MustParsePrefix(c.avoid)})
		if (err == nil) != (c.want != "") || err == nil && got.String() != c.want {
			t.Errorf("beside %s: got %s, %v; want %s", c.avoid, got, err, c.want)
		}
	}
}

func TestFreePort(t *testing.T) {
	taken := map[uint16]bool{}
	for port := uint16(10000); port <= 32767; port++ {
		taken[port] = true
	}
	delete(taken, 20000)
	for _, start := range []int{0, 9999, 10000, 10001, 22767} {
		if p, err := mesh.FreePort(taken, func(int) int { return start }); err != nil || p != 20000 {
			t.Errorf("from %d: got %d, %v; want the only free one", start, p, err)
		}
	}
	taken[20000] = true
	if p, err := mesh.FreePort(taken, func(int) int { return 0 }); err == nil {
		t.Errorf("there is still %d", p)
	}
	if p, err := mesh.FreePort(nil, func(n int) int { return n - 1 }); err != nil || p != 32767 {
		t.Errorf("the last is %d, %v", p, err)
	}
}
