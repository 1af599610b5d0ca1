package network

import (
	"strings"

	"github.com/croft-edge/croft/pkg/node"
)

// check says what of n isn't as it was made; it changes nothing.
func (m *Module) check(n *network, h held) string {
	if h.outside == nil {
		return "the node's own links can't be looked at"
	}
	plumbed, err := m.plumb(n, true, h.outside)
	found := []string{plumbed, errorText(err)}
	if plumbed == "" && err == nil {
		found = append(found, m.checkInside(n)...)
		found = append(found, h.drift(n, m.namespace(n.id())))
	}
	var out []string
	for _, f := range found {
		if f != "" {
			out = append(out, f)
		}
	}
	return strings.Join(out, "; ")
}

// checkInside looks at the rules and at the tunnel's link.
func (m *Module) checkInside(n *network) []string {
	rules, err := n.checkRules(m.namespace(n.id()), n.rules().Digest())
	out := []string{rules, errorText(err)}
	in, err := plumbing(m.namespace(n.id()), true)
	if err != nil {
		return append(out, errorText(err))
	}
	defer in.close()
	err = n.plumbTunnel(in)
	return append(out, in.drift(), errorText(err))
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// info is what is known of n.
func (m *Module) info(n *network, h held) node.NetworkInfo {
	out := node.NetworkInfo{
		ID: n.id(), Label: n.Spec.Label, Hash: n.Spec.Hash, User: n.Spec.User, Name: n.Spec.Name, IPRange: n.Spec.IPRange, Subnet: n.Spec.Subnet,
		Gateway: n.plan.gateway.String(), Gateway6: n.plan.gateway6.String(), ListenPort: n.Spec.ListenPort,
		Namespace: m.namespace(n.id()), Members: []node.Member{}, Peers: []node.NetworkPeer{}, Drift: m.check(n, h),
	}
	if m.tunnels.backend != nil {
		out.Backend = m.tunnels.backend.Name()
	}
	for _, one := range n.sorted() {
		out.Members = append(out.Members, n.memberInfo(one))
	}
	for _, p := range h.devices[n.id()].Peers {
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

func (n *network) memberInfo(one *member) node.Member {
	out := node.Member{
		Network: n.id(), Member: one.ID, Hash: one.Hash, Name: one.Name, IPv4: one.IPs[0].String(), IPv6: n.address6(one).String(),
		Gateway: n.plan.gateway.String(), Gateway6: n.plan.gateway6.String(), Drift: one.gone(),
	}
	for _, ip := range one.IPs {
		out.IPs = append(out.IPs, ip.String())
	}
	if one.Public.IsValid() {
		out.PublicIPv6 = one.Public.String()
	}
	return out
}
