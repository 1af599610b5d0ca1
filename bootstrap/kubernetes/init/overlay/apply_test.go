package overlay_test

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/croft-edge/croft/bootstrap/kubernetes/init/overlay"
	"github.com/croft-edge/croft/internal/testing/netlab"
)

// pods is the range of all machines' pods.
var pods = netip.MustParsePrefix("100.96.0.0/16")

// end is a machine in a namespace of its own; its pod is an address of its loopback.
type end struct {
	overlay.Machine
	space *netlab.Namespace
	pod   string
}

// newEnd makes a machine with an address in a network of its own, behind a router that knows the machines' networks only.
func newEnd(t *testing.T, lab *netlab.Lab, router *netlab.Namespace, name, network, range24 string) end {
	t.Helper()
	space := lab.Namespace(name)
	lab.Veth(space, "eth0", router, name)
	space.Addr("eth0", network+".10/24")
	router.Addr(name, network+".1/24")
	space.Up("lo")
	space.Up("eth0")
	router.Up(name)
	space.Route("0.0.0.0/0", network+".1")
	m, err := overlay.ParseMachine(name, network+".10", range24+".0/24")
	if err != nil {
		t.Fatal(err)
	}
	pod := range24 + ".7"
	space.Addr("lo", pod+"/32")
	space.Do(func() { err = overlay.Setup(m, "eth0") })
	if err != nil {
		t.Fatal(err)
	}
	return end{Machine: m, space: space, pod: pod}
}

func (e end) apply(t *testing.T, all []overlay.Machine) {
	t.Helper()
	var err error
	e.space.Do(func() { err = overlay.Apply(overlay.Peers(e.Machine, all, pods)) })
	if err != nil {
		t.Fatal(err)
	}
}

// reach sends a byte from one machine's pod address to another's.
func reach(from, to end) error {
	listener := to.space.ListenTCP(to.pod + ":80")
	defer listener.Close()
	conn, err := from.space.DialTCP(to.pod+":80", 2*time.Second)
	if err == nil {
		conn.Close()
	}
	return err
}

// TestOverlay has pods of machines in different networks reach each other, over a router that knows nothing of pods. A
// machine that goes is reached no more, and nothing of it stays.
func TestOverlay(t *testing.T) {
	lab := netlab.New(t)
	router := lab.Namespace("router")
	router.Forward()
	a := newEnd(t, lab, router, "a", "10.1.2", "100.96.1")
	b := newEnd(t, lab, router, "b", "10.1.3", "100.96.2")
	c := newEnd(t, lab, router, "c", "10.1.4", "100.96.3")
	ends := []end{a, b, c}
	all := []overlay.Machine{a.Machine, b.Machine, c.Machine}
	for range 2 { // a second time changes nothing
		for _, e := range ends {
			e.apply(t, all)
		}
	}
	for _, from := range ends {
		for _, to := range ends {
			if err := reach(from, to); err != nil {
				t.Errorf("pod of %s doesn't reach pod of %s: %v", from.Name, to.Name, err)
			}
		}
	}
	a.apply(t, all[:2])
	if err := reach(a, c); err == nil {
		t.Error("a machine that has gone is reached")
	}
	for _, command := range []string{"ip -4 route", "ip -4 neigh show dev croft.vxlan", "bridge fdb show dev croft.vxlan"} {
		words := strings.Fields(command)
		if out := a.space.Run(words[0], words[1:]...); strings.Contains(out, "100.96.3.") || strings.Contains(out, "10.1.4.10") || strings.Contains(out, c.MAC().String()) {
			t.Errorf("after a machine has gone, %s has:\n%s", command, out)
		}
	}
	if err := reach(a, b); err != nil {
		t.Errorf("the pods of others aren't reached any more: %v", err)
	}
	// A machine with a new address is reached there.
	b.space.Addr("eth0", "10.1.3.11/24")
	moved := b
	moved.Address = netip.MustParseAddr("10.1.3.11")
	var err error
	b.space.Do(func() { err = overlay.Setup(moved.Machine, "eth0") })
	if err != nil {
		t.Fatal(err)
	}
	all = []overlay.Machine{a.Machine, moved.Machine}
	a.apply(t, all)
	moved.apply(t, all)
	if err := reach(a, moved); err != nil {
		t.Errorf("a machine with a new address isn't reached: %v", err)
	}
}
