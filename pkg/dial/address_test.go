package dial

import (
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/croft-edge/croft/pkg/node"
)

func TestValidAddresses(t *testing.T) {
	for text, want := range map[string]string{
		"8.8.8.8:53":                    "8.8.8.8:53",
		"[2606:4700::1111]:443":         "[2606:4700::1111]:443",
		"[2606:4700:0:0:0:0:0:1]:443":   "[2606:4700::1]:443",
		"[::FFFF:127.0.0.1]:1":          "127.0.0.1:1",
		"[::ffff:7f00:1]:65535":         "127.0.0.1:65535",
		"Hub.Example.ORG:443":           "hub.example.org:443",
		"hub.example.org.:443":          "hub.example.org:443",
		"r3---sn-4g5e.example.com:80":   "r3---sn-4g5e.example.com:80",
		"xn--bcher-kva.example:80":      "xn--bcher-kva.example:80",
		"1.example:80":                  "1.example:80",
		"0x7f.example:80":               "0x7f.example:80",
		"localhost:80":                  "localhost:80",
		strings.Repeat("a", 63) + ":80": strings.Repeat("a", 63) + ":80",
		nameOf(253) + ".:65535":         nameOf(253) + ":65535",
	} {
		got, err := parseAddress(text)
		if err != nil || got.String() != want {
			t.Errorf("%s: want %s, got %s, %v", text, want, got, err)
		}
	}
}

// nameOf makes a name of n bytes.
func nameOf(n int) string {
	out := strings.Repeat(strings.Repeat("a", 49)+".", n/50+1)[:n]
	return strings.TrimSuffix(out, ".") + strings.Repeat("a", len(out)-len(strings.TrimSuffix(out, ".")))
}

func TestInvalidAddresses(t *testing.T) {
	for _, c := range []struct{ text, says string }{
		{"2130706433:80", "ends in a number"},
		{"0177.0.0.1:80", "ends in a number"},
		{"127.0.0.01:80", "ends in a number"},
		{"0x7f.1:80", "ends in a number"},
		{"0x7f.0x0.0x0.0x1:80", "ends in a number"},
		{"0X7F000001:80", "ends in a number"},
		{"017700000001:80", "ends in a number"},
		{"127.1:80", "ends in a number"},
		{"127.0.0.1.:80", "ends in a number"},
		{"1.2.3.4.5:80", "ends in a number"},
		{"256.0.0.1:80", "ends in a number"},
		{"0:80", "ends in a number"},
		{"example.0x:80", "ends in a number"},
		{"12345:80", "ends in a number"},
		{"１２７.0.0.1:80", "xn--"},
		{"127。0。0。1:80", "xn--"},
		{"bücher.example:80", "xn--"},
		{"[fe80::1%eth0]:80", "zone"},
		{"[::1%25lo]:80", "zone"},
		{"127.0.0.1%lo:80", "zone"},
		{"name%lo:80", "zone"},
		{"[127.0.0.1]:80", "brackets"},
		{"[localhost]:80", "brackets"},
		{"::1:80", "brackets"},
		{"[::1]", "host:port"},
		{"[::1:80", "host:port"},
		{"[::1]]:80", "host:port"},
		{"[:::1]:80", "isn't an IPv6 address"},
		{"[::ffff:0177.0.0.1]:80", "isn't an IPv6 address"},
		{"[v1.x:y]:80", "isn't an IPv6 address"},
		{"user@example.org:80", "user"},
		{"user:pw@127.0.0.1:80", "user"},
		{"", "host:port"},
		{":80", "empty"},
		{".:80", "empty"},
		{"a..b:80", "empty"},
		{".a:80", "empty"},
		{"a..:80", "empty"},
		{"example.org", "host:port"},
		{"example.org:", "port"},
		{"example.org:0", "port"},
		{"example.org:65536", "port"},
		{"example.org:080", "port"},
		{"example.org:+80", "port"},
		{"example.org:-1", "port"},
		{"example.org:http", "port"},
		{"example.org:0x50", "port"},
		{"example.org:80:80", "host:port"},
		{"http://example.org:80", "host:port"},
		{"example.org/x:80", "letters"},
		{"example.org#:80", "letters"},
		{"exa mple.org:80", "letters"},
		{"a_b.example:80", "letters"},
		{"a\x00.example:80", "letters"},
		{"a\n.example:80", "letters"},
		{"-a.example:80", "hyphen"},
		{"a-.example:80", "hyphen"},
		{strings.Repeat("a", 64) + ".example:80", "longer than 63"},
		{nameOf(254) + ":80", "longer than 253"},
		{strings.Repeat("a", 1<<20), "longer than 260"},
	} {
		_, err := parseAddress(c.text)
		wantError(t, err, node.Invalid, c.says)
		if len(err.Error()) > 500 {
			t.Errorf("an error of %d bytes", len(err.Error()))
		}
	}
}

// FuzzAddress: an accepted address is read the same again, and a name is never a
// notation of an IPv4 address to some program.
func FuzzAddress(f *testing.F) {
	for _, s := range []string{"127.0.0.1:80", "[::1]:80", "[::ffff:1.2.3.4]:80", "0x7f.1:80", "2130706433:1", "a.example.:443", "[fe80::1%lo]:1", "u@h:1", "127。0.0.1:1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := parseAddress(text)
		if err != nil {
			if node.KindOf(err) != node.Invalid || got != (target{}) {
				t.Fatalf("%q: %+v, %v", text, got, err)
			}
			return
		}
		again, err := parseAddress(got.String())
		if err != nil || again != got {
			t.Fatalf("%q is %s, which is %s, %v", text, got, again, err)
		}
		if got.port == 0 || got.ip.IsValid() == (got.name != "") || got.ip.Zone() != "" || got.ip.Is4In6() {
			t.Fatalf("%q: %+v", text, got)
		}
		if got.name == "" {
			return
		}
		if _, err := netip.ParseAddr(got.name); err == nil || net.ParseIP(got.name) != nil {
			t.Fatalf("%q is the name %q", text, got.name)
		}
		last := got.name[strings.LastIndexByte(got.name, '.')+1:]
		if strings.Trim(last, "0123456789") == "" || strings.ContainsAny(got.name, "%@:/[] _") {
			t.Fatalf("%q is the name %q", text, got.name)
		}
	})
}
