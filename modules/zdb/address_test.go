package zdb

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/croft-edge/croft/pkg/node"
)

func TestBest(t *testing.T) {
	for _, c := range []struct {
		name, out string
		all       []string
		v4, v6    string
	}{
		{"none", "", nil, "", ""},
		{"nothing that others reach", "", []string{"127.0.0.1", "169.254.1.1", "::1", "fe80::1", "224.0.0.1", "ff02::1", "0.0.0.0"}, "", ""},
		{"a private one", "", []string{"127.0.0.1", "10.0.0.5", "fe80::1", "fd00::5"}, "10.0.0.5", "fd00::5"},
		{"the first", "", []string{"192.168.1.1", "10.0.0.5", "fd00::6", "fd00::5"}, "192.168.1.1", "fd00::6"},
		{"the way out", "10.0.0.5", []string{"172.17.0.1", "10.0.0.5", "192.168.1.1"}, "10.0.0.5", ""},
		{"a public one before the way out", "10.0.0.5", []string{"10.0.0.5", "8.8.4.4"}, "8.8.4.4", ""},
		{"carriers' is private", "", []string{"100.64.0.1", "1.1.1.1", "10.0.0.1"}, "1.1.1.1", ""},
		{"documentation is private", "", []string{"203.0.113.1", "1.1.1.1"}, "1.1.1.1", ""},
		{"a public IPv6", "", []string{"fd00::1", "2a00::1", "2a00::2"}, "", "2a00::1"},
		{"the way out of two public ones", "2a00::2", []string{"2a00::1", "2a00::2", "1.1.1.1"}, "1.1.1.1", "2a00::2"},
		{"a way out that isn't among them", "1.0.0.1", []string{"1.1.1.1", "8.8.8.8"}, "1.1.1.1", ""},
	} {
		var all []netip.Addr
		for _, a := range c.all {
			all = append(all, netip.MustParseAddr(a))
		}
		var out netip.Addr
		if c.out != "" {
			out = netip.MustParseAddr(c.out)
		}
		for want, family := range map[string]func(netip.Addr) bool{"4" + c.v4: netip.Addr.Is4, "6" + c.v6: netip.Addr.Is6} {
			got := ""
			if a := best(all, family, out); a.IsValid() {
				got = a.String()
			}
			if got != want[1:] {
				t.Errorf("%s: %q, want %q", c.name, got, want[1:])
			}
		}
	}
}

// TestAddresses is about the node that plays here: see TestMain.
func TestAddresses(t *testing.T) {
	addr := netip.MustParseAddr
	for name, c := range map[string]struct {
		cfg    Config
		v4, v6 string
	}{
		"what the machine has": {Config{}, "10.77.0.1", "fd77::1"},
		"all":                  {Config{Listen: addr("::")}, "10.77.0.1", "fd77::1"},
		"all of IPv4":          {Config{Listen: addr("0.0.0.0")}, "10.77.0.1", "invalid IP"},
		"one":                  {Config{Listen: addr("10.77.0.9")}, "10.77.0.9", "invalid IP"},
		"one of IPv6":          {Config{Listen: addr("fd77::9")}, "invalid IP", "fd77::9"},
		"named":                {Config{IPv4: addr("1.2.3.4")}, "1.2.3.4", "fd77::1"},
		"both named":           {Config{IPv4: addr("1.2.3.4"), IPv6: addr("2a00::1"), OwnLinks: []string{"eth"}}, "1.2.3.4", "2a00::1"},
		"not one's own links":  {Config{OwnLinks: []string{"et"}}, "invalid IP", "invalid IP"},
	} {
		v4, v6, err := c.cfg.addresses(t.Context())
		if err != nil || v4.String() != c.v4 || v6.String() != c.v6 {
			t.Errorf("%s: %s and %s, %v, want %s and %s", name, v4, v6, err, c.v4, c.v6)
		}
	}
}

func TestConfigs(t *testing.T) {
	good := Config{StateDir: "/var/lib/croft", FirstPort: 9900, LastPort: 9963}
	for name, change := range map[string]func(*Config){
		"":          func(*Config) {},
		"StateDir":  func(c *Config) { c.StateDir = "relative" },
		"FirstPort": func(c *Config) { c.FirstPort = 0 },
		"LastPort":  func(c *Config) { c.LastPort = 9899 },
		"Listen":    func(c *Config) { c.Listen = netip.MustParseAddr("fe80::1%eth0") },
		"IPv4":      func(c *Config) { c.IPv4 = netip.MustParseAddr("127.0.0.1") },
		"IPv4 ":     func(c *Config) { c.IPv4 = netip.MustParseAddr("2a00::1") },
		"IPv6":      func(c *Config) { c.IPv6 = netip.MustParseAddr("fe80::1") },
		"IPv6 ":     func(c *Config) { c.IPv6 = netip.MustParseAddr("::ffff:1.2.3.4") },
	} {
		c := good
		change(&c)
		err := c.Validate()
		if name == "" {
			if err != nil {
				t.Error(err)
			}
			continue
		}
		if node.KindOf(err) != node.Invalid || !strings.Contains(err.Error(), ": "+strings.TrimSpace(name)+" is ") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
