package main_test

import (
	"bytes"
	"encoding/binary"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/net/icmp"
	"golang.org/x/net/ipv6"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/pkg/netns"
)

// wire is a raw socket on an interface.
type wire struct {
	w   *isolation
	fd  int
	mac net.HardwareAddr
}

func (w *isolation) newWire(ns, link string) *wire {
	w.Helper()
	out := &wire{w: w}
	const all = uint16(unix.ETH_P_ALL)<<8 | uint16(unix.ETH_P_ALL)>>8
	err := netns.Do(ns, func() error {
		l, err := netlink.LinkByName(link)
		if err != nil {
			return err
		}
		out.mac = l.Attrs().HardwareAddr
		if out.fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, int(all)); err != nil {
			return err
		}
		return unix.Bind(out.fd, &unix.SockaddrLinklayer{Protocol: all, Ifindex: l.Attrs().Index})
	})
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { _ = unix.Close(out.fd) })
	return out
}

func (s *wire) send(frame []byte) {
	s.w.Helper()
	frame = append(slices.Clone(frame), make([]byte, max(0, 60-len(frame)))...)
	if _, err := unix.Write(s.fd, frame); err != nil {
		s.w.Fatalf("cannot send a frame: %v", err)
	}
}

// sees waits until a frame contains one of the texts, and returns that text, or "".
func (s *wire) sees(texts ...string) string {
	buffer := make([]byte, 1<<16)
	timeout := unix.NsecToTimeval((100 * time.Millisecond).Nanoseconds())
	if err := unix.SetsockoptTimeval(s.fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &timeout); err != nil {
		s.w.Fatal(err)
	}
	for end := time.Now().Add(patience); time.Now().Before(end); {
		n, _, err := unix.Recvfrom(s.fd, buffer, 0)
		if err != nil {
			continue
		}
		for _, text := range texts {
			if bytes.Contains(buffer[:n], mark(text)) {
				return text
			}
		}
	}
	return ""
}

// mark delimits a text from neighbouring bytes.
func mark(text string) []byte { return slices.Concat([]byte{0}, []byte(text), []byte{0}) }

func u16(n int) []byte { return binary.BigEndian.AppendUint16(nil, uint16(n)) }

func raw(ip string) []byte { return netip.MustParseAddr(ip).AsSlice() }

// Packets as they are on the wire. Checksums are never verified: a bridge doesn't, and the other end is
// a raw socket.
func ether(to, from net.HardwareAddr, kind int, payload []byte) []byte {
	return slices.Concat(to, from, u16(kind), payload)
}

func packet(from, to string, protocol int, payload []byte) (kind int, out []byte) {
	if strings.Contains(from, ":") {
		return unix.ETH_P_IPV6, slices.Concat([]byte{0x60, 0, 0, 0}, u16(len(payload)), []byte{byte(protocol), 255}, raw(from), raw(to), payload)
	}
	head := slices.Concat([]byte{0x45, 0}, u16(20+len(payload)), []byte{0, 1, 0, 0, 64, byte(protocol), 0, 0}, raw(from), raw(to))
	return unix.ETH_P_IP, append(head, payload...)
}

func datagram(source, destination int, text string) []byte {
	body := mark(text)
	return slices.Concat(u16(source), u16(destination), u16(8+len(body)), []byte{0, 0}, body)
}

func discovery(kind byte, target, text string) []byte {
	return slices.Concat([]byte{kind, 0, 0, 0, 0x60, 0, 0, 0}, raw(target), []byte{253, 4}, mark(text), make([]byte, 30-len(mark(text))))
}

// frame is a line of the specification: a frame from a member to its neighbour.
type frame struct {
	why  string
	make func(text string) []byte
}

// frames are those that a member may send, and those that it mustn't.
func (w *isolation) frames(name string, own, to *wire) (may, mayNot []frame) {
	me, him := w.places[name], w.places["a2"]
	gateway := w.places["A's gateway"]
	from := func(why string, mac net.HardwareAddr, source, target string, protocol int, payload func(text string) []byte) frame {
		return frame{why, func(text string) []byte {
			kind, p := packet(source, target, protocol, payload(text))
			return ether(to.mac, mac, kind, p)
		}}
	}
	data := func(text string) []byte { return datagram(1000, 9, text) }
	udp := func(why string, mac net.HardwareAddr, source string) frame {
		if strings.Contains(source, ":") {
			return from(why, mac, source, him.ip6, unix.IPPROTO_UDP, data)
		}
		return from(why, mac, source, him.ip4, unix.IPPROTO_UDP, data)
	}
	arp := func(why string, operation int, ip string) frame {
		return frame{why, func(text string) []byte {
			return ether(bytes.Repeat([]byte{0xff}, 6), own.mac, unix.ETH_P_ARP, slices.Concat(
				[]byte{0, 1, 8, 0, 6, 4}, u16(operation), own.mac, raw(ip), make([]byte, 6), raw(him.ip4), mark(text)))
		}}
	}
	nd := func(why, source string, kind byte, target string) frame {
		return from(why, own.mac, source, him.ip6, unix.IPPROTO_ICMPV6, func(text string) []byte { return discovery(kind, target, text) })
	}
	port := func(why, source string, a, b int) frame {
		target := him.ip4
		if strings.Contains(source, ":") {
			target = him.ip6
		}
		return from(why, own.mac, source, target, unix.IPPROTO_UDP, func(text string) []byte { return datagram(a, b, text) })
	}
	gatewayMAC := w.newWire(gateway.ns, "br0").mac
	may = []frame{
		udp("its own packet", own.mac, me.ip4), udp("its own packet", own.mac, me.ip6),
		arp("it says where it is", 2, me.ip4), nd("it says where it is", me.ip6, 136, me.ip6),
	}
	mayNot = []frame{
		udp("another MAC", net.HardwareAddr{2, 0, 0, 0, 7, 7}, me.ip4), udp("the gateway's MAC", gatewayMAC, me.ip4), udp("the neighbour's MAC", to.mac, me.ip4),
		udp("another member's address", own.mac, w.places["pa"].ip4), udp("another member's address", own.mac, w.places["pa"].ip6),
		udp("the gateway's address", own.mac, gateway.ip4), udp("the gateway's address", own.mac, gateway.ip6),
		udp("a free address", own.mac, "10.1.2.77"), udp("an outsider's address", own.mac, "203.0.113.80"),
		arp("ARP that claims the gateway", 2, gateway.ip4), arp("ARP that asks as the gateway", 1, gateway.ip4), arp("ARP that claims a member", 2, w.places["pa"].ip4),
		nd("an advertisement that claims the gateway", me.ip6, 136, gateway.ip6), nd("an advertisement that claims a member", me.ip6, 136, w.places["pa"].ip6),
		nd("a router's advertisement", me.ip6, 134, "::"), nd("a redirect", me.ip6, 137, gateway.ip6),
		port("a DHCP server's answer", me.ip4, 67, 68), port("a DHCPv6 server's answer", me.ip6, 547, 546),
	}
	return may, mayNot
}

