package dial

import (
	"context"
	"testing"

	"github.com/croft-edge/croft/pkg/node"
)

// Check gives the errors of a dial and connects to nothing.
func TestCheckConnectsToNothing(t *testing.T) {
	home := newDoor(t, "127.0.0.2:0")
	dns := newNameServer(t, map[string][]string{
		"home.example A": {"127.0.0.1"}, "good.example A": {"127.0.0.2"}, "mixed.example A": {"127.0.0.2 127.0.0.1"},
		"bare.example A": {""}, "bare.example AAAA": {""},
	})
	d := newDialer(t, Config{Resolver: dns.resolver()}, "127.0.0.2:"+home.port())
	for _, c := range []struct {
		host string
		kind node.Kind
		says string
	}{
		{"127.0.0.2", "", ""},
		{"good.example", "", ""},
		{"127.0.0.1", node.Refused, "may list an exception"},
		{"home.example", node.Refused, "home.example resolves to 127.0.0.1"},
		{"mixed.example", node.Refused, "mixed.example resolves to 127.0.0.1"},
		{"bare.example", node.Transient, "cannot resolve bare.example"},
		{"2130706433", node.Invalid, "it ends in a number"},
	} {
		err := d.Check(t.Context(), c.host+":"+home.port())
		if c.kind == "" {
			if err != nil {
				t.Errorf("%s: %v", c.host, err)
			}
			continue
		}
		wantError(t, err, c.kind, c.says)
	}
	if n := home.came.Load(); n != 0 {
		t.Errorf("%d connections came", n)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	wantError(t, d.Check(ended, "good.example:1"), node.Transient)
}
