package dns

import (
	"net/netip"
	"time"

	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/pkg/node"
)

// DefaultResolvConf is where the node's name servers are read from.
const DefaultResolvConf = "/etc/resolv.conf"

// Config is a Server's configuration. Fields that are 0 get the default in parentheses.
type Config struct {
	// Upstreams are the name servers that are asked, in this order. Empty:
	// those of ResolvConf, read again when the file changes.
	Upstreams []netip.AddrPort
	// ResolvConf is DefaultResolvConf.
	ResolvConf string
	// Attempt is how long one name server may take (1.5 s); Timeout is for all
	// of them together (4.5 s, below the 5 s after which members ask again).
	Attempt time.Duration
	Timeout time.Duration
	// Idle is how long a member's TCP connection may be silent (10 s).
	Idle   time.Duration
	Limits Limits
	Log    zerolog.Logger
}

// Limits are those of one namespace: none shares them with another.
type Limits struct {
	// Forwards is how many queries may wait for name servers (64). Others are
	// answered with SERVFAIL.
	Forwards int
	// Connections is how many TCP connections members may have (32). Others are
	// closed at once.
	Connections int
	// Rate is how many queries a second are looked at (2,000), and as many at
	// once. Others are dropped; over TCP the connection is closed.
	Rate int
}

// Validate names the field that is wrong. node.Invalid.
func (c Config) Validate() error {
	for _, u := range c.Upstreams {
		if !usable(u) {
			return node.Errorf(node.Invalid, "cannot make a DNS server: Upstreams has %q: allowed is the address of one host and a port from 1 to 65535", u.String())
		}
	}
	for _, d := range []struct {
		name string
		is   time.Duration
	}{{"Attempt", c.Attempt}, {"Timeout", c.Timeout}, {"Idle", c.Idle}} {
		if d.is < 0 {
			return node.Errorf(node.Invalid, "cannot make a DNS server: %s is %s: allowed is 0 and more", d.name, d.is)
		}
	}
	for _, n := range []struct {
		name string
		is   int
	}{{"Forwards", c.Limits.Forwards}, {"Connections", c.Limits.Connections}, {"Rate", c.Limits.Rate}} {
		if n.is < 0 {
			return node.Errorf(node.Invalid, "cannot make a DNS server: Limits.%s is %d: allowed is 0 and more", n.name, n.is)
		}
	}
	return nil
}

// complete fills in the defaults.
func (c Config) complete() Config {
	if c.ResolvConf == "" {
		c.ResolvConf = DefaultResolvConf
	}
	orDuration(&c.Attempt, 1500*time.Millisecond)
	orDuration(&c.Timeout, 4500*time.Millisecond)
	orDuration(&c.Idle, 10*time.Second)
	orInt(&c.Limits.Forwards, 64)
	orInt(&c.Limits.Connections, 32)
	orInt(&c.Limits.Rate, 2000)
	return c
}

func orDuration(d *time.Duration, otherwise time.Duration) {
	if *d == 0 {
		*d = otherwise
	}
}

func orInt(n *int, otherwise int) {
	if *n == 0 {
		*n = otherwise
	}
}

// usable reports whether a name server may be asked at that address.
func usable(at netip.AddrPort) bool {
	return at.IsValid() && at.Port() != 0 && !at.Addr().IsUnspecified() && !at.Addr().IsMulticast()
}
