// Package frame makes Ethernet frames for tests, sends them on a link and sees those that come. The makers of
// frames panic on addresses that are none. Only tests import it.
package frame

import (
	"encoding/binary"
	"net"
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"
)

// MAC is an Ethernet address of its text.
func MAC(text string) net.HardwareAddr {
	out, err := net.ParseMAC(text)
	if err != nil {
		panic(err)
	}
	return out
}

// IP is the bytes of an IP address: 4 or 16.
func IP(text string) []byte { return netip.MustParseAddr(text).AsSlice() }

// U16 is a number in network byte order.
func U16(n int) []byte { return binary.BigEndian.AppendUint16(nil, uint16(n)) }

// Ether is an Ethernet frame without its check sequence. kind is its EtherType, or a length.
func Ether(to, from string, kind int, payload []byte) []byte {
	return slices.Concat(MAC(to), MAC(from), U16(kind), payload)
}

// Everybody is the broadcast address.
const Everybody = "ff:ff:ff:ff:ff:ff"

// Sender is what an ARP frame says about its sender.
type Sender struct{ MAC, IP string }

// ARP is a broadcast ARP frame about IPv4, from a MAC, with a text behind it.
func ARP(from string, operation int, sender Sender, target, text string) []byte {
	return Ether(Everybody, from, unix.ETH_P_ARP, slices.Concat(
		[]byte{0, 1, 8, 0, 6, 4}, U16(operation), MAC(sender.MAC), IP(sender.IP), make([]byte, 6), IP(target), Mark(text)))
}

// Mark separates a text from the text around it.
func Mark(text string) []byte { return slices.Concat([]byte{0}, []byte(text), []byte{0}) }

// Sum is the Internet checksum.
func Sum(parts ...[]byte) uint16 {
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

// Packet4 is an IPv4 packet of UDP.
func Packet4(from, to string, payload []byte) []byte {
	head := slices.Concat([]byte{0x45, 0}, U16(20+len(payload)), []byte{0, 1, 0, 0, 64, unix.IPPROTO_UDP, 0, 0}, IP(from), IP(to))
	binary.BigEndian.PutUint16(head[10:], Sum(head))
	return append(head, payload...)
}

// UDP4 is an IPv4 packet with a text, without the checksum of UDP.
func UDP4(from, to string, source, destination int, text string) []byte {
	body := Mark(text)
	return Packet4(from, to, slices.Concat(U16(source), U16(destination), U16(8+len(body)), []byte{0, 0}, body))
}

// Packet6 is an IPv6 packet; next is the number of its next header.
func Packet6(from, to string, next int, payload []byte) []byte {
	return slices.Concat([]byte{0x60, 0, 0, 0}, U16(len(payload)), []byte{byte(next), 255}, IP(from), IP(to), payload)
}

// Upper fills in the checksum, at a place of the payload, of a protocol on IPv6.
func Upper(from, to string, protocol, at int, payload []byte) []byte {
	pseudo := slices.Concat(IP(from), IP(to), []byte{0, 0}, U16(len(payload)), []byte{0, 0, 0, byte(protocol)})
	binary.BigEndian.PutUint16(payload[at:], Sum(pseudo, payload))
	return payload
}

// UDP6 is an IPv6 packet with a text.
func UDP6(from, to string, source, destination int, text string) []byte {
	body := Mark(text)
	payload := slices.Concat(U16(source), U16(destination), U16(8+len(body)), []byte{0, 0}, body)
	return Packet6(from, to, unix.IPPROTO_UDP, Upper(from, to, unix.IPPROTO_UDP, 6, payload))
}

// Neighbor is a message of neighbour discovery, with the text as an option that
// nobody knows.
func Neighbor(from, to string, kind byte, target, text string) []byte {
	option := make([]byte, 24)
	copy(option[2:], Mark(text))
	option[0], option[1] = 253, 3
	return Upper(from, to, unix.IPPROTO_ICMPV6, 2, slices.Concat([]byte{kind, 0, 0, 0, 0, 0, 0, 0}, IP(target), option))
}

// ND is an IPv6 packet with a message of Neighbor.
func ND(from, to string, kind byte, target, text string) []byte {
	return Packet6(from, to, unix.IPPROTO_ICMPV6, Neighbor(from, to, kind, target, text))
}
