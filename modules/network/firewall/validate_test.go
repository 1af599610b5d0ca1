package firewall

import (
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/croft-edge/croft/internal/testing/frame"
	"github.com/croft-edge/croft/pkg/node"
)

func TestInvalidNodeRules(t *testing.T) {
	if err := nodeRules().Validate(); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		spoil func(*Node)
		says  string
	}{
		"no table":                {func(n *Node) { n.Table = "" }, `table is ""`},
		"a table with a space":    {func(n *Node) { n.Table = "croft x" }, `table is "croft x"`},
		"no uplink":               {func(n *Node) { n.Uplink = "" }, `uplink is ""`},
		"a stranger's uplink":     {func(n *Node) { n.Uplink = "eth" }, `uplink is "eth"`},
		"an uplink too long":      {func(n *Node) { n.Uplink = "cr0123456789abc" }, `uplink is "cr0123456789abc"`},
		"no public":               {func(n *Node) { n.Public = "" }, `public is ""`},
		"one within the other":    {func(n *Node) { n.Public = n.Uplink + "1" }, "may not be both"},
		"no uplinks4":             {func(n *Node) { n.Uplinks4 = netip.Prefix{} }, "uplinks4 is invalid"},
		"IPv6 uplinks4":           {func(n *Node) { n.Uplinks4 = n.Uplinks6 }, "uplinks4 is fdc7::/112"},
		"IPv4 uplinks6":           {func(n *Node) { n.Uplinks6 = n.Uplinks4 }, "uplinks6 is 169.254.64.0/18"},
		"open backwards":          {func(n *Node) { n.Open = Ports{First: 2, Last: 1} }, "open is 2-1"},
		"open from 0":             {func(n *Node) { n.Open = Ports{Last: 1} }, "open is 0-1"},
		"nothing refused":         {func(n *Node) { n.Refuse = append(n.Refuse, netip.Prefix{}) }, "range invalid"},
		"IPv4 in IPv6 is refused": {func(n *Node) { n.Refuse = append(n.Refuse, prefix("::ffff:10.0.0.0/104")) }, "range ::ffff:10.0.0.0/104"},
		"IPv4 in IPv6 is allowed": {func(n *Node) { n.Allow = append(n.Allow, Allowed{Prefix: prefix("::ffff:10.0.0.0/104")}) }, "range ::ffff:10.0.0.0/104"},
	} {
		n := nodeRules()
		c.spoil(&n)
		_, err := ApplyNode("/nowhere", n)
		invalidBy(t, name, err, c.says)
	}
}

func invalidBy(t *testing.T, name string, err error, says string) {
	t.Helper()
	if node.KindOf(err) != node.Invalid || !strings.HasPrefix(err.Error(), "cannot ") || !strings.Contains(err.Error(), says) {
		t.Errorf("%s: %v (%s), must be Invalid and say %q", name, err, node.KindOf(err), says)
	}
}

func TestInvalidNetworkRules(t *testing.T) {
	good := func() Network {
		return Network{Bridge: "br0", Uplink: "up0", Tunnel: "wg0", Ports: append([]Port{}, manyPorts(2)...)}
	}
	if err := good().Validate(); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		spoil func(*Network)
		says  string
	}{
		"no bridge":            {func(n *Network) { n.Bridge = "" }, `bridge is ""`},
		"a long uplink":        {func(n *Network) { n.Uplink = "0123456789abcdef" }, `uplink is "0123456789abcdef"`},
		"one for two":          {func(n *Network) { n.Tunnel = "up0" }, "interface up0 of the tunnel is taken by the uplink"},
		"a port without name":  {func(n *Network) { n.Ports[0].Name = "" }, `port is ""`},
		"a name that isn't":    {func(n *Network) { n.Ports[0].Name = "m/1" }, `port is "m/1"`},
		"a port twice":         {func(n *Network) { n.Ports[1].Name = "mm0" }, "interface mm0 of port mm0 is taken by port mm0"},
		"the uplink as a port": {func(n *Network) { n.Ports[1].Name = "up0" }, "interface up0 of port up0 is taken by the uplink"},
		"no MAC":               {func(n *Network) { n.Ports[0].MAC = nil }, `MAC of port mm0 is ""`},
		"a MAC of zeros":       {func(n *Network) { n.Ports[0].MAC = make(net.HardwareAddr, 6) }, "MAC of port mm0 is"},
		"a long MAC":           {func(n *Network) { n.Ports[0].MAC = make(net.HardwareAddr, 8) }, "MAC of port mm0 is"},
		"everybody's MAC":      {func(n *Network) { n.Ports[0].MAC = frame.MAC(frame.Everybody) }, "MAC of port mm0 is"},
		"a MAC twice":          {func(n *Network) { n.Ports[1].MAC = n.Ports[0].MAC }, "MAC 02:00:00:01:00:00 of port mm1 is taken by port mm0"},
		"no IP":                {func(n *Network) { n.Ports[0].IPs = []netip.Addr{{}} }, "IP of port mm0 is invalid"},
		"IPv4 in IPv6":         {func(n *Network) { n.Ports[0].IPs[0] = netip.MustParseAddr("::ffff:10.0.0.1") }, "IP of port mm0 is ::ffff:10.0.0.1"},
		"an IP with a zone":    {func(n *Network) { n.Ports[0].IPs[0] = netip.MustParseAddr("fe80::1%eth0") }, "IP of port mm0 is fe80::1%eth0"},
		"everybody's IP":       {func(n *Network) { n.Ports[0].IPs[0] = netip.MustParseAddr("224.0.0.1") }, "IP of port mm0 is 224.0.0.1"},
		"nobody's IP":          {func(n *Network) { n.Ports[0].IPs[0] = netip.IPv6Unspecified() }, "IP of port mm0 is ::"},
		"an IP twice":          {func(n *Network) { n.Ports[1].IPs = n.Ports[0].IPs }, "IP 10.1.100.0 of port mm1 is taken by port mm0"},
	} {
		n := good()
		c.spoil(&n)
		_, err := ApplyNetwork("/nowhere", n)
		invalidBy(t, name, err, c.says)
	}
}

func TestDigests(t *testing.T) {
	n, p := nodeRules(), Network{Bridge: "br0", Uplink: "up0", Tunnel: "wg0", Ports: manyPorts(3)}
	same, turned := nodeRules(), Network{Bridge: "br0", Uplink: "up0", Tunnel: "wg0", Ports: manyPorts(3)}
	turned.Ports[0], turned.Ports[2] = turned.Ports[2], turned.Ports[0]
	if n.Digest() != same.Digest() || p.Digest() != turned.Digest() {
		t.Error("the same rules have different digests")
	}
	seen := map[string]string{n.Digest(): "node", p.Digest(): "network"}
	take := func(name, digest string) {
		if other, there := seen[digest]; there {
			t.Errorf("%s has the digest of %s", name, other)
		}
		seen[digest] = name
	}
	less := nodeRules()
	less.Refuse = less.Refuse[1:]
	take("with less refused", less.Digest())
	less = nodeRules()
	less.Allow = less.Allow[1:]
	take("with less allowed", less.Digest())
	less.Uplink = "cr12abx"
	take("with another uplink", less.Digest())
	turned.Ports[0].IPs = turned.Ports[0].IPs[:1]
	take("with less IPs", turned.Digest())
	turned.Tunnel = "wg1"
	take("with another tunnel", turned.Digest())
}
