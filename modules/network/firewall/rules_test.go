package firewall

import (
	"testing"
)

// Addresses of the test's world.
const (
	outIP, outIP6   = "198.51.100.2", "2001:db8:ff::2"
	nodeIP, nodeIP6 = "198.51.100.1", "2001:db8:ff::1"
)

// both are lines for either family.
func both(from, to4, to6, network string, port int, why string) []flow {
	return []flow{
		{from: from, to: to4, network: network, port: port, why: why},
		{from: from, to: to6, network: network, port: port, why: why},
	}
}

func lines(groups ...[]flow) []flow {
	var out []flow
	for _, g := range groups {
		out = append(out, g...)
	}
	return out
}

func TestReachability(t *testing.T) {
	w := newWorld(t)
	w.serveAll()
	allowed := lines(
		both("a1", "10.1.1.3", "fd11::3", "udp", udpPort, "members of one network meet"),
		both("a1", "10.1.1.3", "fd11::3", "ping", 0, "members of one network meet"),
		both("a1", "10.1.1.1", "fd11::1", "udp", 53, "the gateway answers DNS"),
		both("a1", "10.1.1.1", "fd11::1", "tcp", 53, "the gateway answers DNS"),
		both("a1", "10.1.1.1", "fd11::1", "ping", 0, "the gateway answers pings"),
		both("a1", outIP, outIP6, "udp", udpPort, "members reach the outside"),
		both("a1", outIP, outIP6, "tcp", udpPort, "members reach the outside"),
		both("a1", outIP, outIP6, "ping", 0, "members reach the outside"),
		both("b1", outIP, outIP6, "udp", udpPort, "members reach the outside"),
		both("a1", "10.1.9.2", "fd19::2", "tcp", udpPort, "members reach their peers"),
		both("peer", "10.1.1.2", "fd11::2", "tcp", udpPort, "peers reach the members"),
		both("peer", "10.1.1.1", "fd11::1", "ping", 0, "the gateway answers peers' pings"),
		both("peer", "10.1.8.2", "fd18::2", "udp", udpPort, "a hub relays from peer to peer"),
		both("a1", "10.98.0.8", "fd98::8", "udp", udpPort, "the operator allowed this range"),
		both("a1", "10.98.0.8", "fd98::8", "ping", 0, "the operator allowed this range"),
		both("a1", "10.97.0.7", "fd97::7", "udp", udpPort, "the operator allowed this port"),
		both("a1", "10.97.0.7", "fd97::7", "tcp", udpPort, "the operator allowed this port"),
		both("a1", nodeIP, nodeIP6, "tcp", openPort, "a port of the node is open"),
		[]flow{
			{from: "pubA", to: nodeIP6, network: "tcp", port: openPort, why: "a port of the node is open"},
			{from: "pubA", to: outIP6, network: "udp", port: udpPort, why: "a public member reaches the outside"},
			{from: "out", to: "2001:db8:aa::a", network: "tcp", port: udpPort, why: "the outside reaches a public member"},
			{from: "node", to: "2001:db8:aa::a", network: "tcp", port: udpPort, why: "the node gets its answer from a public member"},
			{from: "pubA", to: "fd98::8", network: "udp", port: udpPort, why: "the operator allowed this range"},
		},
		both("node", outIP, outIP6, "udp", udpPort, "the node's own traffic is nobody's business"),
		both("out", nodeIP, nodeIP6, "udp", udpPort, "the node's own traffic is nobody's business"),
		both("other", outIP, outIP6, "udp", udpPort, "another node's traffic is its own business"),
	)
	forbidden := lines(
		both("a1", "10.1.2.2", "fd12::2", "udp", udpPort, "tenants don't meet"),
		both("a1", "10.1.2.2", "fd12::2", "ping", 0, "tenants don't meet"),
		both("a1", "10.1.2.1", "fd12::1", "udp", 53, "no tenant uses another's gateway"),
		both("a1", "169.254.64.3", "fdc7::3", "udp", 53, "no tenant uses another's gateway"),
		both("a1", nodeIP, nodeIP6, "udp", udpPort, "no service of the node is reached"),
		both("a1", nodeIP, nodeIP6, "tcp", udpPort, "no service of the node is reached"),
		both("a1", nodeIP, nodeIP6, "ping", 0, "no service of the node is reached"),
		both("a1", nodeIP, nodeIP6, "udp", openPort, "a port is open for TCP alone"),
		both("a1", nodeIP, nodeIP6, "tcp", otherPort, "the port below is not open"),
		both("a1", "169.254.64.0", "fdc7::", "tcp", openPort, "a port is open at no uplink"),
		both("a1", "169.254.64.2", "fdc7::2", "tcp", openPort, "a port is open at no uplink"),
		both("a1", "10.1.1.1", "fd11::1", "tcp", openPort, "a port is open at no gateway"),
		both("a1", "10.1.2.1", "fd12::1", "tcp", openPort, "a port is open at no gateway"),
		both("a1", "169.254.64.0", "fdc7::", "udp", 53, "no service of the node is reached by its uplink"),
		both("a1", "169.254.64.2", "fdc7::2", "udp", 53, "no service of the node is reached by another uplink"),
		both("a1", "10.1.1.1", "fd11::1", "udp", udpPort, "the gateway answers nothing but DNS and pings"),
		both("a1", "10.1.1.1", "fd11::1", "tcp", udpPort, "the gateway answers nothing but DNS and pings"),
		both("a1", "10.99.0.9", "fd99::9", "udp", udpPort, "what isn't public is refused"),
		both("a1", "10.99.0.9", "fd99::9", "ping", 0, "what isn't public is refused"),
		both("a1", "10.98.66.6", "fd98:66::6", "udp", udpPort, "an exception opens nothing narrower"),
		both("a1", "10.97.0.7", "fd97::7", "udp", otherPort, "the operator allowed another port"),
		both("a1", "10.97.0.7", "fd97::7", "ping", 0, "the operator allowed a port"),
		both("a1", "10.70.0.2", "fd70::2", "udp", udpPort, "tenants of two nodes don't meet on the machine"),
		both("other", "10.1.1.2", "fd11::2", "udp", udpPort, "tenants of two nodes don't meet on the machine"),
		both("other", "169.254.64.1", "fdc7::1", "udp", 53, "tenants of two nodes don't meet on the machine"),
		both("out", "10.1.1.2", "fd11::2", "udp", udpPort, "nobody outside reaches a network"),
		both("out", "169.254.64.1", "fdc7::1", "udp", 53, "nobody outside reaches a network"),
		both("node", "10.1.1.2", "fd11::2", "udp", udpPort, "not even the node reaches a member"),
		both("node", "169.254.64.1", "fdc7::1", "udp", 53, "not even the node reaches a gateway"),
		both("peer", outIP, outIP6, "udp", udpPort, "peers don't leave by this node"),
		both("peer", "10.1.2.2", "fd12::2", "udp", udpPort, "peers don't get to another network by this node"),
		both("peer", "10.1.1.1", "fd11::1", "udp", 53, "peers use their own DNS"),
		[]flow{
			{from: "a1", to: "2001:db8:aa::b", network: "udp", port: udpPort, why: "tenants don't meet by the public side"},
			{from: "pubA", to: "2001:db8:aa::b", network: "udp", port: udpPort, why: "public members don't meet on the node"},
			{from: "pubA", to: "fd12::2", network: "udp", port: udpPort, why: "a public member doesn't get into a network"},
			{from: "pubA", to: "fdc7::3", network: "udp", port: 53, why: "a public member doesn't get into a network"},
			{from: "pubA", to: "fd70::2", network: "udp", port: udpPort, why: "nor into one of another node"},
			{from: "other", to: "2001:db8:aa::a", network: "udp", port: udpPort, why: "nor they to it"},
			{from: "pubA", to: nodeIP6, network: "tcp", port: udpPort, why: "no service of the node is reached"},
			{from: "pubA", to: nodeIP6, network: "ping", why: "no service of the node is reached"},
			{from: "pubA", to: "fd99::9", network: "udp", port: udpPort, why: "what isn't public is refused"},
			{from: "pubA", to: outIP, network: "udp", port: udpPort, why: "a public interface has no IPv4"},
			{from: "pubA", to: "10.60.0.1", network: "udp", port: udpPort, why: "a public interface has no IPv4"},
		},
	)
	w.hold(t, allowed, forbidden, w.applyAll)
}

