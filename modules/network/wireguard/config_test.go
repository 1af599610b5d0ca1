package wireguard

import (
	"context"
	"encoding/json"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/pkg/node"
)

// TestValidate is the specification of what a device can be.
func TestValidate(t *testing.T) {
	many := func(n int) (out []Peer) {
		for i := range n {
			out = append(out, Peer{PublicKey: Key{0: 1, 1: byte(i), 2: byte(i >> 8)}})
		}
		return out
	}
	for _, c := range []struct {
		name   string
		change func(*Config)
		text   string // empty: allowed
	}{
		{"as it is", func(*Config) {}, ""},
		{"no peers, any port, default MTU", func(c *Config) { c.Peers, c.ListenPort, c.MTU = nil, 0, 0 }, ""},
		{"no name", func(c *Config) { c.Name = "" }, `name ""`},
		{"a long name", func(c *Config) { c.Name = "wg01234567890123" }, "1 to 15"},
		{"a path as name", func(c *Config) { c.Name = "../x" }, "name"},
		{"a dot", func(c *Config) { c.Name = "." }, "name"},
		{"a relative namespace", func(c *Config) { c.Namespace = "n" }, "absolute"},
		{"no key", func(c *Config) { c.PrivateKey = Key{} }, "zero"},
		{"a small MTU", func(c *Config) { c.MTU = 1279 }, "MTU 1279 of wg0: it must be 1280 to 1500"},
		{"a large MTU", func(c *Config) { c.MTU = 1501 }, "MTU 1501"},
		{"a negative MTU", func(c *Config) { c.MTU = -1 }, "MTU -1"},
		{"a peer twice", func(c *Config) { c.Peers[1].PublicKey = c.Peers[0].PublicKey }, "twice"},
		{"itself", func(c *Config) { c.Peers[1].PublicKey = c.PrivateKey.Public() }, "the device's own"},
		{"a zero peer", func(c *Config) { c.Peers[1].PublicKey = Key{} }, "public key is zero"},
		{"4096 peers", func(c *Config) { c.Peers = many(4096) }, ""},
		{"4097 peers", func(c *Config) { c.Peers = many(4097) }, "at most 4096"},
		{"one range of two peers", func(c *Config) { c.Peers[1].AllowedIPs = prefixes("10.1.1.9/24") }, "it is that of peer"},
		{"too many IPs", func(c *Config) { c.Peers[0].AllowedIPs = make([]netip.Prefix, 5000) }, "allowed IP"},
		{"no port in an endpoint", func(c *Config) { c.Peers[0].Endpoint = at("192.0.2.1:0") }, "endpoint"},
		{"an endpoint of nobody", func(c *Config) { c.Peers[0].Endpoint = at("0.0.0.0:1") }, "endpoint"},
		{"a port without address", func(c *Config) { c.Peers[0].Endpoint = netip.AddrPortFrom(netip.Addr{}, 5) }, "endpoint"},
		{"a long keepalive", func(c *Config) { c.Peers[0].Keepalive = 65536 * time.Second }, "keepalive"},
		{"no prefix", func(c *Config) { c.Peers[0].AllowedIPs = []netip.Prefix{{}} }, "allowed IP"},
		{"IPv4 in IPv6", func(c *Config) { c.Peers[0].AllowedIPs = prefixes("::ffff:10.0.0.0/104") }, "allowed IP"},
	} {
		config := wanted()
		c.change(&config)
		err := config.Validate()
		if (err == nil) != (c.text == "") || err != nil && (!strings.Contains(err.Error(), c.text) || node.KindOf(err) != node.Invalid) {
			t.Errorf("%s: %v, want %q", c.name, err, c.text)
		}
		if err != nil && strings.Contains(err.Error(), own.String()) {
			t.Errorf("%s: the error has the private key", c.name)
		}
	}
}

func TestConfigAsJSONComesBack(t *testing.T) {
	config := wanted().Normal()
	raw, err := json.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	var back Config
	if err := json.Unmarshal(raw, &back); err != nil || !reflect.DeepEqual(back, config) {
		t.Errorf("%v\n%+v\n%+v", err, back, config)
	}
}

func TestKey(t *testing.T) {
	if k, err := ParseKey(own.String()); err != nil || k != own {
		t.Errorf("%v %v", k, err)
	}
	for _, bad := range []string{"", "x", own.String()[1:], own.String() + "=", own.String() + "AAAA", strings.Repeat("A", 43) + "!"} {
		if _, err := ParseKey(bad); node.KindOf(err) != node.Invalid || bad != "" && len(bad) > 3 && strings.Contains(err.Error(), bad) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// Whether this kernel has WireGuard is found by making a link, and none stays.
func TestDetect(t *testing.T) {
	for _, c := range []struct {
		name   string
		try    func() error
		kernel bool
		why    string
	}{
		{"it works", func() error { return nil }, true, ""},
		{"it isn't there", func() error { return unix.EOPNOTSUPP }, false, "the kernel has no WireGuard"},
		{"it isn't allowed", func() error { return unix.EPERM }, false, "not allowed"},
		{"it fails", func() error { return unix.ENOMEM }, false, "doesn't work: cannot allocate memory"},
		{"it hangs", func() error { select {} }, false, "took too long"},
	} {
		limit := time.Minute // a busy machine may take long for what doesn't hang
		if c.name == "it hangs" {
			limit = 50 * time.Millisecond
		}
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		kernel, why := detect(ctx, c.try)
		cancel()
		if kernel != c.kernel || !strings.Contains(why, c.why) || kernel != (why == "") {
			t.Errorf("%s: %t %q", c.name, kernel, why)
		}
	}
	err := tryLink()
	if kernel, why := Detect(t.Context()); kernel != (err == nil) {
		t.Errorf("%t %q, making a link gave %v", kernel, why, err)
	}
}
