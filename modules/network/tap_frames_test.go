package network_test

import (
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	vnetns "github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"github.com/croft-edge/croft/internal/testing/frame"
)

// free is an address of the network that nobody has, strangeMAC one that no link has.
const (
	free       = "10.1.2.200"
	strangeMAC = "02:00:00:00:77:77"
)

// guestFrame is a line of the specification: a frame that a VM sends to everybody.
type guestFrame struct {
	why  string
	make func(text string) []byte
}

// local6 is the link-local address that is made of a MAC.
func local6(mac string) string {
	m := frame.MAC(mac)
	return netip.AddrFrom16([16]byte{
		0: 0xfe, 1: 0x80, 8: m[0] ^ 2, 9: m[1], 10: m[2], 11: 0xff, 12: 0xfe, 13: m[3], 14: m[4], 15: m[5],
	}).String()
}

// Makers of frames to everybody, of a kind and with a text in them.
func (w *tapped) own(kind int, payload func(text string) []byte) func(string) []byte {
	return w.from(w.guest.MAC, kind, payload)
}

func (w *tapped) from(mac string, kind int, payload func(text string) []byte) func(string) []byte {
	return func(text string) []byte { return frame.Ether(frame.Everybody, mac, kind, payload(text)) }
}

func (w *tapped) ip4(source string, ports ...int) func(string) []byte {
	ports = append(ports, 1000, 9)
	return w.own(unix.ETH_P_IP, func(text string) []byte { return frame.UDP4(source, w.member.IPv4, ports[0], ports[1], text) })
}

func (w *tapped) ip6(source string, ports ...int) func(string) []byte {
	ports = append(ports, 1000, 9)
	return w.own(unix.ETH_P_IPV6, func(text string) []byte { return frame.UDP6(source, w.member.IPv6, ports[0], ports[1], text) })
}

func (w *tapped) arp(operation int, mac, address string) func(string) []byte {
	return func(text string) []byte {
		return frame.ARP(w.guest.MAC, operation, frame.Sender{MAC: mac, IP: address}, w.member.IPv4, text)
	}
}

func (w *tapped) nd(source string, kind byte, target string) func(string) []byte {
	return w.own(unix.ETH_P_IPV6, func(text string) []byte { return frame.ND(source, w.member.IPv6, kind, target, text) })
}

func (w *tapped) tagged(kind int) func(string) []byte {
	return w.own(kind, func(text string) []byte {
		return slices.Concat([]byte{0, 5}, frame.U16(unix.ETH_P_IP), frame.UDP4(w.guest.IPv4, w.member.IPv4, 1000, 9, text))
	})
}

// sized is a frame of so many bytes.
func (w *tapped) sized(size int) func(string) []byte {
	const headers = 14 + 20 + 8
	return w.own(unix.ETH_P_IP, func(text string) []byte {
		body := append(frame.Mark(text), make([]byte, size)...)[:size-headers]
		return frame.Packet4(w.guest.IPv4, w.member.IPv4, slices.Concat(frame.U16(1000), frame.U16(9), frame.U16(8+len(body)), []byte{0, 0}, body))
	})
}

// Types of ICMPv6.
const (
	routerAdvertisement   = 134
	neighborSolicitation  = 135
	neighborAdvertisement = 136
	redirect              = 137
)

func (w *tapped) mayPass() []guestFrame {
	g := w.guest
	local := local6(g.MAC)
	return []guestFrame{
		{"IPv4 from its address", w.ip4(g.IPv4)},
		{"IPv6 from its address", w.ip6(g.IPv6)},
		{"IPv6 from the link-local address of its MAC", w.ip6(local)},
		{"ARP asks in its name", w.arp(1, g.MAC, g.IPv4)},
		{"ARP answers in its name", w.arp(2, g.MAC, g.IPv4)},
		{"asks for a neighbour", w.nd(g.IPv6, neighborSolicitation, w.member.IPv6)},
		{"asks whether its address is free", w.nd("::", neighborSolicitation, g.IPv6)},
		{"says where it is", w.nd(g.IPv6, neighborAdvertisement, g.IPv6)},
		{"asks a DHCP server", w.ip4(g.IPv4, 68, 67)},
		{"the largest frame", w.sized(1514)},
	}
}