// Either set of rules holds a line by itself that the other one holds too.
func TestTheNodesRulesAlone(t *testing.T) {
	w := newWorld(t)
	w.serveAll()
	allowed := lines(
		[]flow{{from: "A", source: "169.254.64.1", to: outIP, network: "udp", port: udpPort, why: "a network reaches the outside"}},
		[]flow{{from: "A", source: "fdc7::1", to: outIP6, network: "udp", port: udpPort, why: "a network reaches the outside"}},
		both("node", "169.254.64.1", "fdc7::1", "udp", udpPort, "the node gets its answer from a network"),
	)
	forbidden := lines(
		both("out", "10.1.1.2", "fd11::2", "udp", udpPort, "nobody outside reaches a network"),
		both("out", "169.254.64.1", "fdc7::1", "udp", udpPort, "nobody outside reaches a network"),
		both("other", "169.254.64.1", "fdc7::1", "udp", udpPort, "tenants of two nodes don't meet on the machine"),
		both("B", "169.254.64.1", "fdc7::1", "udp", udpPort, "networks don't meet"),
	)
	w.hold(t, allowed, forbidden, func() { w.apply("node", nodeRules().tables()) })
}

func TestANetworksRulesAlone(t *testing.T) {
	w := newWorld(t)
	w.serveAll()
	allowed := lines(
		both("a1", outIP, outIP6, "udp", udpPort, "members reach the outside"),
		both("a1", "10.99.0.9", "fd99::9", "udp", udpPort, "what isn't public is refused by the node"),
	)
	forbidden := lines(
		both("out", "10.1.1.2", "fd11::2", "udp", udpPort, "nobody reaches a member"),
		both("out", "169.254.64.1", "fdc7::1", "udp", 53, "nobody reaches a gateway"),
		both("out", "10.1.9.2", "fd19::2", "udp", udpPort, "nobody reaches a peer"),
		both("b1", "10.1.1.2", "fd11::2", "udp", udpPort, "nobody reaches a member"),
		both("peer", outIP, outIP6, "udp", udpPort, "peers don't leave by this node"),
		both("peer", "10.1.1.1", "fd11::1", "udp", 53, "peers use their own DNS"),
	)
	w.hold(t, allowed, forbidden, func() { w.apply("A", w.rulesA().tables()) })
}

