package overlay_test

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/croft-edge/croft/bootstrap/kubernetes/init/overlay"
)

func machine(t testing.TB, name string, number int) overlay.Machine {
	t.Helper()
	m, err := overlay.ParseMachine(name, fmt.Sprintf("10.1.2.%d", number), fmt.Sprintf("100.96.%d.0/24", number))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestMachine(t *testing.T) {
	m := machine(t, "a", 7)
	if m.End().String() != "100.96.7.0" || m.MAC().String() != "0a:58:64:60:07:00" {
		t.Errorf("machine a has end %s with MAC %s", m.End(), m.MAC())
	}
	for _, bad := range [][2]string{{"", "100.96.0.0/24"}, {"fd00::1", "100.96.0.0/24"}, {"10.1.2.3", ""}, {"10.1.2.3", "100.96.0.0/23"}, {"10.1.2.3", "100.96.0.1/24"}, {"10.1.2.3", "fd00::/24"}} {
		if _, err := overlay.ParseMachine("a", bad[0], bad[1]); err == nil {
			t.Errorf("a machine with address %q and pods %q is taken", bad[0], bad[1])
		}
	}
}

// TestPeers draws machines that may claim each other's ranges and addresses. Every range and every address leads to one machine
// at most, to the first one that claims it, and never to the machine itself.
func TestPeers(t *testing.T) {
	within := netip.MustParsePrefix("100.96.0.0/16")
	self := machine(t, "self", 0)
	rapid.Check(t, func(r *rapid.T) {
		all := []overlay.Machine{self}
		honest := rapid.IntRange(0, 5).Draw(r, "honest")
		for i := range honest {
			all = append(all, machine(t, fmt.Sprintf("a%d", i), i+1))
		}
		for i := range rapid.IntRange(0, 5).Draw(r, "liars") {
			m := machine(t, fmt.Sprintf("z%d", i), rapid.IntRange(0, 20).Draw(r, "pods"))
			m.Address = machine(t, "x", rapid.IntRange(0, 20).Draw(r, "address")).Address
			if rapid.Bool().Draw(r, "outside") {
				m.Pods = netip.MustParsePrefix("10.1.2.0/24")
			}
			all = append(all, m)
		}
		peers := overlay.Peers(self, all, within)
		ranges, addresses := map[netip.Prefix]int{self.Pods: 1}, map[netip.Addr]int{self.Address: 1}
		for _, p := range peers {
			ranges[p.Pods]++
			addresses[p.Address]++
			if ranges[p.Pods] > 1 || addresses[p.Address] > 1 || !within.Overlaps(p.Pods) {
				r.Fatalf("machine %+v is a peer among %+v", p, peers)
			}
		}
		for _, m := range all[1 : honest+1] {
			if !slices.Contains(peers, m) {
				r.Fatalf("machine %s, which was there before those that lie, isn't reached", m.Name)
			}
		}
		if at := slices.IndexFunc(peers, func(m overlay.Machine) bool { return m.Name == self.Name }); at >= 0 {
			r.Fatal("the machine is its own peer")
		}
	})
}