func (w *tapped) mayNot() []guestFrame {
	g, gateway := w.guest, w.gatewayMAC()
	packet := func(text string) []byte { return frame.UDP4(g.IPv4, w.member.IPv4, 1000, 9, text) }
	local, theirs := local6(g.MAC), local6(w.neighbour.MAC)
	return []guestFrame{
		{"a MAC of nobody", w.from(strangeMAC, unix.ETH_P_IP, packet)},
		{"a neighbour's MAC", w.from(w.neighbour.MAC, unix.ETH_P_IP, packet)},
		{"the gateway's MAC", w.from(gateway, unix.ETH_P_IP, packet)},
		{"the MAC of the device's own end", w.from(macOf(w.t, g.Namespace, g.Device), unix.ETH_P_IP, packet)},
		{"a group's MAC", w.from("03:00:00:00:00:01", unix.ETH_P_IP, packet)},
		{"a free IPv4 address", w.ip4(free)},
		{"a container's IPv4 address", w.ip4(w.member.IPv4)},
		{"a VM's IPv4 address", w.ip4(w.neighbour.IPv4)},
		{"the gateway's IPv4 address", w.ip4(g.Gateway)},
		{"an outsider's IPv4 address", w.ip4("8.8.8.8")},
		{"no IPv4 address", w.ip4("0.0.0.0")},
		{"a container's IPv6 address", w.ip6(w.member.IPv6)},
		{"a VM's IPv6 address", w.ip6(w.neighbour.IPv6)},
		{"a VM's link-local address", w.ip6(theirs)},
		{"the gateway's IPv6 address", w.ip6(g.Gateway6)},
		{"no IPv6 address", w.ip6("::")},
		{"ARP for the gateway", w.arp(2, g.MAC, g.Gateway)},
		{"ARP asks as the gateway", w.arp(1, g.MAC, g.Gateway)},
		{"ARP for a neighbour", w.arp(2, g.MAC, w.neighbour.IPv4)},
		{"ARP with the gateway's MAC inside", w.arp(2, gateway, g.IPv4)},
		{"ARP with no MAC inside", w.arp(2, "00:00:00:00:00:00", g.IPv4)},
		{"says where the gateway is", w.nd(g.IPv6, neighborAdvertisement, g.Gateway6)},
		{"says where a neighbour is", w.nd(local, neighborAdvertisement, w.member.IPv6)},
		{"says as the gateway where itself is", w.nd(g.Gateway6, neighborAdvertisement, g.IPv6)},
		{"asks whether a neighbour's address is free", w.nd("::", neighborSolicitation, w.member.IPv6)},
		{"says that it is a router", w.nd(local, routerAdvertisement, "::")},
		{"redirects", w.nd(local, redirect, g.Gateway6)},
		{"a DHCP server's answer", w.ip4(g.IPv4, 67, 68)},
		{"a DHCP server's answer from elsewhere", w.ip4(g.IPv4, 1067, 68)},
		{"a DHCPv6 server's answer", w.ip6(local, 547, 546)},
		{"a DHCPv6 server's answer from elsewhere", w.ip6(local, 1547, 546)},
		{"a VLAN", w.tagged(unix.ETH_P_8021Q)},
		{"a VLAN of a provider", w.tagged(unix.ETH_P_8021AD)},
		{"a frame that is too large", w.sized(1519)},
		{"a giant frame", w.sized(9014)},
		{"LLDP", w.own(unix.ETH_P_LLDP, frame.Mark)},
		{"PPP", w.own(unix.ETH_P_PPP_SES, frame.Mark)},
		{"a frame with its length", w.own(46, frame.Mark)},
	}
}

// arrives reports whether the guest's frame with a text comes to the container and to the
// other VM. It sends one that passes behind it, so that it is known when the first one
// would be there.
func (w *tapped) arrives(send func(text string)) (container, vm bool) {
	w.t.Helper()
	text, last := w.token(), w.token()
	send(text)
	w.guest.send(w.ip4(w.guest.IPv4)(last))
	see := func(found *bool) func(f []byte) bool {
		return func(f []byte) bool {
			*found = *found || hasText(f, text)
			return hasText(f, last)
		}
	}
	if !w.wire.Receive(patience, see(&container)) || !w.neighbour.receive(patience, see(&vm)) {
		w.t.Fatal("the guest isn't heard any more")
	}
	return container, vm
}

// unhurt fails unless the guest, the other VM and the container reach each other, and
// the guest the gateway's DNS.
func (w *tapped) unhurt() {
	w.t.Helper()
	const port = 7
	for _, g := range []*guest{w.guest, w.neighbour} {
		mac := g.finds(w.member.IPv4)
		if want := w.memberMAC(); mac != want {
			w.t.Errorf("ARP says that the container is at %q, want %q", mac, want)
			continue
		}
		g.talks(mac, w.member.IPv4, port, w.token())
		g.talks(mac, w.member.IPv6, port, w.token())
	}
	if mac, want := w.guest.finds(w.guest.Gateway), w.gatewayMAC(); mac != want {
		w.t.Errorf("ARP says that the gateway is at %q, want %q", mac, want)
	}
	if drift := w.drift(); drift != "" {
		w.t.Errorf("drift is %q", drift)
	}
}

func (w *tapped) drift() string {
	w.t.Helper()
	return (&household{fixture: w.fixture}).drift()
}

