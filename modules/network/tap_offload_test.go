package network_test

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/internal/testing/frame"
)

// The places of fields in an Ethernet frame without a tag.
const (
	source6Last = 36 // the last word of an IPv6 packet's source
	tcp4Start   = 34
	largest     = 1514
)

// sumAs makes the kernel write a value, as the checksum from byte 20 on, at a place of a
// frame: the last word of the frame makes up for the rest.
func sumAs(f []byte, place int, value uint16) (vnet, []byte) {
	const start = 20
	f = slices.Clone(f)
	if len(f)%2 == 1 {
		f = append(f, 0)
	}
	f = append(f, 0, 0)
	// The sum of the rest and this word is the complement of the value.
	binary.BigEndian.PutUint16(f[len(f)-2:], 0)
	rest := ^frame.Sum(f[start:])
	total := uint32(^value) + uint32(^rest)
	binary.BigEndian.PutUint16(f[len(f)-2:], uint16(total>>16+total&0xffff))
	return vnet{flags: needsSum, sumStart: start, sumPlace: uint16(place - start)}, f
}

// forged are frames that are the guest's own until the kernel writes their checksum.
func (w *tapped) forged() map[string]func(text string) (vnet, []byte) {
	g := w.guest
	last := func(address string) uint16 { return binary.BigEndian.Uint16(frame.IP(address)[14:]) }
	return map[string]func(text string) (vnet, []byte){
		"a VM's IPv6 address": func(text string) (vnet, []byte) {
			return sumAs(w.ip6(g.IPv6)(text), source6Last, last(w.neighbour.IPv6))
		},
		"the gateway's IPv6 address": func(text string) (vnet, []byte) {
			return sumAs(w.ip6(g.IPv6)(text), source6Last, last(g.Gateway6))
		},
		"the gateway's address in ARP": func(text string) (vnet, []byte) {
			const senderLast = 30
			return sumAs(w.arp(2, g.MAC, g.IPv4)(text), senderLast, binary.BigEndian.Uint16(frame.IP(g.Gateway)[2:]))
		},
		"a router's advertisement": func(text string) (vnet, []byte) {
			const message = 54
			return sumAs(w.nd(g.IPv6, neighborSolicitation, g.IPv6)(text), message, routerAdvertisement<<8)
		},
		"the target of an advertisement": func(text string) (vnet, []byte) {
			const targetLast = 76
			return sumAs(w.nd(g.IPv6, neighborAdvertisement, g.IPv6)(text), targetLast, last(g.Gateway6))
		},
	}
}

// TestChecksumsOfAVM: the kernel writes a checksum where a VM wants it. It does so before
// the rules judge the frame, or the VM could forge any word of it.
func TestChecksumsOfAVM(t *testing.T) {
	t.Parallel()
	w := newTapped(t, newFixture(t))
	echo(t, w.place, 7)
	arrives := func(make func(text string) (vnet, []byte)) (container, vm bool) {
		return w.arrives(func(text string) {
			if err := w.guest.sendAs(make(text)); err != nil {
				t.Fatal(err)
			}
		})
	}
	for why, make := range w.forged() {
		if container, vm := arrives(make); container || vm {
			t.Errorf("arrives at the container is %v, at the VM %v: %s", container, vm, why)
		}
	}
	// What a driver asks for arrives, with its checksum.
	text := w.token()
	whole := w.guest.udp6(w.neighbour.MAC, w.neighbour.IPv6, 9, text)
	part := slices.Clone(whole)
	pseudo := slices.Concat(whole[22:54], []byte{0, 0}, whole[18:20], []byte{0, 0, 0, unix.IPPROTO_UDP})
	binary.BigEndian.PutUint16(part[60:], ^frame.Sum(pseudo))
	if err := w.guest.sendAs(vnet{flags: needsSum, sumStart: 54, sumPlace: 6}, part); err != nil {
		t.Fatal(err)
	}
	if !w.neighbour.receive(patience, func(f []byte) bool { return bytes.Equal(f, whole) }) {
		t.Error("a frame whose checksum was left to the kernel doesn't arrive as it should")
	}
	w.unhurt()
	// Without its intake the rules would judge the frame before.
	w.damage("tc qdisc del dev T ingress")
	for why, make := range w.forged() {
		if _, vm := arrives(make); !vm {
			t.Errorf("the test is broken: without the intake it doesn't arrive: %s", why)
		}
	}
	w.mended("isn't led through", false)
}

// tcp4 is a TCP packet to everybody, whose checksum and segments are left to the kernel.
func (w *tapped) tcp4(source string, payload []byte, segment int) (vnet, []byte) {
	return w.tcp4To(frame.Everybody, source, w.member.IPv4, payload, segment)
}

// tcp4To is the same to one neighbour. It may not be cut into fragments.
func (w *tapped) tcp4To(mac, source, to string, payload []byte, segment int) (vnet, []byte) {
	head := slices.Concat(frame.U16(1000), frame.U16(9), make([]byte, 8), []byte{5 << 4, 0x10, 1, 0, 0, 0, 0, 0})
	pseudo := slices.Concat(frame.IP(source), frame.IP(to), []byte{0, unix.IPPROTO_TCP}, frame.U16(len(head)+len(payload)))
	binary.BigEndian.PutUint16(head[16:], ^frame.Sum(pseudo))
	packet := frame.Packet4(source, to, append(head, payload...))
	const dontFragment = 0x40
	packet[6], packet[9], packet[10], packet[11] = dontFragment, unix.IPPROTO_TCP, 0, 0
	binary.BigEndian.PutUint16(packet[10:], frame.Sum(packet[:20]))
	f := frame.Ether(mac, w.guest.MAC, unix.ETH_P_IP, packet)
	return vnet{flags: needsSum, gso: gsoTCP4, header: tcp4Start + 20, segment: uint16(segment), sumStart: tcp4Start, sumPlace: 16}, f
}

