package mesh

import (
	"net/netip"

	"github.com/croft-edge/croft/pkg/workload"
)

// Peer is another end of a node's tunnels: a node or an access.
type Peer struct {
	Node   *Node
	Access *Access
	Subnet netip.Prefix
	// AllowedIPs are the ranges routed to it and accepted from it: its own, and
	// those that are reached by way of it. No two peers share any.
	AllowedIPs []netip.Prefix
	// Endpoint is empty when only the peer can call.
	Endpoint string
}

// Peers are the peers of node i: the other nodes in their order, except hidden
// ones if i is hidden too, then the accesses that call it.
func (n Network) Peers(i int) []Peer {
	self := n.Nodes[i]
	var out []Peer
	for j := range n.Nodes {
		other := &n.Nodes[j]
		if j == i || self.Hidden() && other.Hidden() {
			continue
		}
		p := Peer{Node: other, Subnet: other.Subnet, Endpoint: other.Endpoint, AllowedIPs: ranges(other.Subnet)}
		if self.Hidden() && other == n.Relay() {
			p.AllowedIPs = append(p.AllowedIPs, n.hiddenBut(self.ID)...)
		}
		p.AllowedIPs = append(p.AllowedIPs, n.outside(other.ID)...)
		out = append(out, p)
	}
	for j := range n.Access {
		if a := &n.Access[j]; a.Via == self.ID {
			out = append(out, Peer{Access: a, Subnet: a.Subnet, AllowedIPs: ranges(a.Subnet)})
		}
	}
	return out
}

// hiddenBut are the ranges of all hidden nodes but one.
func (n Network) hiddenBut(id string) []netip.Prefix {
	var out []netip.Prefix
	for _, one := range n.Nodes {
		if one.Hidden() && one.ID != id {
			out = append(out, ranges(one.Subnet)...)
		}
	}
	return out
}

// outside are the ranges of the accesses that call a node.
func (n Network) outside(via string) []netip.Prefix {
	var out []netip.Prefix
	for _, one := range n.Access {
		if one.Via == via {
			out = append(out, ranges(one.Subnet)...)
		}
	}
	return out
}

// ranges are a subnet and the address of its tunnel, where it has one.
func ranges(subnet netip.Prefix) []netip.Prefix {
	out := []netip.Prefix{subnet}
	if tunnel, ok := workload.TunnelAddress(subnet); ok {
		out = append(out, netip.PrefixFrom(tunnel, tunnel.BitLen()))
	}
	return out
}
