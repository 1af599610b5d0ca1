package network

import (
	"context"
	"time"

	"github.com/croft-edge/croft/modules/network/wireguard"
	"github.com/croft-edge/croft/pkg/node"
)

// What of all networks is the node's own, the module mends by itself: the
// rules of the node's namespace and the carrier. A network's own part is told
// in List, and mended by Create: the engine has its key.

const (
	// watchEvery is how often the node's own part is looked at.
	watchEvery = 5 * time.Second
	// lookUpEvery is how often names of endpoints are looked up again where no
	// tunnel is, silence how long a tunnel may say nothing before it isn't one:
	// WireGuard renews its keys every two minutes.
	lookUpEvery = time.Minute
	silence     = 3 * time.Minute
)

// wake makes the watch look at the carrier that there is now.
func (m *Module) wake() {
	select {
	case m.woken <- struct{}{}:
	default:
	}
}

// watch mends the node's own part until the module is closed.
func (m *Module) watch() {
	defer close(m.ended)
	tick, names := time.NewTicker(watchEvery), time.NewTicker(lookUpEvery)
	defer tick.Stop()
	defer names.Stop()
	for {
		select {
		case <-m.ctx.Done():
			return
		case <-m.woken:
		case <-m.carrierEnded():
			m.mend()
		case <-tick.C:
			m.mend()
		case <-names.C:
			m.lookUp()
		}
	}
}

// carrierEnded is closed when the carrier that is used has ended; nil without one.
func (m *Module) carrierEnded() <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.tunnels.carrier == nil {
		return nil
	}
	return m.tunnels.carrier.Done()
}

// mend brings the node's own part to what it shall be.
func (m *Module) mend() {
	done, err := m.begin()
	if err != nil {
		return
	}
	defer done()
	if len(m.networks) == 0 && m.host.Rules.Fingerprint == "" {
		return
	}
	if drift, err := m.ensureHost(); drift != "" || err != nil {
		m.cfg.Log.Warn().AnErr("err", err).Str("step", "drift").Str("type", "network").Str("drift", drift).Msg("the node's rules weren't as they should be: applied again")
	}
	if len(m.networks) == 0 {
		return
	}
	if m.tunnels.carrier != nil {
		select {
		case <-m.tunnels.carrier.Done():
		default:
			return
		}
	}
	m.raiseAll()
}

// raiseAll starts the carrier again and gives it what it held. A network whose
// key isn't known any more is told in List.
func (m *Module) raiseAll() {
	start := time.Now()
	if _, err := m.connect(m.ctx); err != nil {
		m.cfg.Log.Error().Err(err).Str("step", "drift").Str("type", "network").Msg("the carrier has ended and can't be started: tried again")
		return
	}
	for _, n := range m.networks {
		if err := m.raise(m.ctx, n); err != nil {
			m.cfg.Log.Error().Err(err).Str("id", n.Spec.Label).Str("step", "drift").Str("type", "network").Msg("a tunnel can't be made again: tried again")
		}
	}
	m.cfg.Log.Warn().Int("networks", len(m.networks)).Dur("took", time.Since(start)).Str("step", "drift").Str("type", "network").
		Msg("the carrier had ended: it was started again")
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
