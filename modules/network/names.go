package network

import (
	"context"
	"time"

	"github.com/croft-edge/croft/modules/network/endpoints"
	"github.com/croft-edge/croft/modules/network/resource"
	"github.com/croft-edge/croft/pkg/node"
)

const (
	// lookUpEvery is how often names of endpoints are looked up again where no
	// tunnel is up.
	lookUpEvery = time.Minute
	// silence is how long a tunnel may be silent before it counts as down: WireGuard
	// renews its keys every two minutes.
	silence = 3 * time.Minute
)

// watchNames looks names of endpoints up again, until ctx is done.
func (m *Module) watchNames(ctx context.Context) error {
	tick := time.NewTicker(lookUpEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
			m.lookUpSilent()
		}
	}
}

// lookUpSilent has names of endpoints looked up again where no tunnel is up: the peer
// may have moved.
func (m *Module) lookUpSilent() {
	for _, p := range m.silent() {
		m.lookups.Add(p)
	}
}

// silent are the networks with peers that have a name and no recent handshake.
func (m *Module) silent() (out []resource.Plan) {
	done, err := m.begin()
	if err != nil {
		return nil
	}
	defer done()
	if !m.builder.tunnels.Connected() {
		return nil
	}
	now := m.builder.tunnels.Observe(m.ctx)
	for id, n := range m.networks {
		for _, p := range n.Plan.Peers {
			if endpoints.IsName(p.Endpoint) && !now.Heard(id, p.Key, silence) {
				out = append(out, n.Plan)
				break
			}
		}
	}
	return out
}

// resolved directs a network's tunnel to the addresses that lookups have found.
func (m *Module) resolved(id string) {
	done, err := m.begin()
	if err != nil {
		return
	}
	defer done()
	found := m.lookups.Take(id)
	n := m.networks[id]
	if n == nil || !found.Apply(n) {
		return
	}
	log := m.cfg.Log.With().Str("id", n.Spec.Label).Str("type", "network").Str("step", "resolve").Logger()
	if err := m.builder.store.Save(n); err != nil {
		log.Error().Err(err).Msg("cannot save the address of a peer's name: looked up again")
	}
	if !n.HasKey() {
		n.Moved = true // told in List: the Create that mends it brings the key
		m.hearing.hub.Tell(n.Spec.Label)
		return
	}
	if err := m.builder.tunnels.Redirect(m.ctx, n); err != nil {
		n.Moved = true
		log.Error().Err(err).Str("kind", string(node.KindOf(err))).Msg("cannot set a tunnel's endpoint to the new address of its peer's name")
		return
	}
	log.Info().Int("peers", len(found)).Msg("a tunnel's endpoint is set to the new address of its peer's name")
}