// sendFrames lets a member, and a VM, send all frames. All of the forbidden ones arrive, or none.
func (w *isolation) sendFrames(arrives bool) {
	w.Helper()
	to := w.newWire(w.places["a2"].ns, "eth0")
	for _, name := range []string{"a1", "vm"} {
		own := w.newWire(w.places[name].ns, "eth0")
		may, mayNot := w.frames(name, own, to)
		for _, f := range may {
			text := w.token()
			own.send(f.make(text))
			if to.sees(text) == "" {
				w.Errorf("%s: doesn't pass: %s", name, f.why)
			}
		}
		for _, f := range mayNot {
			// A permitted frame follows, which shows when the first one would have arrived.
			text, last := w.token(), w.token()
			own.send(f.make(text))
			own.send(may[0].make(last))
			if got := to.sees(text, last); (got == text) != arrives {
				w.Errorf("%s: passes is %v, must be %v: %s", name, got == text, arrives, f.why)
			}
		}
	}
}

// steal sends a frame in the name of a2 that bypasses the rules, and returns the port where the bridge
// then believes a2 to be, and a2's real port.
func (w *isolation) steal() (believed, port string) {
	w.Helper()
	a1, a2 := w.newWire(w.places["a1"].ns, "eth0"), w.newWire(w.places["a2"].ns, "eth0")
	ns := w.networks["A"].Namespace
	lldp := net.HardwareAddr{0x01, 0x80, 0xc2, 0, 0, 0x0e}
	a1.send(ether(lldp, a2.mac, unix.ETH_P_LLDP, mark("steal")))
	may, _ := w.frames("a1", a1, a2)
	last := w.token()
	a1.send(may[2].make(last)) // to all, and seen by the bridge after the first one
	if a2.sees(last) == "" {
		w.Fatal("a1 isn't heard")
	}
	for line := range strings.Lines(w.inNamespace(ns, "bridge", "fdb", "show", "br", "br0")) {
		fields := strings.Fields(line)
		if len(fields) > 2 && fields[0] == a2.mac.String() {
			believed = fields[2]
		}
	}
	return believed, w.portOf("a2")
}

// portOf is a member's bridge port: the other end of its link.
func (w *isolation) portOf(name string) string {
	w.Helper()
	var index int
	err := netns.Do(w.places[name].ns, func() error {
		l, err := netlink.LinkByName("eth0")
		if err == nil {
			index = l.Attrs().ParentIndex
		}
		return err
	})
	if err != nil {
		w.Fatal(err)
	}
	var port string
	err = netns.Do(w.networks["A"].Namespace, func() error {
		l, err := netlink.LinkByIndex(index)
		if err == nil {
			port = l.Attrs().Name
		}
		return err
	})
	if err != nil {
		w.Fatal(err)
	}
	return port
}

// advertise sends a router advertisement to the node on pa's public interface, and reports whether the
// node accepts it.
func (w *isolation) advertise(wait time.Duration) bool {
	w.Helper()
	ns := w.places["pa"].ns
	var conn *icmp.PacketConn
	err := netns.Do(ns, func() (err error) {
		if conn, err = icmp.ListenPacket("ip6:ipv6-icmp", "::"); err != nil {
			return err
		}
		link, err := netlink.LinkByName("pub0")
		if err != nil {
			return err
		}
		if err := conn.IPv6PacketConn().SetMulticastHopLimit(255); err != nil {
			return err
		}
		return conn.IPv6PacketConn().SetMulticastInterface(&net.Interface{Index: link.Attrs().Index})
	})
	if err != nil {
		w.Fatal(err)
	}
	defer conn.Close()
	message, err := (&icmp.Message{Type: ipv6.ICMPTypeRouterAdvertisement, Body: &icmp.RawBody{Data: []byte{64, 0, 7, 8, 0, 0, 0, 0, 0, 0, 0, 0}}}).Marshal(nil)
	if err != nil {
		w.Fatal(err)
	}
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(wait); time.Now().Before(end); <-tick.C {
		if _, err := conn.WriteTo(message, &net.IPAddr{IP: net.IPv6linklocalallnodes}); err != nil {
			w.Fatal(err)
		}
		if strings.TrimSpace(w.inNamespace(w.at.Path(), "ip", "-6", "route", "show", "default", "proto", "ra")) != "" {
			return true
		}
	}
	return false
}
