package mesh_test

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/croft-edge/croft/cmd/croft/internal/mesh"
)

// public and hidden are the i-th node of a network.
func public(i int) mesh.Node {
	n := hidden(i)
	n.Endpoint = fmt.Sprintf("192.0.2.%d:%d", i, n.Port)
	return n
}

func hidden(i int) mesh.Node {
	return mesh.Node{ID: fmt.Sprintf("n%d", i), Subnet: netip.MustParsePrefix(fmt.Sprintf("10.1.%d.0/24", i)), Port: uint16(3000 + i)}
}

func access(i int, via string) mesh.Access {
	return mesh.Access{Name: fmt.Sprintf("a%d", i), Subnet: netip.MustParsePrefix(fmt.Sprintf("10.1.%d.0/24", i)), Via: via, PublicKey: key(i)}
}

func key(i int) string {
	return base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{byte(i)}, 32))
}

func network(nodes []mesh.Node, accesses ...mesh.Access) mesh.Network {
	return mesh.Network{Name: "net1", IPRange: netip.MustParsePrefix("10.1.0.0/16"), Nodes: nodes, Access: accesses}
}

// TestPeers reads: in this network, each node has these peers, who let this
// through, and are called there.
func TestPeers(t *testing.T) {
	for _, c := range []struct {
		when string
		in   mesh.Network
		want []string
	}{
		{"one node", network([]mesh.Node{hidden(1)}), []string{"n1:"}},
		{"two public nodes", network([]mesh.Node{public(1), public(2)}), []string{
			"n1: n2[10.1.2.0/24 100.64.1.2/32]@192.0.2.2:3002", "n2: n1[10.1.1.0/24 100.64.1.1/32]@192.0.2.1:3001"}},
		{"a hidden node calls the public one", network([]mesh.Node{public(1), hidden(2)}), []string{
			"n1: n2[10.1.2.0/24 100.64.1.2/32]", "n2: n1[10.1.1.0/24 100.64.1.1/32]@192.0.2.1:3001"}},
		{"two hidden nodes meet at the public one", network([]mesh.Node{hidden(1), public(2), hidden(3)}), []string{
			"n1: n2[10.1.2.0/24 100.64.1.2/32 10.1.3.0/24 100.64.1.3/32]@192.0.2.2:3002",
			"n2: n1[10.1.1.0/24 100.64.1.1/32] n3[10.1.3.0/24 100.64.1.3/32]",
			"n3: n2[10.1.2.0/24 100.64.1.2/32 10.1.1.0/24 100.64.1.1/32]@192.0.2.2:3002"}},
		{"two hidden nodes alone", network([]mesh.Node{hidden(1), hidden(2)}), []string{"n1:", "n2:"}},
		{"a laptop comes in at the second node", network([]mesh.Node{public(1), public(2), hidden(3)}, access(9, "n2")), []string{
			"n1: n2[10.1.2.0/24 100.64.1.2/32 10.1.9.0/24 100.64.1.9/32]@192.0.2.2:3002 n3[10.1.3.0/24 100.64.1.3/32]",
			"n2: n1[10.1.1.0/24 100.64.1.1/32]@192.0.2.1:3001 n3[10.1.3.0/24 100.64.1.3/32] a9[10.1.9.0/24 100.64.1.9/32]",
			"n3: n1[10.1.1.0/24 100.64.1.1/32]@192.0.2.1:3001 n2[10.1.2.0/24 100.64.1.2/32 10.1.9.0/24 100.64.1.9/32]@192.0.2.2:3002"}},
	} {
		t.Run(c.when, func(t *testing.T) {
			if got := shown(c.in); strings.Join(got, "\n") != strings.Join(c.want, "\n") {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(c.want, "\n"))
			}
		})
	}
}

func shown(n mesh.Network) []string {
	var out []string
	for i, one := range n.Nodes {
		line := one.ID + ":"
		for _, p := range n.Peers(i) {
			line += " " + name(p) + fmt.Sprint(p.AllowedIPs)
			if p.Endpoint != "" {
				line += "@" + p.Endpoint
			}
		}
		out = append(out, line)
	}
	return out
}

func name(p mesh.Peer) string {
	if p.Access != nil {
		return p.Access.Name
	}
	return p.Node.ID
}

// drawn is any network that is as it should be, with a public node first or somewhere.
func drawn(t *rapid.T) mesh.Network {
	var nodes []mesh.Node
	var publics []string
	count := rapid.IntRange(1, 7).Draw(t, "nodes")
	for i := 1; i <= count; i++ {
		one := hidden(i)
		if rapid.Bool().Draw(t, "public") || i == count && publics == nil {
			one = public(i)
			publics = append(publics, one.ID)
		}
		nodes = append(nodes, one)
	}
	var accesses []mesh.Access
	for i := range rapid.IntRange(0, 3).Draw(t, "accesses") {
		accesses = append(accesses, access(100+i, rapid.SampledFrom(publics).Draw(t, "via")))
	}
	return network(nodes, accesses...)
}

// TestFullReachability: where there is a public node, a packet from
// anybody finds anybody, and each on the way takes it only from whom it allows.
func TestFullReachability(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := drawn(t)
		if err := n.Check(); err != nil {
			t.Fatal(err)
		}
		ends := map[string]netip.Addr{}
		for _, one := range n.Nodes {
			ends[one.ID] = one.Subnet.Addr().Next().Next()
		}
		for _, one := range n.Access {
			ends[one.Name] = one.Address()
		}
		for from, source := range ends {
			for to, target := range ends {
				if from != to {
					travel(t, n, from, to, source, target)
				}
			}
		}
	})
}

// travel follows a packet.
func travel(t *rapid.T, n mesh.Network, from, to string, source, target netip.Addr) {
	at := from
	for hops := 0; at != to; hops++ {
		if hops > 3 {
			t.Fatalf("a packet from %s to %s goes round: it is at %s", from, to, at)
		}
		next := towards(n, at, target)
		if next == "" {
			t.Fatalf("a packet from %s to %s ends at %s", from, to, at)
		}
		if back := towards(n, next, source); back != at {
			t.Fatalf("a packet from %s to %s is refused by %s, which awaits it from %q and not from %s", from, to, next, back, at)
		}
		at = next
	}
}

// towards is the peer of who that lets addr through.
func towards(n mesh.Network, who string, addr netip.Addr) string {
	if a := n.FindAccess(who); a != nil {
		return a.Via
	}
	found := ""
	for i, one := range n.Nodes {
		if one.ID != who {
			continue
		}
		for _, p := range n.Peers(i) {
			for _, allowed := range p.AllowedIPs {
				if allowed.Contains(addr) && found == "" {
					found = name(p)
				} else if allowed.Contains(addr) {
					return "two peers"
				}
			}
		}
	}
	return found
}

func TestUnreachablePairs(t *testing.T) {
	for _, c := range []struct {
		nodes []mesh.Node
		apart int
	}{
		{nil, 0}, {[]mesh.Node{hidden(1)}, 0}, {[]mesh.Node{hidden(1), hidden(2)}, 2}, {[]mesh.Node{hidden(1), hidden(2), public(3)}, 0},
	} {
		if got := network(c.nodes).Apart(); len(got) != c.apart {
			t.Errorf("of %v %d can't meet, want %d", c.nodes, len(got), c.apart)
		}
	}
}
