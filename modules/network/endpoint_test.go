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

// names are endpoints that resolve as told; one that isn't known never answers.
type names struct {
	mu sync.Mutex
	at map[string]string
}

func (n *names) Resolve(ctx context.Context, address string) (netip.AddrPort, error) {
	n.mu.Lock()
	at := n.at[address]
	n.mu.Unlock()
	switch at {
	case "":
		<-ctx.Done()
		return netip.AddrPort{}, node.Errorf(node.Transient, "cannot resolve %s: %w", address, ctx.Err())
	case "refused":
		return netip.AddrPort{}, node.Errorf(node.Refused, "cannot dial %s: it may not lead there", address)
	}
	return netip.MustParseAddrPort(at), nil
}

func (n *names) say(address, at string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.at[address] = at
}

func newNamed(t *testing.T) (*fixture, *names) {
	t.Helper()
	n := &names{at: map[string]string{}}
	return newFixture(t, func(c *network.Config) { c.Endpoints = n }), n
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
	if got := f.endpoint(); got != "11.22.33.44:3001" {
		t.Errorf("the tunnel leads to %q", got)
	}
	for _, c := range []struct{ says, leads string }{
		{"11.22.33.55:3001", "11.22.33.55:3001"},
		{"refused", "11.22.33.55:3001"},
		{"", "11.22.33.55:3001"},
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

// TestNamesThatNeverAnswer cost their network seconds, not the minutes that
// all of them together may wait.
func TestNamesThatNeverAnswer(t *testing.T) {
	t.Parallel()
	f, _ := newNamed(t)
	spec := conformance.NetworkSpec(t, "net1", "10.1.2.0/24", port(t))
	for i := range 100 {
		spec.Peers = append(spec.Peers, namedPeer(t, fmt.Sprintf("10.1.%d.0/24", 100+i), fmt.Sprintf("never%d.example:3001", i)))
	}
	began := time.Now()
	info, err := f.networks.Create(t.Context(), spec)
	if err != nil || len(info.Peers) != 100 || info.Drift != "" {
		t.Errorf("%d peers, %v, %s", len(info.Peers), err, info.Drift)
	}
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("it took %s", took)
	}
}
