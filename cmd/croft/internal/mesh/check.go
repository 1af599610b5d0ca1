package mesh

import (
	"fmt"
	"net/netip"
)

// The limits of a network's ranges. Nodes refuse others.
const (
	// RangeBits is the size of a network's range.
	RangeBits = 16
	// WidestBits and NarrowestBits bound its subnets: a /30 holds a gateway and a member.
	WidestBits    = RangeBits + 1
	NarrowestBits = 30
	// LeastPort is the first that isn't the system's.
	LeastPort = 1024
	// mostParts bounds nodes and accesses together.
	mostParts = 128
)

// Problem is a mistake in a network.
type Problem struct {
	// Path is the part's, as in "nodes[1].subnet".
	Path string
	// Text has the value and the allowed values.
	Text string
}

func (p *Problem) Error() string { return p.Path + ": " + p.Text }

func problem(path, format string, args ...any) error {
	return &Problem{Path: path, Text: fmt.Sprintf(format, args...)}
}

// CheckRange checks a network's range.
func CheckRange(p netip.Prefix) error {
	if !p.IsValid() || !p.Addr().Is4() || !p.Addr().IsPrivate() || p.Bits() != RangeBits || p != p.Masked() {
		return problem("ip_range", "is %s, must be a private IPv4 range of /%d, such as 10.1.0.0/%d", p, RangeBits, RangeBits)
	}
	return nil
}

// Check checks the network as a whole. Its error is a *Problem.
func (n Network) Check() error {
	if err := CheckRange(n.IPRange); err != nil {
		return err
	}
	if len(n.Nodes)+len(n.Access) > mostParts {
		return problem("nodes", "are %d, with %d of access; at most %d together are allowed", len(n.Nodes), len(n.Access), mostParts)
	}
	c := checker{network: n, names: map[string]string{}}
	for i, one := range n.Nodes {
		if err := c.node(fmt.Sprintf("nodes[%d]", i), one); err != nil {
			return err
		}
	}
	for i, one := range n.Access {
		if err := c.access(fmt.Sprintf("access[%d]", i), one); err != nil {
			return err
		}
	}
	return nil
}

// checker has the names, ranges and keys that earlier parts have taken.
type checker struct {
	network Network
	subnets []taken
	// names are those of nodes, accesses, endpoints and keys, with where they are.
	names map[string]string
}

type taken struct {
	subnet netip.Prefix
	by     string
}

func (c *checker) node(at string, n Node) error {
	if other, twice := c.names["node "+n.ID]; twice {
		return problem(at+".node", "is %s, as %s.node is; a node is in a network once", n.ID, other)
	}
	c.names["node "+n.ID] = at
	if err := c.subnet(at, n.Subnet); err != nil {
		return err
	}
	if n.Port < LeastPort {
		return problem(at+".listen_port", "is %d, must be a port from %d to 65535", n.Port, LeastPort)
	}
	if n.Hidden() {
		return nil
	}
	if err := checkEndpoint(n.Endpoint); err != nil {
		return problem(at+".endpoint", "%s", err)
	}
	if other, twice := c.names["endpoint "+n.Endpoint]; twice {
		return problem(at+".endpoint", "is %q, as %s.endpoint is; each node has one of its own", n.Endpoint, other)
	}
	c.names["endpoint "+n.Endpoint] = at
	return nil
}

func (c *checker) access(at string, a Access) error {
	if other, twice := c.names["access "+a.Name]; twice {
		return problem(at+".name", "is %q, as %s.name is; each needs a name of its own", a.Name, other)
	}
	c.names["access "+a.Name] = at
	if err := c.subnet(at, a.Subnet); err != nil {
		return err
	}
	if err := CheckKey(a.PublicKey); err != nil {
		return problem(at+".public_key", "%s", err)
	}
	if other, twice := c.names["key "+a.PublicKey]; twice {
		return problem(at+".public_key", "is that of %s; each needs a key of its own", other)
	}
	c.names["key "+a.PublicKey] = at
	via := c.network.Find(a.Via)
	if via == nil {
		return problem(at+".via", "is %q, must be one of the network's nodes", a.Via)
	}
	if via.Hidden() {
		return problem(at+".via", "is %s, which has no endpoint, so nobody can call it; must be a node with one", a.Via)
	}
	return nil
}

func (c *checker) subnet(at string, p netip.Prefix) error {
	if !Within(c.network.IPRange, p) {
		return problem(at+".subnet", "is %s, must be a part of ip_range %s, from /%d to /%d", p, c.network.IPRange, WidestBits, NarrowestBits)
	}
	for _, other := range c.subnets {
		if other.subnet.Overlaps(p) {
			return problem(at+".subnet", "is %s, which overlaps %s of %s; subnets must lie apart", p, other.subnet, other.by)
		}
	}
	c.subnets = append(c.subnets, taken{p, at})
	return nil
}

// Within reports whether p can be a subnet of a network's range.
func Within(ipRange, p netip.Prefix) bool {
	return p.IsValid() && p == p.Masked() && p.Addr().Is4() && ipRange.Contains(p.Addr()) && p.Bits() >= WidestBits && p.Bits() <= NarrowestBits
}
