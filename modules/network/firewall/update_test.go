package firewall

import (
	"strings"
	"testing"

	"github.com/croft-edge/croft/internal/testing/netlab"
)

// withoutHead is a fingerprint without its namespace and generation.
func withoutHead(f Fingerprint) string {
	_, rest, _ := strings.Cut(string(f), "\n")
	return rest
}

func ofPorts(ports ...Port) Network {
	return Network{Bridge: "br0", Uplink: "up0", Tunnel: "wg0", Ports: ports}
}

// Updated rules equal applied ones.
func TestUpdateIsAsApplied(t *testing.T) {
	lab := netlab.New(t)
	ns, fresh := lab.Namespace("net"), lab.Namespace("fresh")
	ports := manyPorts(600)
	other := ports[3]
	other.IPs = ports[4].IPs
	steps := [][]Port{ports[:1], ports[:3], ports[1:3], append([]Port{other}, ports[:2]...), ports, ports[599:], {}}
	from := ofPorts()
	have, err := ApplyNetwork(ns.Path(), from)
	if err != nil {
		t.Fatal(err)
	}
	for i, step := range steps {
		to := ofPorts(step...)
		after, done, err := UpdateNetwork(ns.Path(), have, from, to)
		if err != nil || !done {
			t.Fatalf("step %d: done %t, %v", i, done, err)
		}
		if found, err := Check(ns.Path(), after); err != nil || found.Drift != "" {
			t.Errorf("step %d: %q, %v", i, found.Drift, err)
		}
		want, err := ApplyNetwork(fresh.Path(), to)
		if err != nil || withoutHead(after) != withoutHead(want) {
			t.Errorf("step %d: updated it is\n%s\napplied it is\n%s (%v)", i, after, want, err)
		}
		from, have = to, after
	}
}

// Where the rules aren't what they were, or more than ports is another, nothing
// is changed.
func TestUpdateLeavesToApply(t *testing.T) {
	ns := netlab.New(t).Namespace("net")
	ports := manyPorts(2)
	from, to := ofPorts(ports[0]), ofPorts(ports...)
	have, err := ApplyNetwork(ns.Path(), from)
	if err != nil {
		t.Fatal(err)
	}
	tunnel := to
	tunnel.Tunnel = "wg1"
	refused := func(what string, have Fingerprint, to Network) {
		t.Helper()
		if _, done, err := UpdateNetwork(ns.Path(), have, from, to); done || err != nil {
			t.Errorf("%s: done %t, %v", what, done, err)
		}
	}
	refused("another tunnel", have, tunnel)
	refused("an older fingerprint", "1", to)
	if found, err := Check(ns.Path(), have); err != nil || found.Drift != "" {
		t.Errorf("%q, %v", found.Drift, err)
	}
	ns.Run("nft", "add table inet other")
	refused("another table", have, to)
	ns.Run("nft", "delete element bridge croft addresses4 { mm0 . 10.1.100.0 }")
	refused("a missing element", have, to)
	if _, done, err := UpdateNetwork(ns.Path(), have, from, ofPorts(ports[0], ports[0])); done || err == nil {
		t.Errorf("a port twice: done %t, %v", done, err)
	}
}
