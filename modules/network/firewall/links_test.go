package firewall

import (
	"encoding/binary"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/internal/testing/frame"
)

// Neighbours are asked for in three ways, on a public interface and an uplink.
func TestTheNodeIsFoundByItsNeighbours(t *testing.T) {
	w := newWorld(t)
	w.apply("node", nodeRules().tables())
	for _, c := range []struct{ ns, iface, end, target, own string }{
		{"pubA", "eth0", publicA, "fe80::1", "2001:db8:aa::a"},
		{"A", "up0", uplinkA, "fdc7::", "fdc7::1"},
	} {
		hardware := w.ns[c.ns].MAC(c.iface)
		local := linkLocal(hardware).String()
		line := newWire(t, w.ns[c.ns], c.iface)
		for _, source := range []string{c.own, local, "::"} {
			target := slices.Concat([]byte{neighborAdvertisement}, frame.IP(c.target))
			question := slices.Concat([]byte{neighborSolicitation, 0, 0, 0, 0, 0, 0, 0}, frame.IP(c.target))
			if source != "::" {
				// Where the answer goes to.
				question = slices.Concat(question, []byte{1, 1}, hardware)
			}
			group := solicited(c.target)
			line.Send(frame.Ether(w.ns["node"].MAC(c.end).String(), hardware.String(), unix.ETH_P_IPV6,
				frame.Packet6(source, group, unix.IPPROTO_ICMPV6, frame.Upper(source, group, unix.IPPROTO_ICMPV6, 2, question))))
			if !line.Receive(patience, func(got []byte) bool {
				// Ethernet, IPv6, then the message: its type and its target.
				return len(got) >= 78 && got[20] == unix.IPPROTO_ICMPV6 && slices.Equal(target, slices.Concat(got[54:55], got[62:78]))
			}) {
				t.Errorf("%s asks as %s for %s and gets no answer", c.ns, source, c.target)
			}
		}
	}
}

// solicited is the group that an address's owner listens to.
func solicited(address string) string {
	last := frame.IP(address)[13:]
	group := append([]byte{0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff}, last...)
	return addrText(group)
}

// And routers find their neighbours: they have forgotten where they are.
func TestRoutersFindTheirNeighbours(t *testing.T) {
	w := newWorld(t)
	w.serveAll()
	w.applyAll()
	for _, f := range []flow{
		{from: "out", to: "2001:db8:aa::a", network: "udp", port: udpPort, why: "a public member is found"},
		{from: "out", source: "fd99::9", to: "2001:db8:aa::a", network: "udp", port: udpPort, why: "who is on the LAN gets its answer"},
		{from: "peer", to: "fd11::2", network: "udp", port: udpPort, why: "a member is found"},
		{from: "a1", to: outIP6, network: "udp", port: udpPort, why: "the node is found"},
	} {
		w.ns["node"].Run("ip", "-6", "neigh", "flush", "all")
		w.ns["A"].Run("ip", "-6", "neigh", "flush", "all")
		if ok, _ := w.answered(f, patience); !ok {
			t.Errorf("must pass: %s", f)
		}
	}
}

// A segment of no connection can't be translated: it would get out as it is.
func TestUntrackedSegmentsAreDropped(t *testing.T) {
	w := newWorld(t)
	for _, c := range []struct {
		why, from, to, fromIP, toIP, fromMAC, gatewayMAC string
		rules                                            func()
	}{
		{
			"a public member's", "pubA", "out", "2001:db8:aa::a", outIP6, w.ns["pubA"].MAC("eth0").String(), w.ns["node"].MAC(publicA).String(),
			func() { w.apply("node", nodeRules().tables()) },
		},
		{
			"an outsider's", "out", "pubA", outIP6, "2001:db8:aa::a", w.ns["out"].MAC("eth0").String(), w.ns["node"].MAC("eth0").String(),
			func() { w.apply("node", nodeRules().tables()) },
		},
		{
			"a member's", "a1", "out", "fd11::2", outIP6, macA1, w.ns["A"].MAC("br0").String(),
			func() { w.apply("A", w.rulesA().tables()) },
		},
	} {
		if err := RemoveNode(w.ns["node"].Path(), table1); err != nil {
			t.Log(err)
		}
		sender, receiver := newWire(t, w.ns[c.from], "eth0"), newWire(t, w.ns[c.to], "eth0")
		send := func(flags byte, port int, text string) {
			sender.Send(frame.Ether(c.gatewayMAC, c.fromMAC, unix.ETH_P_IPV6, tcp6(c.fromIP, c.toIP, port, flags, text)))
		}
		const syn, synAck = 0x02, 0x12
		text := w.heard.token()
		send(synAck, 1, text)
		if receiver.Sees(patience, text) == "" {
			t.Errorf("the world is broken: without rules it doesn't pass: %s", c.why)
		}
		c.rules()
		text, last := w.heard.token(), w.heard.token()
		send(synAck, 2, text)
		send(syn, 3, last)
		if got := receiver.Sees(patience, text, last); got != last {
			t.Errorf("must not pass (%q came): %s", got, c.why)
		}
	}
}

// tcp6 is a segment from a port to another, with these flags.
func tcp6(from, to string, port int, flags byte, text string) []byte {
	head := slices.Concat(frame.U16(2000+port), frame.U16(3000+port), binary.BigEndian.AppendUint64(nil, 1<<32), []byte{5 << 4, flags, 4, 0, 0, 0, 0, 0})
	return frame.Packet6(from, to, unix.IPPROTO_TCP, frame.Upper(from, to, unix.IPPROTO_TCP, 16, append(head, frame.Mark(text)...)))
}
