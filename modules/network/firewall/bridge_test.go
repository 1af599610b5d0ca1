package firewall

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/internal/testing/frame"
)

// The link-local addresses that are made of the MACs of the test's members.
const (
	localA1 = "fe80::ff:fe00:10a"
	localA2 = "fe80::ff:fe00:10b"
)

func TestLinkLocalAddressOfAMAC(t *testing.T) {
	for hardware, want := range map[string]string{
		macA1: localA1, macA2: localA2, "34:56:78:9a:bc:de": "fe80::3656:78ff:fe9a:bcde",
	} {
		if got := linkLocal(frame.MAC(hardware)); got != netip.MustParseAddr(want) {
			t.Errorf("%s: %s, want %s", hardware, got, want)
		}
	}
}

// frameFrom is a line of the specification: a frame that a1 sends to a2.
type frameFrom struct {
	why  string
	make func(text string) []byte
}

// own makes an Ethernet frame of a1's to a2.
func own(kind int, payload func(text string) []byte) func(string) []byte {
	return func(text string) []byte { return frame.Ether(macA2, macA1, kind, payload(text)) }
}

func ip4From(source string) func(string) []byte {
	return own(unix.ETH_P_IP, func(text string) []byte { return frame.UDP4(source, "10.1.1.3", 1000, 9, text) })
}

func ip6From(source string) func(string) []byte {
	return own(unix.ETH_P_IPV6, func(text string) []byte { return frame.UDP6(source, "fd11::3", 1000, 9, text) })
}

func ndFrom(source string, kind byte, target string) func(string) []byte {
	return own(unix.ETH_P_IPV6, func(text string) []byte { return frame.ND(source, "fd11::3", kind, target, text) })
}

func arpFrom(operation int, senderMAC, senderIP string) func(string) []byte {
	return func(text string) []byte { return arpFrame(macA1, operation, senderMAC, senderIP, text) }
}

func mayPass() []frameFrom {
	return []frameFrom{
		{"IPv4 from its address", ip4From("10.1.1.2")},
		{"IPv6 from its address", ip6From("fd11::2")},
		{"IPv6 from the link-local address of its MAC", ip6From(localA1)},
		{"multicast", own(unix.ETH_P_IP, func(text string) []byte { return frame.UDP4("10.1.1.2", "224.0.0.251", 5353, 5353, text) })},
		{"ARP asks in its name", arpFrom(1, macA1, "10.1.1.2")},
		{"ARP answers in its name", arpFrom(2, macA1, "10.1.1.2")},
		{"asks for a neighbour", ndFrom("fd11::2", neighborSolicitation, "fd11::3")},
		{"asks for a neighbour, link-local", ndFrom(localA1, neighborSolicitation, "fd11::1")},
		{"asks whether its address is free", ndFrom("::", neighborSolicitation, "fd11::2")},
		{"asks whether its link-local address is free", ndFrom("::", neighborSolicitation, localA1)},
		{"says where it is", ndFrom("fd11::2", neighborAdvertisement, "fd11::2")},
		{"says where it is, link-local", ndFrom(localA1, neighborAdvertisement, "fd11::2")},
	}
}

// hopByHop puts the header that routers look into before a message.
func hopByHop(from string, kind byte) func(string) []byte {
	return own(unix.ETH_P_IPV6, func(text string) []byte {
		options := []byte{unix.IPPROTO_ICMPV6, 0, 1, 4, 0, 0, 0, 0}
		return frame.Packet6(from, "fd11::3", unix.IPPROTO_HOPOPTS, append(options, frame.Neighbor(from, "fd11::3", kind, "fd11::1", text)...))
	})
}

func tagged(kind int) func(string) []byte {
	return own(kind, func(text string) []byte {
		return slices.Concat([]byte{0, 5}, frame.U16(unix.ETH_P_IP), frame.UDP4("10.1.1.2", "10.1.1.3", 1000, 9, text))
	})
}

