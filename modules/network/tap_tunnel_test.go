package network_test

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/internal/testing/frame"
	"github.com/croft-edge/croft/modules/network"
	"github.com/croft-edge/croft/pkg/dial"
	"github.com/croft-edge/croft/pkg/netns"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/node/conformance"
	"github.com/croft-edge/croft/pkg/workload"
)

// farNode is another node with a part of the same network, and a container in it.
type farNode struct {
	*fixture
	member node.Member
	place  string
	wire   *frame.Wire
}

// newFar makes the far node, and joins it and w's by tunnels.
func newFar(t *testing.T, w *tapped, address string) *farNode {
	t.Helper()
	far := &farNode{fixture: newFixture(t, dialsTo(t, address))}
	spec := conformance.NetworkSpec(t, w.spec.Name, "10.1.3.0/24", port(t))
	peer := func(of node.NetworkSpec) []workload.WireGuardPeer {
		return []workload.WireGuardPeer{{
			Subnet: of.Subnet, PublicKey: of.PublicKey, AllowedIPs: []string{of.Subnet}, Endpoint: fmt.Sprintf("%s:%d", address, of.ListenPort),
		}}
	}
	spec.Peers, w.spec.Peers = peer(w.spec), peer(spec)
	if _, err := far.networks.Create(t.Context(), spec); err != nil {
		t.Fatal(err)
	}
	if _, err := w.networks.Create(t.Context(), w.spec); err != nil {
		t.Fatal(err)
	}
	pid := process(t)
	far.place = netns.OfProcess(pid)
	var err error
	if far.member, err = far.networks.Join(t.Context(), node.MemberSpec{Network: spec.ID, Member: "15-1", PID: pid}); err != nil {
		t.Fatal(err)
	}
	far.wire = frame.NewWire(t, inside(t, far.place), "eth0")
	return far
}

// dialsTo lets a node's tunnels lead to an address of the machine itself, where the other
// node of the test is.
func dialsTo(t *testing.T, address string) func(*network.Config) {
	return func(c *network.Config) {
		dialer, err := dial.New(dial.Config{
			Own: func() []netip.Prefix { return nil }, Allow: []dial.Exception{{Prefix: netip.MustParsePrefix(address + "/32")}}, Log: c.Log,
		})
		if err != nil {
			t.Fatal(err)
		}
		c.Endpoints = dialer
	}
}

// TestAVMReachesAnotherNode: through the tunnel it reaches a member of another node, with
// its own addresses only.
func TestAVMReachesAnotherNode(t *testing.T) {
	t.Parallel()
	const address, port = "11.22.34.1", 7
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		t.Fatal(err)
	}
	at, err := netlink.ParseAddr(address + "/32")
	if err != nil {
		t.Fatal(err)
	}
	if err := netlink.AddrReplace(lo, at); err != nil {
		t.Fatal(err)
	}
	w := newTapped(t, newFixture(t, dialsTo(t, address)))
	far := newFar(t, w, address)
	echo(t, far.place, port)
	gateway := w.guest.finds(w.guest.Gateway)
	w.guest.talks(gateway, far.member.IPv4, port, w.token())
	w.guest.talks(gateway, far.member.IPv6, port, w.token())
	from4 := func(source string) func(text string) []byte {
		return func(text string) []byte {
			return frame.Ether(gateway, w.guest.MAC, unix.ETH_P_IP, frame.UDP4(source, far.member.IPv4, 1000, 9, text))
		}
	}
	from6 := func(source string) func(text string) []byte {
		return func(text string) []byte {
			return frame.Ether(gateway, w.guest.MAC, unix.ETH_P_IPV6, frame.UDP6(source, far.member.IPv6, 1000, 9, text))
		}
	}
	for why, make := range map[string]func(text string) []byte{
		"a neighbour's IPv4 address": from4(w.neighbour.IPv4), "the gateway's IPv4 address": from4(w.guest.Gateway),
		"the far member's own address": from4(far.member.IPv4), "a neighbour's IPv6 address": from6(w.neighbour.IPv6),
		"a neighbour's MAC": func(text string) []byte {
			return slices.Concat(frame.MAC(gateway), frame.MAC(w.neighbour.MAC), from4(w.guest.IPv4)(text)[12:])
		},
	} {
		text := w.token()
		w.guest.send(make(text))
		if got := far.sees(w, text, from4(w.guest.IPv4)); got {
			t.Errorf("arrives at another node: %s", why)
		}
	}
	w.farSegments(far, gateway)
	w.guest.talks(gateway, far.member.IPv4, port, w.token())
}

// sees reports whether a text arrives before a frame that is sent until it does: a tunnel
// may lose some.
func (far *farNode) sees(w *tapped, text string, make func(text string) []byte) (seen bool) {
	far.t.Helper()
	last := w.token()
	for end := time.Now().Add(patience); time.Now().Before(end); {
		w.guest.send(make(last))
		switch far.wire.Sees(time.Second, text, last) {
		case text:
			seen = true
		case last:
			return seen
		}
	}
	far.t.Fatal("the other node doesn't hear the guest any more")
	return false
}

// farSegments sends a frame that the kernel has to cut: its segments arrive through the
// tunnel where they fit into it, and not at all where they don't.
func (w *tapped) farSegments(far *farNode, gateway string) {
	w.t.Helper()
	const (
		tunnelMTU = 1420
		full      = largest - tcp4Start - 20
		size      = 14 * full // so that the last segment is as large as the others
	)
	for segment, want := range map[int]int{tunnelMTU - 40: size, full: 0, 9000: 0} {
		head, f := w.tcp4To(gateway, w.guest.IPv4, far.member.IPv4, make([]byte, size), segment)
		if err := w.guest.sendAs(head, f); err != nil {
			w.t.Fatal(err)
		}
		last, got := w.token(), 0
		for end := time.Now().Add(patience); time.Now().Before(end); {
			w.guest.send(frame.Ether(gateway, w.guest.MAC, unix.ETH_P_IP, frame.UDP4(w.guest.IPv4, far.member.IPv4, 1000, 9, last)))
			if far.wire.Receive(time.Second, func(f []byte) bool {
				if len(f) >= 54 && f[12] == 8 && f[13] == 0 && f[23] == unix.IPPROTO_TCP && slices.Equal(f[26:30], frame.IP(w.guest.IPv4)) {
					got += len(f) - 54
				}
				return hasText(f, last)
			}) {
				break
			}
		}
		if got != want {
			w.t.Errorf("%d bytes of segments of %d arrive through the tunnel, want %d", got, segment, want)
		}
	}
}
