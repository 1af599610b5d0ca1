package config_test

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/croft-edge/croft/cmd/croftd/internal/config"
	"github.com/croft-edge/croft/cmd/croftd/internal/module"
	"github.com/croft-edge/croft/cmd/croftd/internal/modules"
)

func TestZDBSettings(t *testing.T) {
	l, err := config.Load(config.From{Modules: module.Settings(modules.All())})
	if err != nil || l.ZDB != (config.ZDB{FirstPort: 9900, LastPort: 9963, Memory: 1 << 30, CPU: 2}) {
		t.Errorf("by default %+v, %v", l.ZDB, err)
	}
	l, err = config.Load(config.From{Modules: module.Settings(modules.All()), Flags: map[string]string{
		"zdb-ports": "1-65535", "zdb-address": "192.0.2.7, 2001:db8::7", "zdb-listen": "192.0.2.8", "zdb-memory": "64MiB", "zdb-cpu": "1", "zdb-sync": "true",
	}})
	want := config.ZDB{
		FirstPort: 1, LastPort: 65535, Listen: netip.MustParseAddr("192.0.2.8"),
		IPv4: netip.MustParseAddr("192.0.2.7"), IPv6: netip.MustParseAddr("2001:db8::7"),
		Memory: 64 << 20, CPU: 1, Sync: true,
	}
	if err != nil || l.ZDB != want {
		t.Errorf("got %+v, want %+v, %v", l.ZDB, want, err)
	}
	for _, c := range []struct{ name, value, want string }{
		{"zdb-ports", "9900", ""},
		{"zdb-ports", "0-5", "from 1 to 65535"},
		{"zdb-ports", "9-5", "the lower one first"},
		{"zdb-ports", "9900-70000", "from 1 to 65535"},
		{"zdb-ports", "9900-", "such as 9900-9963"},
		{"zdb-ports", "", "such as 9900-9963"},
		{"zdb-address", "2001:db8::7", ""},
		{"zdb-address", "192.0.2.7,192.0.2.8", `"192.0.2.8" isn't`},
		{"zdb-address", "zdb.example.org", `"zdb.example.org" isn't`},
		{"zdb-address", "0.0.0.0", "that others reach"},
		{"zdb-listen", "192.0.2.7,2001:db8::7", "an IPv4 or IPv6 address"},
		{"zdb-address", "127.0.0.1", "that others reach"},
		{"zdb-listen", "fe80::1%eth0", "that others reach"},
		{"zdb-listen", "::ffff:192.0.2.7", "that others reach"},
		{"zdb-listen", "224.0.0.1", "that others reach"},
		{"zdb-memory", "32MiB", "at least 64MiB"},
		{"zdb-cpu", "0", "a whole number of 1 to 1024"},
	} {
		_, err := config.Load(config.From{Modules: module.Settings(modules.All()), File: config.DefaultFile, Flags: map[string]string{c.name: c.value}})
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s = %s: %v", c.name, c.value, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), c.name)):
			t.Errorf("%s = %s: %v, want the setting and %q", c.name, c.value, err, c.want)
		}
	}
}