func mayNot() []frameFrom {
	const zero = "00:00:00:00:00:00"
	return []frameFrom{
		{"another MAC", func(text string) []byte {
			return frame.Ether(macA2, "02:00:00:00:77:77", unix.ETH_P_IP, frame.UDP4("10.1.1.2", "10.1.1.3", 1000, 9, text))
		}},
		{"the gateway's MAC", func(text string) []byte {
			return frame.Ether(macA2, macBridge, unix.ETH_P_IP, frame.UDP4("10.1.1.2", "10.1.1.3", 1000, 9, text))
		}},
		{"a free IPv4 address", ip4From("10.1.1.9")},
		{"the gateway's IPv4 address", ip4From("10.1.1.1")},
		{"a neighbour's IPv4 address", ip4From("10.1.1.3")},
		{"an outsider's IPv4 address", ip4From("8.8.8.8")},
		{"no IPv4 address", ip4From("0.0.0.0")},
		{"a free IPv6 address", ip6From("fd11::9")},
		{"the gateway's IPv6 address", ip6From("fd11::1")},
		{"a neighbour's link-local address", ip6From(localA2)},
		{"no IPv6 address", ip6From("::")},
		{"ARP for the gateway", arpFrom(2, macA1, "10.1.1.1")},
		{"ARP asks as the gateway", arpFrom(1, macA1, "10.1.1.1")},
		{"ARP for a neighbour", arpFrom(2, macA1, "10.1.1.3")},
		{"ARP with another MAC inside", arpFrom(2, macA2, "10.1.1.2")},
		{"ARP with no MAC inside", arpFrom(2, zero, "10.1.1.2")},
		{"ARP without an address", arpFrom(1, macA1, "0.0.0.0")},
		{"ARP of something else than IPv4", own(unix.ETH_P_ARP, func(text string) []byte {
			return slices.Concat([]byte{0, 6, 8, 0, 6, 4, 0, 2}, frame.MAC(macA1), frame.IP("10.1.1.2"), make([]byte, 10), frame.Mark(text))
		})},
		{"says where the gateway is", ndFrom("fd11::2", neighborAdvertisement, "fd11::1")},
		{"says where a neighbour is", ndFrom(localA1, neighborAdvertisement, "fd11::3")},
		{"says as the gateway where itself is", ndFrom("fd11::1", neighborAdvertisement, "fd11::2")},
		{"asks as the gateway", ndFrom("fd11::1", neighborSolicitation, "fd11::3")},
		{"asks whether the gateway's address is free", ndFrom("::", neighborSolicitation, "fd11::1")},
		{"says that it is a router", ndFrom(localA1, routerAdvertisement, "::")},
		{"redirects", ndFrom(localA1, redirect6, "fd11::1")},
		{"says that it is a router, behind another header", hopByHop(localA1, routerAdvertisement)},
		{"says where the gateway is, behind another header", hopByHop("fd11::2", neighborAdvertisement)},
		{"a DHCP server's answer", own(unix.ETH_P_IP, func(text string) []byte { return frame.UDP4("10.1.1.2", "10.1.1.3", 67, 68, text) })},
		{"a DHCP server's answer from elsewhere", own(unix.ETH_P_IP, func(text string) []byte { return frame.UDP4("10.1.1.2", "10.1.1.3", 1067, 68, text) })},
		{"a DHCP server's answer to a relay", own(unix.ETH_P_IP, func(text string) []byte { return frame.UDP4("10.1.1.2", "10.1.1.3", 67, 67, text) })},
		{"a DHCPv6 server's answer", own(unix.ETH_P_IPV6, func(text string) []byte { return frame.UDP6(localA1, localA2, 547, 546, text) })},
		{"a DHCPv6 server's answer from elsewhere", own(unix.ETH_P_IPV6, func(text string) []byte { return frame.UDP6(localA1, localA2, 1547, 546, text) })},
		{"a DHCPv6 server's answer to a relay", own(unix.ETH_P_IPV6, func(text string) []byte { return frame.UDP6(localA1, localA2, 547, 547, text) })},
		{"a VLAN", tagged(unix.ETH_P_8021Q)},
		{"a VLAN of a provider", tagged(unix.ETH_P_8021AD)},
		{"PPP", own(unix.ETH_P_PPP_SES, func(text string) []byte { return frame.Mark(text) })},
		{"MPLS", own(unix.ETH_P_MPLS_UC, func(text string) []byte { return frame.Mark(text) })},
		{"LLDP", own(unix.ETH_P_LLDP, func(text string) []byte { return frame.Mark(text) })},
		{"a frame with its length", own(46, func(text string) []byte { return frame.Mark(text) })},
	}
}

func TestMemberSourceFilter(t *testing.T) {
	w := newWorld(t)
	sender, receiver := newWire(t, w.ns["a1"], "eth0"), newWire(t, w.ns["a2"], "eth0")
	for _, f := range slices.Concat(mayPass(), mayNot()) {
		text := w.heard.token()
		sender.Send(f.make(text))
		if receiver.Sees(patience, text) == "" {
			t.Errorf("the world is broken: without rules it doesn't pass: %s", f.why)
		}
	}
	w.applyAll()
	for _, f := range mayPass() {
		text := w.heard.token()
		sender.Send(f.make(text))
		if receiver.Sees(patience, text) == "" {
			t.Errorf("must pass: %s", f.why)
		}
	}
	for _, f := range mayNot() {
		text, last := w.heard.token(), w.heard.token()
		sender.Send(f.make(text))
		// One that passes, so that it is known when the first one would be there.
		sender.Send(ip4From("10.1.1.2")(last))
		if got := receiver.Sees(patience, text, last); got != last {
			t.Errorf("must not pass (%q came): %s", got, f.why)
		}
	}
}

