package network

import (
	"context"
	"net/netip"
	"time"

	"github.com/croft-edge/croft/modules/network/wireguard"
	"github.com/croft-edge/croft/pkg/node"
)

const (
	// lookUpEvery is how often names of endpoints are looked up again where no
	// tunnel is, silence how long a tunnel may say nothing before it isn't one:
	// WireGuard renews its keys every two minutes.
	lookUpEvery = time.Minute
	silence     = 3 * time.Minute
)

// endpointSet is what peers' endpoints have resolved to, by public key.
type endpointSet = map[string]netip.AddrPort

// isName reports whether an endpoint's host is a name.
func isName(endpoint string) bool {
	if endpoint == "" {
		return false
	}
	_, err := netip.ParseAddrPort(endpoint)
	return err != nil
}

// literals are the peers' endpoints that are written as addresses. Nobody is asked:
// whoever makes networks waits for none of their names. These are looked up beside,
// see lookups; the rest of the network works without them.
func (m *Module) literals(p plan) (endpointSet, error) {
	out := endpointSet{}
	for i, one := range p.peers {
		if one.endpoint == "" {
			continue
		}
		at, err := m.cfg.Endpoints.Literal(one.endpoint)
		if err != nil {
			return nil, node.Errorf(node.KindOf(err), "cannot make network %s: endpoint of peer %d: %w", p.name(), i, err)
		}
		if at.IsValid() {
			out[one.key.String()] = at
		}
	}
	return out, nil
}

// named are the lookups of those of p's peers that have a name.
func (p plan) named() (out []lookup) {
	for _, one := range p.peers {
		if isName(one.endpoint) {
			out = append(out, lookup{network: p.spec.ID, key: one.key, endpoint: one.endpoint})
		}
	}
	return out
}

// watchNames looks names of endpoints up again, until the module is closed.
func (m *Module) watchNames() {
	tick := time.NewTicker(lookUpEvery)
	defer tick.Stop()
	for {
		select {
		case <-m.ctx.Done():
			return
		case <-tick.C:
			m.lookUp()
		}
	}
}

// lookUp has names of endpoints looked up again where no tunnel is: the peer may
// have moved.
func (m *Module) lookUp() {
	for _, p := range m.silent() {
		m.lookups.add(p.spec.User, p.named()...)
	}
}

// silent are the networks with peers that have a name and haven't been heard.
func (m *Module) silent() (out []plan) {
	done, err := m.begin()
	if err != nil {
		return nil
	}
	defer done()
	if m.tunnels.carrier == nil {
		return nil
	}
	h := m.look(m.ctx)
	defer h.close()
	for id, n := range m.networks {
		for _, p := range n.plan.peers {
			if isName(p.endpoint) && !heard(h.devices[id], p.key) {
				out = append(out, n.plan)
				break
			}
		}
	}
	return out
}

func heard(d wireguard.Status, key wireguard.Key) bool {
	for _, p := range d.Peers {
		if p.PublicKey == key {
			return time.Since(p.LastHandshake) < silence
		}
	}
	return false
}

// resolved uses what endpoints of a network have resolved to since it was last asked
// to: of several that come while the module is busy, the first does it for all.
func (m *Module) resolved(id string) {
	done, err := m.begin()
	if err != nil {
		return
	}
	defer done()
	found := m.lookups.take(id)
	n := m.networks[id]
	if n == nil || !n.lead(found) {
		return
	}
	log := m.cfg.Log.With().Str("id", n.Spec.Label).Str("type", "network").Str("step", "resolve").Logger()
	if err := m.save(n); err != nil {
		log.Error().Err(err).Msg("it can't be kept where a peer's name leads: looked up again")
	}
	if !n.hasKey() {
		n.moved = true // told in List: whoever makes it right brings the key
		return
	}
	ctx, cancel := context.WithTimeout(m.ctx, carrierPatience)
	defer cancel()
	if err := m.tunnels.backend.Set(ctx, id, m.device(n)); err != nil {
		n.moved = true
		log.Error().Err(err).Str("kind", string(node.KindOf(err))).Msg("a tunnel can't lead to where its peer's name does")
		return
	}
	log.Info().Int("peers", len(found)).Msg("a tunnel leads to where its peer's name does")
}

// lead takes in what endpoints have resolved to, where they still are the network's.
// It reports whether that changes anything.
func (n *network) lead(found map[lookup]netip.AddrPort) (changed bool) {
	for _, p := range n.plan.peers {
		at, ok := found[lookup{network: n.id(), key: p.key, endpoint: p.endpoint}]
		if !ok || n.Endpoints[p.key.String()] == at {
			continue
		}
		if n.Endpoints == nil {
			n.Endpoints = endpointSet{}
		}
		n.Endpoints[p.key.String()] = at
		changed = true
	}
	return changed
}
