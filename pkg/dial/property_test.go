package dial

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/croft-edge/croft/pkg/node"
)

// answer is a resolver with the same answer for every name.
type answer []netip.Addr

func (a answer) LookupNetIP(context.Context, string, string) ([]netip.Addr, error) { return a, nil }

// refusedV4 and refusedV6 are repeated here, so that a range missing from the
// code is noticed.
func refusedV4() []string {
	return strings.Fields(`0.0.0.0/8 10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 169.254.0.0/16 172.16.0.0/12 192.0.0.0/24
		192.0.2.0/24 192.168.0.0/16 198.18.0.0/15 198.51.100.0/24 203.0.113.0/24 224.0.0.0/4 240.0.0.0/4 11.99.0.0/16`)
}

func refusedV6() []string {
	return strings.Fields(`::/128 ::1/128 fe80::/10 fec0::/10 fc00::/7 ff00::/8 2001:db8::/32 64:ff9b:1::/48 2a00:99::/32`)
}

func in(t *rapid.T, prefixes []string) netip.Addr {
	p := netip.MustParsePrefix(rapid.SampledFrom(prefixes).Draw(t, "prefix"))
	b := p.Addr().AsSlice()
	for i := p.Bits(); i < len(b)*8; i++ {
		if rapid.Bool().Draw(t, "bit") {
			b[i/8] |= 1 << (7 - i%8)
		}
	}
	addr, _ := netip.AddrFromSlice(b)
	return addr
}

// writingsOf are notations of an IPv4 address, and IPv6 addresses that lead to it.
func writingsOf(a netip.Addr) []string {
	b := a.As4()
	n := uint32(b[0])<<24 | uint32(b[1])<<16 | uint32(b[2])<<8 | uint32(b[3])
	hi, lo := n>>16, n&0xffff
	return []string{
		a.String(), a.String() + ".", "[" + a.String() + "]", a.String() + "%lo",
		fmt.Sprint(n), fmt.Sprintf("%#x", n), fmt.Sprintf("%#o", n), fmt.Sprintf("0X%X", n),
		fmt.Sprintf("%#o.%#o.%#o.%#o", b[0], b[1], b[2], b[3]), fmt.Sprintf("0x%x.0x%x.0x%x.0x%x", b[0], b[1], b[2], b[3]),
		fmt.Sprintf("%d.%d", b[0], n&0xffffff), fmt.Sprintf("%d.%d.%d", b[0], b[1], lo), fmt.Sprintf("%03d.%03d.%03d.%03d", b[0], b[1], b[2], b[3]),
		"[::ffff:" + a.String() + "]", fmt.Sprintf("[::FFFF:%X:%X]", hi, lo), fmt.Sprintf("[0:0:0:0:0:ffff:%04x:%04x]", hi, lo),
		"[::" + a.String() + "]", "[64:ff9b::" + a.String() + "]", "[::ffff:0:" + a.String() + "]", "[::ffff:" + a.String() + "%lo]",
		fmt.Sprintf("[2002:%x:%x::1]", hi, lo), fmt.Sprintf("[2001:0:%x:%x::]", hi, lo), fmt.Sprintf("[2001:0:808:808::%x:%x]", hi^0xffff, lo^0xffff),
		"[2606:4700::5efe:" + a.String() + "]", "[2606:4700::200:5efe:" + a.String() + "]",
	}
}

// TestNoWritingLeadsToARefusedAddress: in any notation or answer, alone or among
// good answers, nothing connects.
func TestNoWritingLeadsToARefusedAddress(t *testing.T) {
	c := Config{Refuse: []netip.Prefix{netip.MustParsePrefix("11.99.0.0/16")}, Own: func() []netip.Prefix { return []netip.Prefix{netip.MustParsePrefix("2a00:99::/32")} }}
	rapid.Check(t, func(rt *rapid.T) {
		d, err := New(c)
		if err != nil {
			rt.Fatal(err)
		}
		d.connect = func(_ context.Context, _ string, to netip.AddrPort, _ control) (net.Conn, error) {
			rt.Errorf("connects to %s", to)
			return nil, errors.New("stopped")
		}
		bad, writings := in(rt, refusedV6()), []string(nil)
		if rapid.Bool().Draw(rt, "v4") {
			bad = in(rt, refusedV4())
			writings = writingsOf(bad)
		} else {
			writings = []string{"[" + bad.String() + "]", "[" + bad.StringExpanded() + "]", "[" + strings.ToUpper(bad.String()) + "]", "[" + bad.String() + "%1]"}
		}
		host := rapid.SampledFrom(append(writings, "name.example")).Draw(rt, "host")
		answers := answer{netip.MustParseAddr("8.8.8.8"), netip.MustParseAddr("2606:4700::1")}
		if bad.Is4() && rapid.Bool().Draw(rt, "mapped") {
			bad = netip.AddrFrom16(bad.As16())
		}
		d.resolver = answer(append(answers[:rapid.IntRange(0, 2).Draw(rt, "good")], bad))
		network := rapid.SampledFrom([]string{"tcp", "tcp4", "tcp6"}).Draw(rt, "network")
		_, err = d.DialContext(t.Context(), network, host+":80")
		if kind := node.KindOf(err); kind != node.Refused && kind != node.Invalid {
			rt.Errorf("%s %s: %v", network, host, err)
		}
	})
}

// TestAPublicAddressIsConnectedToAsJudged: exactly to that address, once.
func TestAPublicAddressIsConnectedToAsJudged(t *testing.T) {
	public := []string{"1.0.0.0/8", "8.0.0.0/8", "64.0.0.0/4", "130.0.0.0/8", "193.0.0.0/8", "2600::/12", "2a00::/16", "64:ff9b::800:0/104"}
	rapid.Check(t, func(rt *rapid.T) {
		d, err := New(Config{Own: none})
		if err != nil {
			rt.Fatal(err)
		}
		var went []netip.AddrPort
		d.connect = func(_ context.Context, network string, to netip.AddrPort, check control) (net.Conn, error) {
			went = append(went, to)
			if err := check(network, to.String()); err != nil {
				rt.Errorf("the last look refuses: %v", err)
			}
			return nil, errors.New("stopped")
		}
		addr := in(rt, public)
		port := rapid.Uint16Min(1).Draw(rt, "port")
		want := netip.AddrPortFrom(addr, port)
		host := want.String()
		if rapid.Bool().Draw(rt, "name") {
			host, d.resolver = fmt.Sprintf("name.example:%d", port), answer{addr, netip.AddrFrom16(addr.As16())}
		}
		_, err = d.DialContext(t.Context(), "tcp", host)
		if node.KindOf(err) != node.Transient || len(went) != 1 || went[0] != want {
			rt.Errorf("%s: want %s, went to %v: %v", host, want, went, err)
		}
	})
}
