package networks

import (
	"math/rand/v2"
	"net/netip"

	"github.com/pkg/errors"
	"github.com/urfave/cli/v2"

	"github.com/croft-edge/croft/cmd/croft/internal/command/shell"
	"github.com/croft-edge/croft/cmd/croft/internal/mesh"
	"github.com/croft-edge/croft/pkg/explorer"
)

// nodeFacts are a node's addresses and ports, by the explorer.
type nodeFacts struct {
	// public is an address that can be reached from everywhere; zero without one.
	public netip.Addr
	// ranges are where the node has addresses of its own.
	ranges []netip.Prefix
	ports  map[uint16]bool
}

// factsOf reads them. The farmer's public address comes first, then the node's own; IPv4
// comes first, since everybody can call it.
func factsOf(n explorer.Node) nodeFacts {
	out := nodeFacts{ports: map[uint16]bool{}}
	for _, p := range n.WGPorts {
		if p > 0 && p <= 65535 {
			out.ports[uint16(p)] = true
		}
	}
	var said []string
	if c := n.PublicConfig; c != nil {
		said = append(said, c.IPv4, c.IPv6)
	}
	for _, six := range []bool{false, true} {
		for _, i := range n.Ifaces {
			for _, text := range i.Addrs {
				if p, ok := prefixOf(text); ok && p.Addr().Is6() == six {
					said = append(said, text)
				}
			}
		}
	}
	for _, text := range said {
		p, ok := prefixOf(text)
		if !ok {
			continue
		}
		if !out.public.IsValid() && mesh.Public(p.Addr()) {
			out.public = p.Addr()
		}
		out.ranges = append(out.ranges, p.Masked())
	}
	return out
}

// prefixOf reads an address with or without its range.
func prefixOf(text string) (netip.Prefix, bool) {
	if p, err := netip.ParsePrefix(text); err == nil {
		return netip.PrefixFrom(p.Addr(), p.Bits()), true
	}
	addr, err := netip.ParseAddr(text)
	if err != nil || addr.Zone() != "" {
		return netip.Prefix{}, false
	}
	addr = addr.Unmap()
	return netip.PrefixFrom(addr, addr.BitLen()), true
}

// portOf is the port that the flag asks for, else one that nobody has.
func portOf(c *cli.Context, facts nodeFacts, inFile map[uint16]string) (uint16, error) {
	asked := c.Int("port")
	if !c.IsSet("port") {
		taken := map[uint16]bool{}
		for p := range facts.ports {
			taken[p] = true
		}
		for p := range inFile {
			taken[p] = true
		}
		return mesh.FreePort(taken, rand.IntN)
	}
	if asked < mesh.LeastPort || asked > 65535 {
		return 0, shell.Usagef("--port is %d, must be from %d to 65535", asked, mesh.LeastPort)
	}
	port := uint16(asked)
	if other, twice := inFile[port]; twice {
		return 0, errors.Errorf("port %d is that of network %q on that node; leave --port out for a free one", port, other)
	}
	if facts.ports[port] {
		return 0, errors.Errorf("port %d is in use on that node; leave --port out for a free one", port)
	}
	return port, nil
}
