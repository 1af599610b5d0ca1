package network_test

import (
	"net/netip"
	"os/exec"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"

	"github.com/croft-edge/croft/modules/network"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/node/conformance"
)

// wayTo is the link that the node's route to an address leads out of, empty
// for none.
func wayTo(t *testing.T, address string) string {
	t.Helper()
	out, err := exec.Command("ip", "-6", "-o", "route", "show", address).Output()
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(out), " dev ")
	name, _, _ := strings.Cut(rest, " ")
	return name
}

func TestAPublicInterfaceComesAndGoes(t *testing.T) {
	t.Parallel()
	public := netip.MustParsePrefix("2001:db8:77::/64")
	f := newFixture(t, func(c *network.Config) { c.Public = public })
	spec := conformance.NetworkSpec(t, "net1", "10.1.2.0/24", port(t))
	if _, err := f.networks.Create(t.Context(), spec); err != nil {
		t.Fatal(err)
	}
	join := func(id string, pid uint64, wanted bool) node.Member {
		t.Helper()
		m, err := f.networks.Join(t.Context(), node.MemberSpec{Network: spec.ID, Member: id, PID: pid, PublicIP6: wanted})
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	drift := func() string {
		t.Helper()
		list, err := f.networks.List(t.Context())
		if err != nil || len(list) != 1 {
			t.Fatalf("%d networks, %v", len(list), err)
		}
		return list[0].Drift
	}
	first, second := process(t), process(t)
	one, two := join("5-1", first, true), join("6-1", second, true)
	for _, m := range []node.Member{one, two} {
		if at, err := netip.ParseAddr(m.PublicIPv6); err != nil || !public.Contains(at) {
			t.Errorf("a member has the public address %q, must be one of %s", m.PublicIPv6, public)
		}
	}
	if again := join("5-1", first, true); again.PublicIPv6 != one.PublicIPv6 || one.PublicIPv6 == two.PublicIPv6 {
		t.Errorf("public addresses %s, again %s, and %s", one.PublicIPv6, again.PublicIPv6, two.PublicIPv6)
	}
	was := wayTo(t, one.PublicIPv6)
	link, err := netlink.LinkByName(was)
	if err != nil {
		t.Fatalf("no way to %s (%q): %v", one.PublicIPv6, was, err)
	}
	if err := netlink.LinkDel(link); err != nil {
		t.Fatal(err)
	}
	if drift() == "" {
		t.Error("that a public interface is gone isn't seen")
	}
	if _, err := f.networks.Create(t.Context(), spec); err != nil || drift() != "" || wayTo(t, one.PublicIPv6) != was {
		t.Errorf("a public interface isn't made again: %v, %q", err, drift())
	}
	// The same process, without it: its link goes, and another may have its place.
	if m := join("5-1", first, false); m.PublicIPv6 != "" || wayTo(t, one.PublicIPv6) != "" || drift() != "" {
		t.Errorf("it has %q, by %q; drift %q", m.PublicIPv6, wayTo(t, one.PublicIPv6), drift())
	}
	third := join("7-1", process(t), true)
	if way := wayTo(t, third.PublicIPv6); way != was {
		t.Errorf("the way to the third one is %q, the free one is %q", way, was)
	}
	for _, id := range []string{"6-1", "7-1"} {
		if err := f.networks.Leave(t.Context(), spec.ID, id); err != nil {
			t.Fatal(err)
		}
	}
	for _, m := range []node.Member{two, third} {
		if way := wayTo(t, m.PublicIPv6); way != "" {
			t.Errorf("after it left, %s is reached by %s", m.PublicIPv6, way)
		}
	}
}
