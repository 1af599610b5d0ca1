package lease

import (
	"net"
	"slices"
	"testing"
	"time"
)

func TestTimes(t *testing.T) {
	const s = time.Second
	for _, c := range []struct {
		renew, rebind, lasts time.Duration
		want                 Times
		ok                   bool
	}{
		{0, 0, 3600 * s, Times{1800 * s, 3150 * s, 3600 * s}, true},
		{600 * s, 1200 * s, 3600 * s, Times{600 * s, 1200 * s, 3600 * s}, true},
		{3600 * s, 1200 * s, 3600 * s, Times{1800 * s, 3150 * s, 3600 * s}, true},
		{3500 * s, 1200 * s, 3600 * s, Times{3500 * s, 3550 * s, 3600 * s}, true},
		{0, 0, 4 * s, Times{2 * s, 3500 * time.Millisecond, 4 * s}, true},
		{0, 0, 3 * s, Times{}, false},
		{0, 0, 0, Times{}, false},
		{5 * s, 9 * s, 0xffffffff * s, Times{}, true},
	} {
		if got, ok := NewTimes(c.renew, c.rebind, c.lasts); got != c.want || ok != c.ok {
			t.Errorf("%v: got %v, %t", c, got, ok)
		}
	}
	l := Lease{Begun: time.Unix(1000, 0), Times: Times{1 * s, 2 * s, 4 * s}}
	if l.End() != time.Unix(1004, 0) || l.RenewAt() != time.Unix(1001, 0) || l.RebindAt() != time.Unix(1002, 0) {
		t.Errorf("the moments are %v, %v, %v", l.RenewAt(), l.RebindAt(), l.End())
	}
	if l.Times = (Times{}); !l.End().IsZero() {
		t.Errorf("a lease without an end ends at %v", l.End())
	}
}

func TestDomains(t *testing.T) {
	got := Domains([]string{"Example.ORG.", "example.org", "", ".", "a b", "a\nnameserver 6.6.6.6", "-x.org", "b.example", string(make([]byte, 300))})
	if want := []string{"example.org", "b.example"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestServers(t *testing.T) {
	ips := []net.IP{nil, {1}, net.IPv4zero, net.IPv4bcast, net.IPv4(127, 0, 0, 1), net.IPv4(240, 0, 0, 1), net.ParseIP("fe80::1"), net.ParseIP("ff02::1"), net.ParseIP("::1")}
	if got := Servers(ips, MostServers); got != nil {
		t.Errorf("got %v, want none", got)
	}
	ips = []net.IP{net.IPv4(192, 0, 2, 1), net.IPv4(192, 0, 2, 1).To4(), net.ParseIP("fd00::1"), net.IPv4(192, 0, 2, 2)}
	if got := Texts(Servers(ips, 2)); !slices.Equal(got, []string{"192.0.2.1", "fd00::1"}) {
		t.Errorf("got %v", got)
	}
}
