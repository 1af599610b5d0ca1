package network

import (
	"context"
	"net/netip"
	"sync"
	"time"

	"github.com/croft-edge/croft/modules/network/wireguard"
	"github.com/croft-edge/croft/pkg/node"
)

const (
	// resolveWithin bounds the lookup of all of a network's names: a name whose
	// server never answers costs its network no more. It is looked up again.
	resolveWithin = 5 * time.Second
	// resolveAtOnce is how many are looked up at the same time.
	resolveAtOnce = 16
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

// resolve turns the peers' endpoints into addresses that may be sent to. A
// name that doesn't resolve now may later: the rest works without it.
func (m *Module) resolve(ctx context.Context, p plan) (endpointSet, error) {
	ctx, cancel := context.WithTimeout(ctx, resolveWithin)
	defer cancel()
	found, errs := make([]netip.AddrPort, len(p.peers)), make([]error, len(p.peers))
	places := make(chan struct{}, resolveAtOnce)
	var all sync.WaitGroup
	for i, one := range p.peers {
		if one.endpoint == "" {
			continue
		}
		all.Go(func() {
			places <- struct{}{}
			defer func() { <-places }()
			found[i], errs[i] = m.cfg.Endpoints.Resolve(ctx, one.endpoint)
		})
	}
	all.Wait()
	out := endpointSet{}
	for i, one := range p.peers {
		switch kind := node.KindOf(errs[i]); {
		case kind == node.Transient:
			m.cfg.Log.Warn().Err(errs[i]).Str("id", p.spec.Label).Str("type", "network").Str("step", "resolve").
				Msg("a peer's endpoint can't be resolved: looked up again")
		case kind != "":
			return nil, node.Errorf(kind, "cannot make network %s: endpoint of peer %d: %w", p.name(), i, errs[i])
		case found[i].IsValid():
			out[one.key.String()] = found[i]
		}
	}
	return out, nil
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

// lookUp looks names of endpoints up again where no tunnel is: the peer may
// have moved.
func (m *Module) lookUp() {
	for id, p := range m.silent() {
		endpoints, err := m.resolve(m.ctx, p)
		if err != nil {
			m.cfg.Log.Warn().Err(err).Str("id", p.spec.Label).Str("step", "resolve").Msg("a peer's endpoint may not be used any more")
			continue
		}
		m.moved(id, p, endpoints)
	}
}

// silent are the networks with peers that have a name and haven't been heard.
func (m *Module) silent() map[string]plan {
	out := map[string]plan{}
	done, err := m.begin()
	if err != nil {
		return out
	}
	defer done()
	if m.tunnels.carrier == nil {
		return out
	}
	h := m.look(m.ctx)
	defer h.close()
	for id, n := range m.networks {
		for _, p := range n.plan.peers {
			if isName(p.endpoint) && !heard(h.devices[id], p.key) {
				out[id] = n.plan
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

// moved uses what the endpoints of a network resolve to now.
func (m *Module) moved(id string, p plan, endpoints endpointSet) {
	done, err := m.begin()
	if err != nil {
		return
	}
	defer done()
	n := m.networks[id]
	if n == nil || n.plan.spec.Label != p.spec.Label || !n.hasKey() {
		return
	}
	changed := false
	for key, at := range endpoints {
		changed = changed || n.Endpoints[key] != at
	}
	if !changed {
		return
	}
	n.Endpoints = endpoints
	ctx, cancel := context.WithTimeout(m.ctx, carrierPatience)
	defer cancel()
	err = m.save(n)
	if err == nil {
		err = m.tunnels.backend.Set(ctx, id, m.device(n))
	}
	m.cfg.Log.Info().AnErr("err", err).Str("id", p.spec.Label).Str("step", "resolve").Str("kind", string(node.KindOf(err))).Msg("a peer's name leads elsewhere now")
}
