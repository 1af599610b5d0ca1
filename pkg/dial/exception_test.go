package dial

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/croft-edge/croft/pkg/node"
)

func TestExceptionsAreReadAndWritten(t *testing.T) {
	for text, want := range map[string]string{
		"10.1.0.0/16":            "10.1.0.0/16",
		"10.1.0.0/16:443":        "10.1.0.0/16:443",
		"fd00:1::/64":            "fd00:1::/64",
		"fd00:1::/64:443":        "fd00:1::/64:443",
		"fc00::/7":               "fc00::/7",
		"192.168.1.5:8080":       "192.168.1.5/32:8080",
		"[fd00::1]:8080":         "fd00::1/128:8080",
		"[::ffff:10.0.0.1]:8080": "10.0.0.1/32:8080",
		"Hub.LAN.:8080":          "hub.lan:8080",
		"169.254.169.254/32":     "169.254.169.254/32",
		"203.5.0.0/24":           "203.5.0.0/24",
	} {
		e, err := ParseException(text)
		if err != nil || e.String() != want {
			t.Errorf("%s: want %s, got %s, %v", text, want, e, err)
			continue
		}
		if again, err := ParseException(e.String()); err != nil || again != e {
			t.Errorf("%s: read again: %s, %v", text, again, err)
		}
	}
}

func TestInvalidExceptions(t *testing.T) {
	for text, says := range map[string]string{
		"":                    "allowed are CIDR, CIDR:port and host:port",
		"10.1.2.3":            "host:port",
		"hub.lan":             "host:port",
		"10.1.2.3/8":          "bits below its mask",
		"10.0.0.0/33":         "isn't a CIDR",
		"010.0.0.0/8":         "isn't a CIDR",
		"hub.lan/8":           "isn't a CIDR",
		"10.0.0.0/8:":         "port",
		"10.0.0.0/8:0":        "port",
		"10.0.0.0/8:http":     "port",
		"10.0.0.0/8:80:80":    "port",
		"::ffff:10.0.0.0/104": "IPv4 is written as IPv4",
		"fe80::%lo/64":        "isn't a CIDR",
		"0.0.0.0/0":           "wider than unspecified (0.0.0.0/8)",
		"8.0.0.0/6":           "wider than private (10.0.0.0/8)",
		"::/0":                "wider than",
		"fc00::/6":            "wider than private (fc00::/7)",
		"127.1:80":            "ends in a number",
		"[fe80::1%lo]:80":     "zone",
		"*.example:80":        "letters",
	} {
		_, err := ParseException(text)
		wantError(t, err, node.Invalid, "cannot read exception", says)
	}
	p := netip.MustParsePrefix("10.0.0.0/8")
	for says, e := range map[string]Exception{
		"a host and a prefix":  {Host: "hub.lan", Port: 1, Prefix: p},
		"a host needs a port":  {Host: "hub.lan"},
		"lower case":           {Host: "Hub.lan", Port: 1},
		"name in lower case":   {Host: "10.0.0.1", Port: 1},
		"neither a host nor a": {Port: 1},
	} {
		wantError(t, e.Validate(), node.Invalid, "cannot use exception", says)
	}
}

// TestExceptionsAreExact: an exception opens its own addresses and nothing else.
func TestExceptionsAreExact(t *testing.T) {
	own := func() []netip.Prefix {
		return []netip.Prefix{netip.MustParsePrefix("10.5.0.0/16"), netip.MustParsePrefix("2a00:5::/48")}
	}
	for _, c := range []struct {
		exception, open, shut string
	}{
		{"10.1.0.0/16", "10.1.0.0:1 10.1.255.255:65535 [::ffff:10.1.2.3]:80", "10.0.255.255:1 10.2.0.0:1 [64:ff9b::10.1.2.3]:80 [2002:a01:203::]:80 [::10.1.2.3]:80"},
		{"10.1.0.0/16:443", "10.1.2.3:443", "10.1.2.3:80 10.1.2.3:4430 10.2.2.3:443"},
		{"10.0.0.0/8", "10.1.2.3:80 10.4.255.255:80 10.6.0.0:80", "10.5.0.0:80 10.5.255.255:80 192.168.0.1:80"},
		{"10.5.0.0/16", "10.5.1.1:80", "10.4.1.1:80"},
		{"10.5.1.0/24:22", "10.5.1.1:22", "10.5.1.1:23 10.5.2.1:22"},
		{"127.0.0.1:6379", "127.0.0.1:6379", "127.0.0.1:6380 127.0.0.2:6379 [::1]:6379 [::127.0.0.1]:6379"},
		{"[::1]:6379", "[::1]:6379", "127.0.0.1:6379 [::2]:6379 [::1]:80"},
		{"fd00:1::/64", "[fd00:1::9]:80", "[fd00:1:0:1::9]:80 [fc00::1]:80"},
		{"[64:ff9b::10.1.2.3]:80", "[64:ff9b::10.1.2.3]:80", "10.1.2.3:80 [64:ff9b::10.1.2.4]:80"},
		{"2a00:5::/64", "[2a00:5::1]:80", "[2a00:5:0:1::1]:80"},
		{"2a00::/16", "[2a00:6::1]:80", "[2a00:5::1]:80"},
		{"hub.lan:80", "8.8.8.8:80", "10.1.2.3:80 127.0.0.1:80"},
	} {
		d := newDialer(t, Config{Own: own}, c.exception)
		for _, text := range strings.Fields(c.open) {
			if err := d.Judge(netip.MustParseAddrPort(text)); err != nil {
				t.Errorf("%s doesn't open %s: %v", c.exception, text, err)
			}
		}
		for _, text := range strings.Fields(c.shut) {
			if err := d.Judge(netip.MustParseAddrPort(text)); err == nil {
				t.Errorf("%s opens %s", c.exception, text)
			}
		}
	}
}