// Frames from an unknown port are dropped, also those with another port's source
// address.
func TestUnknownPort(t *testing.T) {
	w := newWorld(t)
	stranger := w.lab.Namespace("stranger")
	w.ns["stranger"] = stranger
	w.lab.Veth(w.ns["A"], "m3", stranger, "eth0")
	w.ns["A"].Attach("m3", "br0")
	const own = "02:00:00:00:01:0c"
	stranger.SetMAC("eth0", own)
	sender, receiver := newWire(t, stranger, "eth0"), newWire(t, w.ns["a2"], "eth0")
	frames := []frameFrom{
		{"from itself", func(text string) []byte {
			return frame.Ether(macA2, own, unix.ETH_P_IP, frame.UDP4("10.1.1.4", "10.1.1.3", 1000, 9, text))
		}},
		{"as a1", ip4From("10.1.1.2")},
		{"ARP", func(text string) []byte { return arpFrame(own, 1, own, "10.1.1.4", text) }},
	}
	try := func(pass bool) {
		t.Helper()
		for _, f := range frames {
			wait := quiet
			if pass {
				wait = patience
			}
			text := w.heard.token()
			sender.Send(f.make(text))
			if got := receiver.Sees(wait, text) != ""; got != pass {
				t.Errorf("passes is %v, want %v: %s", got, pass, f.why)
			}
		}
	}
	try(true)
	w.applyAll()
	try(false)
	w.apply("A", w.rulesA(Port{Name: "m3", MAC: frame.MAC(own), IPs: []netip.Addr{netip.MustParseAddr("10.1.1.4")}}).tables())
	frames = slices.Delete(frames, 1, 2)
	try(true)
}

// The bridge learns source addresses from frames to its own group addresses too,
// which no other port gets: with one of them a member could take another's
// place. Rules can drop all but LLDP's. No rule sees LLDP's, so learning is off on
// ports, and the forwarding entries are static.
func TestStealingANeighboursAddress(t *testing.T) {
	const pae, lldp = "01:80:c2:00:00:03", "01:80:c2:00:00:0e"
	w := newWorld(t)
	a := w.ns["A"]
	sender, neighbour := newWire(t, w.ns["a1"], "eth0"), newWire(t, w.ns["a2"], "eth0")
	// After steal, the bridge believes that a2 is where it returns.
	steal := func(group string) string {
		t.Helper()
		home, last := w.heard.token(), w.heard.token()
		receiver := newWire(t, w.ns["a1"], "eth0")
		// Nobody answers to a multicast: the bridge learns from this frame only.
		neighbour.Send(frame.Ether(frame.Everybody, macA2, unix.ETH_P_IP, frame.UDP4("10.1.1.3", "224.0.0.251", 5353, 5353, home)))
		if receiver.Sees(patience, home) == "" {
			t.Fatal("a2 isn't heard")
		}
		sender.Send(frame.Ether(group, macA2, unix.ETH_P_LLDP, frame.Mark("steal")))
		// The bridge sees this one later, and a2 gets it wherever it is believed to be.
		sender.Send(frame.Ether(frame.Everybody, macA1, unix.ETH_P_IP, frame.UDP4("10.1.1.2", "224.0.0.251", 5353, 5353, last)))
		if neighbour.Sees(patience, last) == "" {
			t.Fatal("a1 isn't heard")
		}
		return w.portOf(macA2)
	}
	for _, group := range []string{pae, lldp} {
		if port := steal(group); port != "m1" {
			t.Errorf("the world is broken: without rules a frame to %s leaves a2 at %s", group, port)
		}
	}
	w.applyAll()
	if port := steal(pae); port != "m2" {
		t.Errorf("after a frame to %s the bridge believes that a2 is at %s", pae, port)
	}
	for port, hardware := range map[string]string{"m1": macA1, "m2": macA2} {
		if err := a.Netlink().LinkSetLearning(a.Link(port), false); err != nil {
			t.Fatal(err)
		}
		entry := &netlink.Neigh{
			LinkIndex: a.Link(port).Attrs().Index, Family: unix.AF_BRIDGE, State: netlink.NUD_NOARP,
			Flags: netlink.NTF_MASTER, HardwareAddr: frame.MAC(hardware),
		}
		if err := a.Netlink().NeighSet(entry); err != nil {
			t.Fatal(err)
		}
	}
	if port := steal(lldp); port != "m2" {
		t.Errorf("after a frame to %s, to ports that don't learn, the bridge believes that a2 is at %s", lldp, port)
	}
}

// portOf is the port where A's bridge believes a MAC to be.
func (w *world) portOf(hardware string) string {
	w.t.Helper()
	a := w.ns["A"]
	entries, err := a.Netlink().NeighList(0, unix.AF_BRIDGE)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, e := range entries {
		if e.HardwareAddr.String() != hardware || e.Flags&netlink.NTF_MASTER == 0 && e.State&netlink.NUD_PERMANENT != 0 {
			continue
		}
		link, err := a.Netlink().LinkByIndex(e.LinkIndex)
		if err != nil {
			w.t.Fatal(err)
		}
		return link.Attrs().Name
	}
	return "nowhere"
}
