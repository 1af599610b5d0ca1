package dial

import (
	"context"
	"net/netip"
	"testing"

	"github.com/croft-edge/croft/pkg/node"
)

// answers is a resolver that knows a few names.
type answers map[string][]netip.Addr

func (a answers) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	if found := a[host]; found != nil {
		return found, nil
	}
	return nil, node.Errorf(node.Internal, "no such host")
}

func TestResolveJudgesForOthers(t *testing.T) {
	public4, public6 := netip.MustParseAddr("11.22.33.44"), netip.MustParseAddr("2a02:1802:5e::10")
	d := newDialer(t, Config{Resolver: answers{
		"both.example.":  {public6, public4},
		"mixed.example.": {public4, netip.MustParseAddr("10.0.0.1")},
	}}, "192.168.7.0/24")
	for _, c := range []struct {
		address string
		want    string
		kind    node.Kind
	}{
		{"both.example:3001", "11.22.33.44:3001", ""},
		{"[2a02:1802:5e::10]:3001", "[2a02:1802:5e::10]:3001", ""},
		{"192.168.7.9:3001", "192.168.7.9:3001", ""},
		{"mixed.example:3001", "", node.Refused},
		{"10.0.0.1:3001", "", node.Refused},
		{"127.0.0.1:3001", "", node.Refused},
		{"[::ffff:10.0.0.1]:3001", "", node.Refused},
		{"0x7f.1:3001", "", node.Invalid},
		{"both.example", "", node.Invalid},
		{"gone.example:3001", "", node.Transient},
	} {
		got, err := d.Resolve(t.Context(), c.address)
		if node.KindOf(err) != c.kind || c.kind == "" && got.String() != c.want {
			t.Errorf("%s: %s, %v; want %s %s", c.address, got, err, c.want, c.kind)
		}
	}
}

// TestLiteralAsksNobody: a literal address is judged, a name only parsed.
func TestLiteralAsksNobody(t *testing.T) {
	d := newDialer(t, Config{Resolver: untouchable{t}}, "192.168.7.0/24")
	for _, c := range []struct {
		address string
		want    netip.AddrPort
		kind    node.Kind
	}{
		{"both.example:3001", netip.AddrPort{}, ""},
		{"[2a02:1802:5e::10]:3001", netip.MustParseAddrPort("[2a02:1802:5e::10]:3001"), ""},
		{"192.168.7.9:3001", netip.MustParseAddrPort("192.168.7.9:3001"), ""},
		{"10.0.0.1:3001", netip.AddrPort{}, node.Refused},
		{"[::ffff:10.0.0.1]:3001", netip.AddrPort{}, node.Refused},
		{"0x7f.1:3001", netip.AddrPort{}, node.Invalid},
		{"both.example", netip.AddrPort{}, node.Invalid},
	} {
		got, err := d.Literal(c.address)
		if got != c.want || node.KindOf(err) != c.kind {
			t.Errorf("%s: %s, %v; want %s %s", c.address, got, err, c.want, c.kind)
		}
	}
}
