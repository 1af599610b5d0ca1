//go:build boot

package e2e_test

import (
	"strings"
	"testing"
)

// TestPair has a network over two nodes on one switch: their containers reach each other through the kernel's WireGuard, also after one
// node has lost its power.
func TestPair(t *testing.T) {
	s := newSite(t)
	first := s.node("n1", "203.0.113.11", options{boot: direct(t), bridged: true})
	second := s.node("n2", "203.0.113.12", options{boot: direct(t), bridged: true})
	for _, n := range []*node{first, second} {
		n.m.PowerOn()
		n.register()
	}
	u := newTenant(s, first, second)
	a, b := u.places[0], u.places[1]
	a.answers()
	t.Logf("the first container reaches the second after %s", a.reaches(b))
	t.Logf("the second container reaches the first after %s", b.reaches(a))
	for _, n := range []*node{first, second} {
		if state := n.hand.file("/sys/module/wireguard/initstate"); strings.TrimSpace(state) != "live" {
			t.Errorf("the kernel's WireGuard is %q on %s", state, n.ip)
		}
		if held := n.hand.find("croftd", "carrier", "wg"); len(held) > 0 {
			t.Errorf("a carrier holds tunnels on %s though its kernel has WireGuard: %+v", n.ip, held)
		}
	}
	first.hand.sync()
	first.m.Cut(s.random)
	first.m.PowerOn()
	a.answers()
	t.Logf("after a power cut the first container reaches the second after %s more", a.reaches(b))
	t.Logf("the second container reaches the first after %s more", b.reaches(a))
	first.settled(map[string]int64{"network": 1, "volume": 1, "container": 1, "zdb": 1})
}
