package network_test

import (
	"context"
	"fmt"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/croft-edge/croft/modules/network"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/node/conformance"
	"github.com/croft-edge/croft/pkg/workload"
)

// names are endpoints that resolve as told; one that isn't known never answers, and
// doesn't hear that nobody waits for it any more either, until the test ends.
type names struct {
	mu    sync.Mutex
	at    map[string]string
	asked map[string]int
	ended chan struct{}
}

func (n *names) Resolve(_ context.Context, address string) (netip.AddrPort, error) {
	n.mu.Lock()
	at := n.at[address]
	n.asked[address]++
	n.mu.Unlock()
	switch at {
	case "":
		<-n.ended
		return netip.AddrPort{}, node.Errorf(node.Transient, "cannot resolve %s", address)
	case "nothing":
		return netip.AddrPort{}, node.Errorf(node.Transient, "cannot resolve %s", address)
	case "refused":
		return netip.AddrPort{}, node.Errorf(node.Refused, "cannot dial %s: it may not lead there", address)
	}
	return netip.MustParseAddrPort(at), nil
}

func (n *names) Literal(address string) (netip.AddrPort, error) {
	at, _ := netip.ParseAddrPort(address)
	return at, nil
}

func (n *names) say(address, at string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.at[address] = at
}

func newNamed(t *testing.T) (*fixture, *names) {
	t.Helper()
	n := &names{at: map[string]string{}, asked: map[string]int{}, ended: make(chan struct{})}
	f := newFixture(t, func(c *network.Config) { c.Endpoints = n })
	t.Cleanup(func() { close(n.ended) })
	return f, n
}

func namedPeer(t *testing.T, subnet, endpoint string) workload.WireGuardPeer {
	t.Helper()
	key := conformance.NetworkSpec(t, "peer", "10.1.2.0/24", 1024).PublicKey
	return workload.WireGuardPeer{Subnet: subnet, PublicKey: key, AllowedIPs: []string{subnet}, Endpoint: endpoint}
}

// endpoint is where the tunnel to the only peer leads.
func (f *fixture) endpoint() string {
	f.t.Helper()
	list, err := f.networks.List(f.t.Context())
	if err != nil || len(list) != 1 || len(list[0].Peers) != 1 {
		f.t.Fatalf("%+v, %v", list, err)
	}
	return list[0].Peers[0].Endpoint
}

// TestANameThatMoves: while no tunnel is, the name is looked up again, and the
// tunnel leads to where it says. One that says nothing leads where it did.
func TestANameThatMoves(t *testing.T) {
	t.Parallel()
	f, names := newNamed(t)
	names.say("peer.example:3001", "11.22.33.44:3001")
	spec := conformance.NetworkSpec(t, "net1", "10.1.2.0/24", port(t))
	spec.Peers = []workload.WireGuardPeer{namedPeer(t, "10.1.3.0/24", "peer.example:3001")}
	if _, err := f.networks.Create(t.Context(), spec); err != nil {
		t.Fatal(err)
	}
	f.mod.LookedUp()
	if got := f.endpoint(); got != "11.22.33.44:3001" {
		t.Errorf("the tunnel leads to %q", got)
	}
	for _, c := range []struct{ says, leads string }{
		{"11.22.33.55:3001", "11.22.33.55:3001"},
		{"refused", "11.22.33.55:3001"},
		{"nothing", "11.22.33.55:3001"},
		{"11.22.33.66:3001", "11.22.33.66:3001"},
	} {
		names.say("peer.example:3001", c.says)
		f.mod.LookUp()
		if got := f.endpoint(); got != c.leads {
			t.Errorf("it says %q, and the tunnel leads to %q, want %q", c.says, got, c.leads)
		}
	}
	names.say("peer.example:3001", "")
	if info, err := f.networks.Create(t.Context(), spec); err != nil || info.Drift != "" || f.endpoint() != "11.22.33.66:3001" {
		t.Errorf("made again while the name says nothing: %v, leads to %q", err, f.endpoint())
	}
}

// TestANameThatMovesWhileTheKeyIsUnknown: after the module's restart only who brings
// the key again can lead the tunnel elsewhere, so it is told as drift.
func TestANameThatMovesWhileTheKeyIsUnknown(t *testing.T) {
	t.Parallel()
	f, names := newNamed(t)
	names.say("peer.example:3001", "nothing")
	spec := conformance.NetworkSpec(t, "net1", "10.1.2.0/24", port(t))
	spec.Peers = []workload.WireGuardPeer{namedPeer(t, "10.1.3.0/24", "peer.example:3001")}
	if _, err := f.networks.Create(t.Context(), spec); err != nil {
		t.Fatal(err)
	}
	f.mod.LookedUp()
	f.restart()
	if got := f.endpoint(); got != "" {
		t.Errorf("the tunnel leads to %q", got)
	}
	names.say("peer.example:3001", "11.22.33.44:3001")
	f.mod.LookUp()
	if list, err := f.networks.List(t.Context()); err != nil || list[0].Drift == "" {
		t.Fatalf("%v, no drift is told", err)
	}
	names.say("peer.example:3001", "nothing")
	if info, err := f.networks.Create(t.Context(), spec); err != nil || info.Drift != "" || f.endpoint() != "11.22.33.44:3001" {
		t.Errorf("made right: %v, %s, leads to %q", err, info.Drift, f.endpoint())
	}
}

// TestNamesThatNeverAnswer hold up neither the making of their networks, nor another
// user's name: it is looked up beside them, however many one user brings.
func TestNamesThatNeverAnswer(t *testing.T) {
	t.Parallel()
	f, names := newNamed(t)
	hostile := conformance.NetworkSpec(t, "net1", "10.1.2.0/24", port(t))
	for i := range 100 {
		hostile.Peers = append(hostile.Peers, namedPeer(t, fmt.Sprintf("10.1.%d.0/24", 100+i), fmt.Sprintf("never%d.example:3001", i)))
	}
	info, err := f.networks.Create(t.Context(), hostile)
	if err != nil || len(info.Peers) != 100 || info.Drift != "" {
		t.Fatalf("%d peers, %v, %s", len(info.Peers), err, info.Drift)
	}
	names.say("peer.example:3001", "11.22.33.44:3001")
	honest := conformance.NetworkSpec(t, "net2", "10.1.3.0/24", port(t))
	honest.User = "another"
	honest.Peers = []workload.WireGuardPeer{namedPeer(t, "10.1.4.0/24", "peer.example:3001")}
	if _, err := f.networks.Create(t.Context(), honest); err != nil {
		t.Fatal(err)
	}
	leads := func() string {
		list, err := f.networks.List(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range list {
			if n.Label == honest.Label && n.Name == honest.Name {
				return n.Peers[0].Endpoint
			}
		}
		return "no network"
	}
	for deadline := time.Now().Add(time.Minute); leads() != "11.22.33.44:3001"; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("the honest user's tunnel leads to %q", leads())
		}
	}
	names.mu.Lock()
	defer names.mu.Unlock()
	if n := len(names.asked) - 1; int64(n) > network.EndpointLookups.Each {
		t.Errorf("%d names of one user are looked up at a time", n)
	}
}