// The node's own look at who speaks to it: the networks' rules aren't there.
func TestNodeLinkSpoofing(t *testing.T) {
	w := newWorld(t)
	w.ns["pubA"].Addr("eth0", "2001:db8:aa::cc/128")
	w.ns["node"].RouteVia("2001:db8:aa::cc/128", publicB, "")
	w.ns["pubB"].Addr("eth0", "2001:db8:aa::cc/128")
	w.serveAll()
	allowed := []flow{
		{from: "A", source: "169.254.64.1", to: outIP, network: "udp", port: udpPort, why: "an uplink's address"},
		{from: "A", source: "fdc7::1", to: outIP6, network: "udp", port: udpPort, why: "an uplink's address"},
		{from: "pubA", source: "2001:db8:aa::a", to: outIP6, network: "udp", port: udpPort, why: "the way back is the same"},
	}
	forbidden := []flow{
		{from: "A", source: "10.1.1.1", to: outIP, network: "udp", port: udpPort, why: "not an uplink's address"},
		{from: "A", source: "fd11::1", to: outIP6, network: "udp", port: udpPort, why: "not an uplink's address"},
	}
	w.hold(t, allowed, forbidden, func() { w.apply("node", nodeRules().tables()) })

	// Its answer would go to pubB, so that the probe just has to arrive.
	stolen := flow{from: "pubA", source: "2001:db8:aa::cc", to: outIP6, network: "udp", port: udpPort, why: "pubB's address"}
	if w.arrives(stolen, quiet) {
		t.Errorf("must not pass: %s", stolen)
	}
	if err := RemoveNode(w.ns["node"].Path(), table1); err != nil {
		t.Fatal(err)
	}
	if !w.arrives(stolen, patience) {
		t.Errorf("the world is broken: without rules it doesn't pass: %s", stolen)
	}
}

func TestSourceAddresses(t *testing.T) {
	w := newWorld(t)
	w.serveAll()
	w.applyAll()
	for _, c := range []struct{ why, from, to, seen string }{
		{"egress is the node's address", "a1", outIP, nodeIP},
		{"egress is the node's address", "a1", outIP6, nodeIP6},
		{"a neighbour sees the member", "a1", "10.1.1.3", "10.1.1.2"},
		{"a neighbour sees the member", "a1", "fd11::3", "fd11::2"},
		{"a peer sees the member", "a1", "10.1.9.2", "10.1.1.2"},
		{"a peer sees the member", "a1", "fd19::2", "fd11::2"},
		{"a public member is itself outside", "pubA", outIP6, "2001:db8:aa::a"},
		{"a public member sees who comes", "out", "2001:db8:aa::a", outIP6},
	} {
		if _, seen := w.answered(flow{from: c.from, to: c.to, network: "udp", port: udpPort}, patience); seen != c.seen {
			t.Errorf("%s: %s to %s: seen is %q, want %q", c.why, c.from, c.to, seen, c.seen)
		}
	}
}

// Two users may have the same range: each is in a namespace of its own.
func TestUsersRangesMayOverlap(t *testing.T) {
	w := newWorld(t)
	w.ns["B"].Addr("br0", "10.1.1.1/24")
	w.ns["b1"].Addr("eth0", "10.1.1.2/24")
	w.ns["node"].Run("ip", "route", "del", "10.1.1.0/24")
	w.serveAll()
	w.applyAll()
	rules := w.rulesB()
	rules.Ports[0].IPs = append(rules.Ports[0].IPs, w.rulesA().Ports[0].IPs[0])
	w.apply("B", rules.tables())
	for _, from := range []string{"a1", "b1"} {
		f := flow{from: from, source: "10.1.1.2", to: outIP, network: "udp", port: udpPort, why: "the same address, twice"}
		if _, seen := w.answered(f, patience); seen != nodeIP {
			t.Errorf("seen is %q: %s", seen, f)
		}
	}
}