// TestWhatAVMSends: a VM's frames reach its neighbours if and only if they are from itself.
func TestWhatAVMSends(t *testing.T) {
	t.Parallel()
	w := newTapped(t, newFixture(t))
	echo(t, w.place, 7)
	w.unhurt()
	for pass, all := range map[bool][]guestFrame{true: w.mayPass(), false: w.mayNot()} {
		for _, f := range all {
			container, vm := w.arrives(func(text string) { w.guest.send(f.make(text)) })
			if container != pass || vm != pass {
				t.Errorf("arrives at the container is %v, at the VM %v, must be %v: %s", container, vm, pass, f.why)
			}
		}
	}
	w.unhurt()
}

// TestAVMFloodsTheBridge: addresses that a VM makes up take no room in the bridge's
// table, and no neighbour's place.
func TestAVMFloodsTheBridge(t *testing.T) {
	t.Parallel()
	w := newTapped(t, newFixture(t))
	echo(t, w.place, 7)
	before := w.learnt()
	packet := func(text string) []byte { return frame.UDP4(w.guest.IPv4, w.member.IPv4, 1000, 9, text) }
	for i := range 3000 {
		mac := net.HardwareAddr{2, 1, 0, byte(i >> 16), byte(i >> 8), byte(i)}.String()
		w.guest.send(w.from(mac, unix.ETH_P_IP, packet)("flood"))
	}
	for _, mac := range []string{w.neighbour.MAC, w.memberMAC(), w.gatewayMAC()} {
		// LLDP's group is seen by no rule.
		for _, group := range []string{frame.Everybody, "01:80:c2:00:00:0e", "01:80:c2:00:00:00"} {
			w.guest.send(frame.Ether(group, mac, unix.ETH_P_LLDP, frame.Mark("steal")))
		}
	}
	w.arrives(func(string) {})
	if after := w.learnt(); !slices.Equal(before, after) {
		t.Errorf("the bridge's table is %v, was %v", after, before)
	}
	w.unhurt()
}

// learnt is the bridge's table of single hardware addresses. The groups that links join by themselves come and go.
func (w *tapped) learnt() (out []string) {
	w.t.Helper()
	at, err := vnetns.GetFromPath(w.info.Namespace)
	if err != nil {
		w.t.Fatal(err)
	}
	defer at.Close()
	nl, err := netlink.NewHandleAt(at, unix.NETLINK_ROUTE)
	if err != nil {
		w.t.Fatal(err)
	}
	defer nl.Close()
	entries, err := nl.NeighList(0, unix.AF_BRIDGE)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, e := range entries {
		if e.HardwareAddr[0]&1 != 0 {
			continue
		}
		out = append(out, e.HardwareAddr.String()+" at "+nameOf(w.t, nl, e.LinkIndex))
	}
	slices.Sort(out)
	return out
}

func nameOf(t *testing.T, nl *netlink.Handle, index int) string {
	t.Helper()
	l, err := nl.LinkByIndex(index)
	if err != nil {
		t.Fatal(err)
	}
	return l.Attrs().Name
}

// TestWhatAVMReachesOfTheNode: only what the gateway offers its members.
func TestWhatAVMReachesOfTheNode(t *testing.T) {
	t.Parallel()
	w := newTapped(t, newFixture(t))
	gateway := w.guest.finds(w.guest.Gateway)
	const secret = 4000
	node := port(t)
	echo(t, w.info.Namespace, secret)
	echo(t, "/proc/self/ns/net", int(node))
	ping := func(text string) []byte {
		message := append([]byte{8, 0, 0, 0, 0, 1, 0, 1}, frame.Mark(text)...)
		sum := frame.Sum(message)
		message[2], message[3] = byte(sum>>8), byte(sum)
		packet := frame.Packet4(w.guest.IPv4, w.guest.Gateway, message)
		packet[9], packet[10], packet[11] = unix.IPPROTO_ICMP, 0, 0
		sum = frame.Sum(packet[:20])
		packet[10], packet[11] = byte(sum>>8), byte(sum)
		return frame.Ether(gateway, w.guest.MAC, unix.ETH_P_IP, packet)
	}
	answered := func(f []byte) bool {
		text, last := w.token(), w.token()
		w.guest.send(append(f, frame.Mark(text)...))
		w.guest.send(ping(last))
		answered := false
		if !w.guest.receive(patience, func(f []byte) bool {
			w.guest.answer(f)
			// The node sends nothing else from these ports.
			answered = answered || len(f) >= 36 && f[23] == unix.IPPROTO_UDP && f[12] == 8 && f[13] == 0
			return hasText(f, last)
		}) {
			t.Fatal("the gateway doesn't answer pings")
		}
		return answered
	}
	if answered(w.guest.udp4(gateway, w.guest.Gateway, secret, "secret")) {
		t.Error("a VM reaches a service in the network's namespace")
	}
	var addresses []string
	all, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range all {
		if p, err := netip.ParsePrefix(a.String()); err == nil && p.Addr().Is4() {
			addresses = append(addresses, p.Addr().String())
		}
	}
	if len(addresses) < 2 {
		t.Fatalf("the node has %v, want lo's and an uplink's", addresses)
	}
	for _, address := range addresses {
		if answered(w.guest.udp4(gateway, address, int(node), "secret")) {
			t.Errorf("a VM reaches a service of the node at %s", address)
		}
	}
}

