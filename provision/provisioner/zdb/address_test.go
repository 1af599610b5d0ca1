package zdb

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/croft-edge/croft/pkg/node"
)

func TestAddressThatUsersAreTold(t *testing.T) {
	t.Parallel()
	const v4, v6, other = "192.0.2.5", "2001:db8::5", "192.0.2.9"
	for name, c := range map[string]struct {
		told, v4, v6, soon, late string
	}{
		"new":                       {"", v4, v6, v4, v4},
		"new, without IPv4":         {"", "", v6, v6, v6},
		"new, without any":          {"", "", "", "", ""},
		"as told":                   {v4, v4, v6, v4, v4},
		"told IPv6":                 {v6, v4, v6, v6, v6},
		"moved":                     {other, v4, v6, v4, v4},
		"moved within IPv6":         {"2001:db8::9", v4, v6, v6, v6},
		"IPv4 is away":              {v4, "", v6, v4, v6},
		"IPv6 is away":              {v6, v4, "", v6, v4},
		"without a network":         {v4, "", "", v4, v4},
		"told IPv6, without either": {v6, "", "", v6, v6},
	} {
		synctest.Test(t, func(t *testing.T) {
			var a addresses
			s := node.ZDBServer{IPv4: c.v4, IPv6: c.v6}
			a.current(s, c.told)
			time.Sleep(familyPatience - time.Second)
			if got := a.current(s, c.told); got != c.soon {
				t.Errorf("%s: soon it is %q, want %q", name, got, c.soon)
			}
			time.Sleep(time.Second)
			if got := a.current(s, c.told); got != c.late {
				t.Errorf("%s: later it is %q, want %q", name, got, c.late)
			}
		})
	}
}

// TestShortAbsencesDoNotAddUp: IPv4 that comes back in time, however often it goes, is what users keep.
func TestShortAbsencesDoNotAddUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var a addresses
		both := node.ZDBServer{IPv4: "192.0.2.5", IPv6: "2001:db8::5"}
		without := node.ZDBServer{IPv6: both.IPv6}
		for range 5 {
			for _, s := range []node.ZDBServer{without, without, both} {
				if got := a.current(s, both.IPv4); got != both.IPv4 {
					t.Fatalf("with %+v users are told %s", s, got)
				}
				time.Sleep(familyPatience / 2)
			}
		}
	})
}
