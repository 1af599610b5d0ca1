package firewall

import (
	"encoding/binary"
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/internal/testing/netlab"
)

// wire is a raw socket on an interface.
type wire struct {
	t  testing.TB
	fd int
}

func newWire(t testing.TB, n *netlab.Namespace, iface string) *wire {
	t.Helper()
	w := &wire{t: t}
	all := uint16(unix.ETH_P_ALL)<<8 | uint16(unix.ETH_P_ALL)>>8
	index := n.Link(iface).Attrs().Index
	n.Do(func() {
		var err error
		w.fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, int(all))
		if err != nil {
			t.Fatal(err)
		}
	})
	t.Cleanup(func() { unix.Close(w.fd) })
	if err := unix.Bind(w.fd, &unix.SockaddrLinklayer{Protocol: all, Ifindex: index}); err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *wire) send(frame []byte) {
	w.t.Helper()
	// No frame on a wire is shorter.
	frame = append(slices.Clone(frame), make([]byte, max(0, 60-len(frame)))...)
	if _, err := unix.Write(w.fd, frame); err != nil {
		w.t.Fatalf("cannot send a frame: %v", err)
	}
}

// sees waits until one of the texts is in a frame, and says which, or "".
func (w *wire) sees(wait time.Duration, texts ...string) string {
	w.t.Helper()
	found := ""
	w.receive(wait, func(frame []byte) bool {
		for _, text := range texts {
			if slices.Contains(splitText(frame), text) {
				found = text
			}
		}
		return found != ""
	})
	return found
}

// hears waits for a frame.
func (w *wire) hears(it func(frame []byte) bool) bool {
	w.t.Helper()
	return w.receive(patience, it)
}

// receive takes frames until enough says that it is.
func (w *wire) receive(wait time.Duration, enough func(frame []byte) bool) bool {
	w.t.Helper()
	buf := make([]byte, 65536)
	for end := time.Now().Add(wait); ; {
		left := time.Until(end)
		if left <= 0 {
			return false
		}
		timeout := unix.NsecToTimeval(left.Nanoseconds() + 1000)
		if err := unix.SetsockoptTimeval(w.fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &timeout); err != nil {
			w.t.Fatal(err)
		}
		if size, _, err := unix.Recvfrom(w.fd, buf, 0); err == nil && enough(buf[:size]) {
			return true
		}
	}
}

// splitText are the runs of printable characters.
func splitText(data []byte) []string {
	var out []string
	start := 0
	for i := 0; i <= len(data); i++ {
		if i < len(data) && data[i] > ' ' && data[i] < 0x7f {
			continue
		}
		if i > start {
			out = append(out, string(data[start:i]))
		}
		start = i + 1
	}
	return out
}

func mac(text string) net.HardwareAddr {
	out, err := net.ParseMAC(text)
	if err != nil {
		panic(err)
	}
	return out
}

func ip(text string) []byte { return netip.MustParseAddr(text).AsSlice() }

func addrText(raw []byte) string {
	addr, _ := netip.AddrFromSlice(raw)
	return addr.String()
}

func u16(n int) []byte { return binary.BigEndian.AppendUint16(nil, uint16(n)) }

func ether(to, from string, kind int, payload []byte) []byte {
	return slices.Concat(mac(to), mac(from), u16(kind), payload)
}

const everybody = "ff:ff:ff:ff:ff:ff"

func arpFrame(from string, operation int, senderMAC, senderIP, text string) []byte {
	return ether(everybody, from, unix.ETH_P_ARP, slices.Concat(
		[]byte{0, 1, 8, 0, 6, 4}, u16(operation), mac(senderMAC), ip(senderIP), make([]byte, 6), ip("10.1.1.3"), mark(text)))
}

// mark separates a text from the text around it.
func mark(text string) []byte { return slices.Concat([]byte{0}, []byte(text), []byte{0}) }

func sum(parts ...[]byte) uint16 {
	data := slices.Concat(parts...)
	if len(data)%2 == 1 {
		data = append(data, 0)
	}
	var total uint32
	for i := 0; i < len(data); i += 2 {
		total += uint32(binary.BigEndian.Uint16(data[i:]))
	}
	for total>>16 != 0 {
		total = total>>16 + total&0xffff
	}
	return ^uint16(total)
}

func packet4(from, to string, payload []byte) []byte {
	head := slices.Concat([]byte{0x45, 0}, u16(20+len(payload)), []byte{0, 1, 0, 0, 64, unix.IPPROTO_UDP, 0, 0}, ip(from), ip(to))
	binary.BigEndian.PutUint16(head[10:], sum(head))
	return append(head, payload...)
}

func udp4(from, to string, source, destination int, text string) []byte {
	body := mark(text)
	return packet4(from, to, slices.Concat(u16(source), u16(destination), u16(8+len(body)), []byte{0, 0}, body))
}

func packet6(from, to string, next int, payload []byte) []byte {
	return slices.Concat([]byte{0x60, 0, 0, 0}, u16(len(payload)), []byte{byte(next), 255}, ip(from), ip(to), payload)
}

// upper fills in the checksum, at a place of the payload, of a protocol on IPv6.
func upper(from, to string, protocol, at int, payload []byte) []byte {
	pseudo := slices.Concat(ip(from), ip(to), []byte{0, 0}, u16(len(payload)), []byte{0, 0, 0, byte(protocol)})
	binary.BigEndian.PutUint16(payload[at:], sum(pseudo, payload))
	return payload
}

func udp6(from, to string, source, destination int, text string) []byte {
	body := mark(text)
	payload := slices.Concat(u16(source), u16(destination), u16(8+len(body)), []byte{0, 0}, body)
	return packet6(from, to, unix.IPPROTO_UDP, upper(from, to, unix.IPPROTO_UDP, 6, payload))
}

// neighbor is a message of neighbour discovery, with the text as an option that
// nobody knows.
func neighbor(from, to string, kind byte, target, text string) []byte {
	option := make([]byte, 24)
	copy(option[2:], mark(text))
	option[0], option[1] = 253, 3
	return upper(from, to, unix.IPPROTO_ICMPV6, 2, slices.Concat([]byte{kind, 0, 0, 0, 0, 0, 0, 0}, ip(target), option))
}

func nd(from, to string, kind byte, target, text string) []byte {
	return packet6(from, to, unix.IPPROTO_ICMPV6, neighbor(from, to, kind, target, text))
}