// TestSegmentsOfAVM: a frame that the kernel has to cut into segments arrives cut, at
// containers and VMs. No segment is larger than a frame may be, or another's.
func TestSegmentsOfAVM(t *testing.T) {
	t.Parallel()
	w := newTapped(t, newFixture(t))
	echo(t, w.place, 7)
	for name, c := range map[string]struct {
		source        string
		size, segment int
		passes        bool
	}{
		"its own":                    {w.guest.IPv4, 60000, 1400, true},
		"of the largest size":        {w.guest.IPv4, 60000, largest - tcp4Start - 20, true},
		"of many segments":           {w.guest.IPv4, 20000, 88, true},
		"of segments that are large": {w.guest.IPv4, 60000, 9000, false},
		"of one large segment":       {w.guest.IPv4, 9000, 9000, false},
		"of a neighbour":             {w.neighbour.IPv4, 60000, 1400, false},
		"of the gateway":             {w.guest.Gateway, 60000, 1400, false},
	} {
		payload := make([]byte, c.size)
		for i := range payload {
			payload[i] = byte(i * 7 >> 3)
		}
		last := w.token()
		if err := w.guest.sendAs(w.tcp4(c.source, payload, c.segment)); err != nil {
			t.Logf("%s: refused: %v", name, err)
		}
		w.guest.send(w.ip4(w.guest.IPv4)(last))
		gather := func(at string) (*[]byte, func(f []byte) bool) {
			got := &[]byte{}
			return got, func(f []byte) bool {
				if len(f) >= 54 && f[12] == 8 && f[13] == 0 && f[23] == unix.IPPROTO_TCP {
					*got = append(*got, f[54:min(len(f), 14+int(binary.BigEndian.Uint16(f[16:])))]...)
					if len(f) > largest {
						t.Errorf("%s: a frame of %d bytes arrives at the %s", name, len(f), at)
					}
				}
				return hasText(f, last)
			}
		}
		atVM, see := gather("VM")
		if !w.neighbour.receive(patience, see) {
			t.Fatal("the guest isn't heard any more")
		}
		atContainer, see := gather("container")
		if !w.wire.Receive(patience, see) {
			t.Fatal("the guest isn't heard any more")
		}
		for at, got := range map[string][]byte{"VM": *atVM, "container": *atContainer} {
			if c.passes && !bytes.Equal(got, payload) || !c.passes && len(got) > 0 {
				t.Errorf("%s: %d of %d bytes arrive at the %s, want all is %v", name, len(got), c.size, at, c.passes)
			}
		}
	}
	w.unhurt()
}

// TestRandomHeadersOfAVM: whatever a VM writes before a frame, what arrives of it is its
// own, and neither its neighbours nor the node are hurt.
func TestRandomHeadersOfAVM(t *testing.T) {
	t.Parallel()
	w := newTapped(t, newFixture(t))
	echo(t, w.place, 7)
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	judge := func(f []byte) {
		if len(f) < 34 || !bytes.Equal(f[6:12], frame.MAC(w.guest.MAC)) {
			return // another's: of the gateway, the container
		}
		// A bridge forwards what is longer by a VLAN tag, too (Linux, __is_skb_forwardable).
		own := len(f) <= largest+4
		switch int(binary.BigEndian.Uint16(f[12:])) {
		case unix.ETH_P_IP:
			own = own && bytes.Equal(f[26:30], frame.IP(w.guest.IPv4))
		case unix.ETH_P_IPV6:
			source, asks := f[22:38], len(f) >= 78 && f[20] == unix.IPPROTO_ICMPV6 && f[54] == neighborSolicitation
			own = own && (bytes.Equal(source, frame.IP(w.guest.IPv6)) || bytes.Equal(source, frame.IP(local6(w.guest.MAC))) ||
				bytes.Equal(source, frame.IP("::")) && asks && bytes.Equal(f[62:78], frame.IP(w.guest.IPv6)))
		case unix.ETH_P_ARP:
			own = own && bytes.Equal(f[22:28], frame.MAC(w.guest.MAC)) && bytes.Equal(f[28:32], frame.IP(w.guest.IPv4))
		default:
			own = false
		}
		if !own {
			t.Errorf("seed %d: arrives: %x", seed, f[:min(len(f), 100)])
		}
	}
	for range 300 {
		makes := w.mayPass()
		text, last := w.token(), w.token()
		f := makes[random.IntN(len(makes))].make(text)
		f = append(f, make([]byte, random.IntN(3000))...)
		word := func(most int) uint16 { return uint16(random.IntN(most)) }
		head := vnet{
			flags: byte(random.IntN(4)), gso: []byte{0, gsoTCP4, 3, 4, gsoUDP, 0x80 | gsoTCP4, 0x84, 7}[random.IntN(8)],
			header: word(200), segment: word(3000), sumStart: word(80), sumPlace: word(40),
		}
		_ = w.guest.sendAs(head, f) // the kernel refuses many
		w.guest.send(w.ip4(w.guest.IPv4)(last))
		see := func(f []byte) bool { judge(f); return hasText(f, last) }
		if !w.wire.Receive(patience, see) || !w.neighbour.receive(patience, see) {
			t.Fatalf("seed %d: after %+v the guest isn't heard any more", seed, head)
		}
	}
	w.unhurt()
}
