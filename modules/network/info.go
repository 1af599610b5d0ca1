package network

import (
	"github.com/croft-edge/croft/modules/network/resource"
	"github.com/croft-edge/croft/modules/network/wiring"
	"github.com/croft-edge/croft/pkg/node"
)

// info describes n and its drift.
func (b *builder) info(n *resource.Network, v view) node.NetworkInfo {
	out := node.NetworkInfo{
		ID: n.ID(), Label: n.Spec.Label, Hash: n.Spec.Hash, User: n.Spec.User, Name: n.Spec.Name, IPRange: n.Spec.IPRange, Subnet: n.Spec.Subnet,
		Gateway: n.Plan.Gateway.String(), Gateway6: n.Plan.Gateway6.String(), ListenPort: n.Spec.ListenPort,
		Namespace: n.Namespace, Members: []node.Member{}, Peers: []node.NetworkPeer{}, Drift: b.drift(n, v), Backend: b.tunnels.Backend(),
	}
	for _, one := range n.Sorted() {
		out.Members = append(out.Members, memberInfo(n, one))
	}
	for _, p := range v.Peers(n.ID()) {
		peer := node.NetworkPeer{PublicKey: p.PublicKey.String(), Received: p.Rx, Sent: p.Tx}
		if p.Endpoint.IsValid() {
			peer.Endpoint = p.Endpoint.String()
		}
		if !p.LastHandshake.IsZero() {
			peer.Handshake = p.LastHandshake.Unix()
		}
		out.Peers = append(out.Peers, peer)
	}
	return out
}

func memberInfo(n *resource.Network, one *resource.Member) node.Member {
	out := node.Member{
		Network: n.ID(), Member: one.ID, Hash: one.Hash, Name: one.Name, IPv4: one.IPs[0].String(), IPv6: n.Address6(one).String(),
		Gateway: n.Plan.Gateway.String(), Gateway6: n.Plan.Gateway6.String(), Drift: wiring.MemberDrift(one),
	}
	for _, ip := range one.IPs {
		out.IPs = append(out.IPs, ip.String())
	}
	if one.Public.IsValid() {
		out.PublicIPv6 = one.Public.String()
	}
	return out
}

func tapInfo(n *resource.Network, one *resource.Member, drift string) node.Tap {
	return node.Tap{
		VM: one.ID, Network: n.ID(), Name: one.Name, Hash: one.Hash, Drift: drift, Device: one.Port(), MAC: n.MAC(one).String(), Namespace: n.Namespace,
		IPv4: one.IPs[0].String(), IPv6: n.Address6(one).String(), Gateway: n.Plan.Gateway.String(), Gateway6: n.Plan.Gateway6.String(),
	}
}
