package firewall

import (
	"net/netip"
	"testing"

	"github.com/croft-edge/croft/internal/testing/frame"
	"github.com/croft-edge/croft/internal/testing/netlab"
)

func newWire(t testing.TB, n *netlab.Namespace, iface string) *frame.Wire {
	t.Helper()
	return frame.NewWire(t, n.Do, iface)
}

func arpFrame(from string, operation int, senderMAC, senderIP, text string) []byte {
	return frame.ARP(from, operation, frame.Sender{MAC: senderMAC, IP: senderIP}, "10.1.1.3", text)
}

func addrText(raw []byte) string {
	addr, _ := netip.AddrFromSlice(raw)
	return addr.String()
}
