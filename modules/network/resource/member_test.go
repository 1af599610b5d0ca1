package resource_test

import (
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/croft-edge/croft/modules/network/resource"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/node/conformance"
)

// newNetwork has the subnet 10.1.1.0/29, with five addresses for members.
func newNetwork(t *testing.T) *resource.Network {
	t.Helper()
	p, err := resource.Read(conformance.NetworkSpec(t, "net1", "10.1.1.0/29", 3001))
	if err != nil {
		t.Fatal(err)
	}
	n := &resource.Network{State: resource.State{Members: map[string]*resource.Member{}}}
	return n.Renew(p, resource.Endpoints{}, func(string) bool { return false })
}

func noPublic(member string) (netip.Addr, int, error) {
	return resource.ChoosePublic(netip.Prefix{}, maps.Values(map[string]*resource.Network{}), member)
}

func ips(texts ...string) (out []netip.Addr) {
	for _, text := range texts {
		out = append(out, netip.MustParseAddr(text))
	}
	return out
}

func TestPlace(t *testing.T) {
	n := newNetwork(t)
	for _, c := range []struct {
		id     string
		asks   []netip.Addr
		public bool
		want   []netip.Addr
		index  int
		kind   node.Kind
		text   string
	}{
		{id: "a", want: ips("10.1.1.2")},
		{id: "b", asks: ips("10.1.1.6", "10.1.1.3"), want: ips("10.1.1.6", "10.1.1.3"), index: 1},
		{id: "c", want: ips("10.1.1.4"), index: 2},
		{id: "b", want: ips("10.1.1.6", "10.1.1.3"), index: 1}, // it keeps its place
		{id: "a", asks: ips("10.1.1.5"), want: ips("10.1.1.5"), index: 0},
		{id: "d", asks: ips("10.1.1.4"), kind: node.Refused, text: "one that no other member has"},
		{id: "d", asks: ips("10.1.1.1"), kind: node.Refused, text: "another than the gateway's"},
		{id: "d", asks: ips("10.1.1.7"), kind: node.Refused, text: "one of 10.1.1.0/29 but its first and last"},
		{id: "d", asks: ips("10.1.1.0"), kind: node.Refused, text: "one of 10.1.1.0/29 but its first and last"},
		{id: "d", public: true, kind: node.Refused, text: "no public IPv6 range"},
		{id: "d", want: ips("10.1.1.2"), index: 3}, // a's before
		{id: "e", kind: node.NoSpace, text: "every address of 10.1.1.0/29 is taken"},
	} {
		one, err := n.Place(resource.JoinRequest{ID: c.id, IPs: c.asks, Public: c.public}, noPublic)
		if c.kind != "" {
			if node.KindOf(err) != c.kind || !strings.Contains(err.Error(), c.text) {
				t.Errorf("%s, %v: error %v", c.id, c.asks, err)
			}
			continue
		}
		if err != nil || !slices.Equal(one.IPs, c.want) || one.Index != c.index {
			t.Errorf("%s, %v: %+v (%v), want %v at %d", c.id, c.asks, one, err, c.want, c.index)
			continue
		}
		n.Members[c.id] = one
	}
}

func TestChoosePublic(t *testing.T) {
	within := netip.MustParsePrefix("2001:db8:1::/112")
	n := newNetwork(t)
	all := func() map[string]*resource.Network { return map[string]*resource.Network{"n": n} }
	first, index, err := resource.ChoosePublic(within, maps.Values(all()), "a")
	if err != nil || !within.Contains(first) || index != 0 {
		t.Fatalf("%s at %d (%v)", first, index, err)
	}
	if again, _, _ := resource.ChoosePublic(within, maps.Values(all()), "a"); again != first {
		t.Errorf("%s after %s", again, first)
	}
	n.Members["a"] = &resource.Member{ID: "a", Public: first}
	if other, index, err := resource.ChoosePublic(within, maps.Values(all()), "a"); err != nil || other == first || index != 1 {
		t.Errorf("%s at %d beside %s (%v)", other, index, first, err)
	}
}

func TestRenewKeepsAddressesOfNames(t *testing.T) {
	n := newNetwork(t)
	p := n.Plan
	p.Peers = []resource.Peer{{Key: [32]byte{1}, Endpoint: "one.example:1"}, {Key: [32]byte{2}, Endpoint: "192.0.2.2:2"}, {Key: [32]byte{3}, Endpoint: ""}}
	n.Endpoints = resource.Endpoints{}
	for i := range p.Peers {
		n.Endpoints[p.Peers[i].Key.String()] = netip.MustParseAddrPort("192.0.2.9:9")
	}
	literals := resource.Endpoints{p.Peers[1].Key.String(): netip.MustParseAddrPort("192.0.2.2:2")}
	got := n.Renew(p, literals, func(endpoint string) bool { return strings.HasPrefix(endpoint, "one") })
	for i, want := range []string{"192.0.2.9:9", "192.0.2.2:2", ""} {
		at, ok := got.Endpoints[p.Peers[i].Key.String()]
		if ok != (want != "") || ok && at.String() != want {
			t.Errorf("peer %d: %s, want %q", i, at, want)
		}
	}
	if got.Spec.PrivateKey != "" || !got.HasKey() {
		t.Error("the private key is in the state, or is lost")
	}
}
