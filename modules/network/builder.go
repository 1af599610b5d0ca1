package network

import (
	"context"
	"strings"

	"github.com/croft-edge/croft/modules/network/firewall"
	"github.com/croft-edge/croft/modules/network/host"
	"github.com/croft-edge/croft/modules/network/links"
	"github.com/croft-edge/croft/modules/network/resource"
	"github.com/croft-edge/croft/modules/network/store"
	"github.com/croft-edge/croft/modules/network/tunnel"
	"github.com/croft-edge/croft/modules/network/vouched"
	"github.com/croft-edge/croft/modules/network/wiring"
)

// builder brings one network to its desired state, in all of its parts, or says how
// it differs. It isn't safe for concurrent use.
type builder struct {
	store   *store.Store
	host    *host.Host
	wiring  *wiring.Wiring
	tunnels *tunnel.Tunnels
	book    *vouched.Book
}

// ensure brings n to its desired state, whatever of it there is. The rules come
// before the links that they are for.
func (b *builder) ensure(ctx context.Context, n *resource.Network) error {
	b.book.Changing(n.ID())
	if err := b.store.Save(n); err != nil {
		return err
	}
	if _, err := b.host.Ensure(); err != nil {
		return err
	}
	if err := wiring.MakeNamespace(n); err != nil {
		return err
	}
	if err := b.applyRules(n, firewall.Network{}); err != nil {
		return err
	}
	if err := b.wiring.Mend(n); err != nil {
		return err
	}
	err := b.tunnels.Raise(ctx, n)
	b.watch(n)
	return err
}

// watch has changes of n, and of its members, told from now on.
func (b *builder) watch(n *resource.Network) (since vouched.Mark, ok bool) {
	return b.book.Watch(n.ID(), b.wiring.Places(n))
}

// ensureMember brings one member's place in n to its desired state, or only the
// rules and the names when one is nil: its place is gone then. Other members' links
// are left alone, so that a change costs the same among many. Where n itself isn't
// whole all of it is brought to its desired state. was is the rules before the change.
func (b *builder) ensureMember(ctx context.Context, n *resource.Network, one *resource.Member, was firewall.Network) error {
	b.book.Changing(n.ID())
	whole, err := wiring.Whole(n)
	if err != nil {
		return err
	}
	if !whole {
		return b.ensure(ctx, n)
	}
	if err := b.store.Save(n); err != nil {
		return err
	}
	if _, err := b.host.Ensure(); err != nil {
		return err
	}
	if err := b.applyRules(n, was); err != nil {
		return err
	}
	if one != nil {
		if err := b.wiring.MendMember(n, one); err != nil {
			return err
		}
	}
	b.watch(n)
	return b.tunnels.SetZone(ctx, n)
}

// applyRules applies n's rules where they differ from those in its namespace. was is
// the rules that may be there: if they are, only the difference is applied.
func (b *builder) applyRules(n *resource.Network, was firewall.Network) error {
	rules := n.Firewall()
	digest := rules.Digest() // it takes a while: once
	drift, err := rulesDrift(n, digest)
	if err != nil || drift == "" {
		return err
	}
	done := false
	var fingerprint firewall.Fingerprint
	if n.Rules.Fingerprint != "" && n.Rules.Digest == was.Digest() {
		if fingerprint, done, err = firewall.UpdateNetwork(n.Namespace, n.Rules.Fingerprint, was, rules); err != nil {
			return err
		}
	}
	if !done {
		if fingerprint, err = firewall.ApplyNetwork(n.Namespace, rules); err != nil {
			return err
		}
	}
	n.Rules = firewall.Applied{Digest: digest, Fingerprint: fingerprint}
	return b.store.Save(n)
}

// rulesDrift says how the rules of n's namespace differ from the desired ones, which
// have that digest.
func rulesDrift(n *resource.Network, digest string) (drift string, err error) {
	n.Rules, drift, err = n.Rules.Check(n.Namespace, digest)
	return drift, err
}

// takeDown removes all of a network, its record last.
func (b *builder) takeDown(ctx context.Context, n *resource.Network) error {
	if err := b.tunnels.Lower(ctx, n); err != nil {
		return err
	}
	if err := b.wiring.Remove(n); err != nil {
		return err
	}
	b.book.Drop(n.ID())
	return b.store.Remove(n.ID())
}

// view is one look at the parts that networks share.
type view struct {
	// outside looks at the node's own namespace; nil when that can't be opened.
	outside *links.Reconciler
	tunnel.Observation
}

// look begins one with an observation of the tunnels; close ends it.
func look(observe func() tunnel.Observation) view {
	outside, err := links.Open("", links.Look)
	if err != nil {
		return view{}
	}
	return view{outside: outside, Observation: observe()}
}

func (v view) close() {
	if v.outside != nil {
		v.outside.Close()
	}
}

// drift says how n differs from its desired state; it changes nothing.
func (b *builder) drift(n *resource.Network, v view) string {
	if b.book.Fine(n.ID()) {
		return untoldDrift(n, v)
	}
	since, watched := b.watch(n)
	if told, whole := b.toldDrift(n, v); told != "" {
		if !whole {
			return told
		}
		return joined(told, untoldDrift(n, v))
	}
	if watched {
		b.book.Keep(n.ID(), since)
	}
	return untoldDrift(n, v)
}

// untoldDrift is the drift of the parts whose changes nobody tells: they are looked at each time.
func untoldDrift(n *resource.Network, v view) string {
	settings, err := wiring.SettingsDrift(n)
	return joined(v.Drift(n), settings, errorText(err))
}

// toldDrift is the drift of the parts whose changes the kernel tells. whole is whether the
// others can be looked at too.
func (b *builder) toldDrift(n *resource.Network, v view) (drift string, whole bool) {
	if v.outside == nil {
		return "the node's own links can't be read", false
	}
	wired, err := b.wiring.Drift(n, v.outside)
	if wired != "" || err != nil {
		return joined(wired, errorText(err)), false
	}
	rules, rulesErr := rulesDrift(n, n.Firewall().Digest())
	link, linkErr := tunnel.LinkDrift(n)
	return joined(rules, errorText(rulesErr), link, errorText(linkErr)), true
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// joined puts differences into one line.
func joined(parts ...string) string {
	var out []string
	for _, part := range parts {
		if part != "" {
			out = append(out, part)
		}
	}
	return strings.Join(out, "; ")
}
