package config_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/croft-edge/croft/cmd/croftd/internal/config"
	"github.com/croft-edge/croft/cmd/croftd/internal/module"
	"github.com/croft-edge/croft/cmd/croftd/internal/modules"
)

func TestRangesAndAddressesOfNetworks(t *testing.T) {
	for _, c := range []struct{ name, value, want string }{
		{"network-uplinks", "169.254.64.0/18", ""},
		{"network-uplinks", "169.254.64.1/18", "nothing after the mask"},
		{"network-uplinks", "169.254.64.0/29", "at most /28"},
		{"network-uplinks", "fd00::/64", "an IPv4 range"},
		{"network-uplinks", "uplinks", "an IPv4 range"},
		{"public-ip6-range", "2001:db8:7::/64", ""},
		{"public-ip6-range", "2001:db8:7::/120", "at most /112"},
		{"public-ip6-range", "::ffff:10.0.0.0/104", "an IPv6 range"},
		{"public-ip6-range", "10.0.0.0/8", "an IPv6 range"},
		{"dns-servers", "192.0.2.53, [2001:db8::53]:5353", ""},
		{"dns-servers", "192.0.2.53:0", `"192.0.2.53:0" isn't one`},
		{"dns-servers", "dns.example.org", `"dns.example.org" isn't one`},
	} {
		l, err := config.Load(config.From{Modules: module.Settings(modules.All()), File: config.DefaultFile, Flags: map[string]string{c.name: c.value}})
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s = %s: %v", c.name, c.value, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), c.name)):
			t.Errorf("%s = %s: %v, want the setting and %q", c.name, c.value, err, c.want)
		case c.want == "" && c.name == "dns-servers" && fmt.Sprint(l.DNSServers) != "[192.0.2.53:53 [2001:db8::53]:5353]":
			t.Errorf("DNS servers are %v", l.DNSServers)
		}
	}
}
