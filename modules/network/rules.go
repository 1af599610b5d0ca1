package network

import (
	"net/netip"

	"github.com/croft-edge/croft/modules/network/firewall"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
)

// applied is what is kept of rules that were applied: what the kernel was told,
// and how it tells them.
type applied struct {
	Digest      string               `json:"digest"`
	Fingerprint firewall.Fingerprint `json:"fingerprint"`
}

// look says how the rules in a namespace differ from the wanted ones, which
// have that digest; empty when they don't. What it returns is a's newer self.
func (a applied) look(namespace, wanted string) (applied, string, error) {
	if a.Fingerprint == "" {
		return a, "its rules aren't known", nil
	}
	if a.Digest != wanted {
		return a, "its rules are older than what they are for", nil
	}
	found, err := firewall.Check(namespace, a.Fingerprint)
	if node.KindOf(err) == node.Invalid {
		return a, "its rules are of another version", nil
	}
	if err != nil {
		return a, "", err
	}
	a.Fingerprint = found.Fingerprint
	return a, found.Drift, nil
}

// rules are those of n's namespace.
func (n *network) rules() firewall.Network {
	return firewall.Network{
		Bridge: bridgeName, Uplink: uplinkName, Tunnel: tunnelName, Ports: n.ports(),
		Subnets: []netip.Prefix{n.plan.subnet, workload.Counterpart6(n.plan.prefix6, n.plan.ipRange, n.plan.subnet)},
	}
}

// guard applies n's rules where they aren't those that are there. was is what
// they may have been until now: where they were, only what differs is changed.
func (m *Module) guard(n *network, was firewall.Network) error {
	rules := n.rules()
	digest := rules.Digest() // it takes a while: once
	drift, err := n.checkRules(m.namespace(n.id()), digest)
	if err != nil || drift == "" {
		return err
	}
	done := false
	var fingerprint firewall.Fingerprint
	if n.Rules.Fingerprint != "" && n.Rules.Digest == was.Digest() {
		if fingerprint, done, err = firewall.UpdateNetwork(m.namespace(n.id()), n.Rules.Fingerprint, was, rules); err != nil {
			return err
		}
	}
	if !done {
		if fingerprint, err = firewall.ApplyNetwork(m.namespace(n.id()), rules); err != nil {
			return err
		}
	}
	n.Rules = applied{Digest: digest, Fingerprint: fingerprint}
	return m.save(n)
}

// checkRules says how the rules of n's namespace differ from what they shall be,
// which has that digest.
func (n *network) checkRules(namespace, digest string) (drift string, err error) {
	n.Rules, drift, err = n.Rules.look(namespace, digest)
	return drift, err
}
