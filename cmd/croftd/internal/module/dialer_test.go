package module_test

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/croft-edge/croft/cmd/croftd/internal/config"
	"github.com/croft-edge/croft/cmd/croftd/internal/module"
	"github.com/croft-edge/croft/cmd/croftd/internal/modules"
	"github.com/croft-edge/croft/pkg/node"
)

// TestRangesOpenedByOperator: the setting reaches the dialer, and allows no other addresses.
func TestRangesOpenedByOperator(t *testing.T) {
	for _, c := range []struct {
		setting, address string
		open             bool
	}{
		{"", "1.1.1.1:443", true},
		{"", "127.0.0.1:6379", false},
		{"", "192.168.7.9:443", false},
		{"192.168.7.0/24", "192.168.7.9:443", true},
		{"192.168.7.0/24", "192.168.8.9:443", false},
		{"127.0.0.1:6379", "127.0.0.1:6379", true},
		{"127.0.0.1:6379", "127.0.0.1:6380", false},
		{"127.0.0.1/32,192.168.7.0/24:443", "192.168.7.9:443", true},
		{"127.0.0.1/32,192.168.7.0/24:443", "192.168.7.9:80", false},
	} {
		loaded, err := config.Load(config.From{Modules: module.Settings(modules.All()), Flags: map[string]string{"allow-private": c.setting}})
		if err != nil {
			t.Fatal(err)
		}
		dialer, err := module.Host{Config: loaded.Config}.NewDialer()
		if err != nil {
			t.Fatal(err)
		}
		err = dialer.Judge(netip.MustParseAddrPort(c.address))
		if c.open && err != nil {
			t.Errorf("with %q %s is refused: %v", c.setting, c.address, err)
		}
		if !c.open && (node.KindOf(err) != node.Refused || !strings.Contains(err.Error(), "the node's operator may list an exception")) {
			t.Errorf("with %q %s gives %v, want it refused", c.setting, c.address, err)
		}
	}
}