// drawn is a frame of the generator, and whether it is to reach who it is sent to.
type drawn struct {
	why    string
	frame  []byte
	passes bool
}

// draw makes a frame to everybody of parts that are the guest's own or another's.
func (w *tapped) draw(t *rapid.T, text string) drawn {
	g := w.guest
	pick := func(name string, own string, others ...string) (string, bool) {
		// Its own twice as often: one wrong part is the hard case.
		value := rapid.SampledFrom(append(others, slices.Repeat([]string{own}, 2*len(others))...)).Draw(t, name)
		return value, value == own
	}
	mac, ownMAC := pick("MAC", g.MAC, w.neighbour.MAC, w.gatewayMAC(), strangeMAC)
	ip4, own4 := pick("IPv4", g.IPv4, w.neighbour.IPv4, g.Gateway, free, "0.0.0.0")
	ip6, own6 := pick("IPv6", g.IPv6, w.neighbour.IPv6, g.Gateway6, local6(w.neighbour.MAC), "::")
	from := rapid.SampledFrom([]int{67, 68, 546, 547, 1000}).Draw(t, "from port")
	to := rapid.SampledFrom([]int{67, 68, 546, 547, 1000}).Draw(t, "to port")
	ether := func(kind int, payload []byte) []byte { return frame.Ether(frame.Everybody, mac, kind, payload) }
	switch kind := rapid.SampledFrom([]string{"IPv4", "IPv6", "ARP", "ND", "other"}).Draw(t, "kind"); kind {
	case "IPv4":
		return drawn{kind, ether(unix.ETH_P_IP, frame.UDP4(ip4, w.member.IPv4, from, to, text)), ownMAC && own4 && from != 67 && to != 68}
	case "IPv6":
		return drawn{kind, ether(unix.ETH_P_IPV6, frame.UDP6(ip6, w.member.IPv6, from, to, text)), ownMAC && own6 && from != 547 && to != 546}
	case "ARP":
		inner, ownInner := pick("sender", g.MAC, w.neighbour.MAC, w.gatewayMAC())
		f := frame.ARP(mac, rapid.IntRange(1, 2).Draw(t, "operation"), frame.Sender{MAC: inner, IP: ip4}, w.member.IPv4, text)
		return drawn{kind, f, ownMAC && ownInner && own4}
	case "ND":
		message := rapid.SampledFrom([]byte{routerAdvertisement, neighborSolicitation, neighborAdvertisement, redirect}).Draw(t, "type")
		target, ownTarget := pick("target", g.IPv6, w.member.IPv6, g.Gateway6)
		passes := map[byte]bool{neighborSolicitation: own6 || ip6 == "::" && ownTarget, neighborAdvertisement: own6 && ownTarget}[message]
		return drawn{kind, ether(unix.ETH_P_IPV6, frame.ND(ip6, w.member.IPv6, message, target, text)), ownMAC && passes}
	}
	kind := rapid.Uint16().Filter(func(kind uint16) bool {
		return kind != unix.ETH_P_IP && kind != unix.ETH_P_IPV6 && kind != unix.ETH_P_ARP
	}).Draw(t, "EtherType")
	return drawn{"other", ether(int(kind), frame.UDP4(ip4, w.member.IPv4, from, to, text)), false}
}

// TestRandomFramesOfAVM compares with a model: a frame reaches others only if its source
// MAC and its source IP, inside of ARP and neighbour discovery too, are the VM's.
func TestRandomFramesOfAVM(t *testing.T) {
	t.Parallel()
	w := newTapped(t, newFixture(t))
	echo(t, w.place, 7)
	began := time.Now()
	tried := 0
	rapid.Check(t, func(rt *rapid.T) {
		var f drawn
		container, vm := w.arrives(func(text string) {
			f = w.draw(rt, text)
			w.guest.send(f.frame)
		})
		if container != f.passes || vm != f.passes {
			rt.Fatalf("%s: arrives at the container is %v, at the VM %v, want %v: %x", f.why, container, vm, f.passes, f.frame)
		}
		tried++
	})
	t.Logf("%d frames in %s", tried, time.Since(began))
	w.unhurt()
}
