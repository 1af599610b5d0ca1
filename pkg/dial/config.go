package dial

import (
	"context"
	"net"
	"net/netip"
	"time"

	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/pkg/node"
)

// DefaultTimeout is a dial's time limit when Config has none.
const DefaultTimeout = 30 * time.Second

// Resolver is the part of *net.Resolver that the dialer needs. It respects its context.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// Config is the configuration of a Dialer.
type Config struct {
	// Refuse are further refused ranges beside those that aren't public: such as the
	// farm's public address, when a router sends it back to the node.
	Refuse []netip.Prefix
	// Own returns the ranges of the node and of its tenants. It is called for
	// each dial, more than once and from many goroutines, so that a new network
	// counts at once. Required: without such ranges it returns nil.
	// This machine's own addresses needn't be among them.
	Own func() []netip.Prefix
	// Allow are the operator's exceptions.
	Allow []Exception
	// Resolver turns names into addresses; nil is Go's, with this machine's
	// hosts file and name servers.
	Resolver Resolver
	// Timeout is for a whole dial: half of it at most to resolve, the rest to
	// connect. 0 is DefaultTimeout.
	Timeout time.Duration
	// Log gets failures without an error: an address that failed before another answered.
	Log zerolog.Logger
}

// Validate names the field that is wrong. node.Invalid.
func (c Config) Validate() error {
	if c.Own == nil {
		return node.Errorf(node.Invalid, "cannot make a dialer: Own is missing: allowed is a function that returns the node's and its tenants' ranges")
	}
	if c.Timeout < 0 {
		return node.Errorf(node.Invalid, "cannot make a dialer: Timeout %s is negative", c.Timeout)
	}
	for _, p := range c.Refuse {
		if _, err := plainPrefix(p); err != nil {
			return node.Errorf(node.Invalid, "cannot make a dialer: Refuse: %w", err)
		}
	}
	for _, e := range c.Allow {
		if err := e.Validate(); err != nil {
			return node.Errorf(node.Invalid, "cannot make a dialer: Allow: %w", err)
		}
	}
	return nil
}

// New makes a Dialer. It starts nothing. node.Invalid when c isn't valid.
func New(c Config) (*Dialer, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	d := &Dialer{own: c.Own, allow: c.Allow, resolver: c.Resolver, timeout: c.Timeout, log: c.Log, connect: connect}
	d.refuse = nonPublicRanges()
	for _, p := range c.Refuse {
		plain, err := plainPrefix(p)
		if err != nil {
			return nil, node.Errorf(node.Invalid, "cannot make a dialer: Refuse: %w", err)
		}
		d.refuse = append(d.refuse, addressRange{prefix: plain, what: "refused by the operator", secret: true})
	}
	if d.resolver == nil {
		d.resolver = &net.Resolver{PreferGo: true}
	}
	if d.timeout == 0 {
		d.timeout = DefaultTimeout
	}
	return d, nil
}
