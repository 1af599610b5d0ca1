package firewall

import (
	"testing"

	"github.com/croft-edge/croft/internal/testing/netlab"
)

// BenchmarkNetwork is what the rules of a network of 250 ports cost: to apply,
// to check when nothing has changed, and when another table has.
func BenchmarkNetwork(b *testing.B) {
	n := Network{Bridge: "br0", Uplink: "up0", Tunnel: "wg0", Ports: manyPorts(250)}
	benchmark(b, n.tables())
}

// BenchmarkUpdate is one port more and one less of 50.
func BenchmarkUpdate(b *testing.B) {
	ns := netlab.New(b).Namespace("net")
	all := ofPorts(manyPorts(50)...)
	less := ofPorts(all.Ports[:49]...)
	f, err := ApplyNetwork(ns.Path(), all)
	if err != nil {
		b.Fatal(err)
	}
	from, to := all, less
	for b.Loop() {
		var done bool
		if f, done, err = UpdateNetwork(ns.Path(), f, from, to); err != nil || !done {
			b.Fatal(done, err)
		}
		from, to = to, from
	}
}

// BenchmarkNode is the same for the node's rules.
func BenchmarkNode(b *testing.B) { benchmark(b, nodeRules().tables()) }

func benchmark(b *testing.B, tables []table) {
	ns := netlab.New(b).Namespace("node")
	applied := func(b *testing.B) Fingerprint {
		f, err := apply(ns.Path(), tables)
		if err != nil {
			b.Fatal(err)
		}
		return f
	}
	b.Run("apply", func(b *testing.B) {
		for b.Loop() {
			applied(b)
		}
	})
	check := func(b *testing.B, f Fingerprint) {
		for b.Loop() {
			if found, err := Check(ns.Path(), f); err != nil || found.Drift != "" {
				b.Fatal(found.Drift, err)
			}
		}
	}
	b.Run("check", func(b *testing.B) { check(b, applied(b)) })
	b.Run("check-after-others", func(b *testing.B) {
		f := applied(b)
		ns.Run("nft", "add table inet other")
		check(b, f)
	})
}
