package network

import "time"

// What of all networks is the node's own, the module mends by itself: the
// rules of the node's namespace and the carrier. A network's own part is told
// in List, and mended by Create: the engine has its key.

// watchEvery is how often the node's own part is looked at.
const watchEvery = 5 * time.Second

// wake makes the watch look at the carrier that there is now.
func (m *Module) wake() {
	select {
	case m.woken <- struct{}{}:
	default:
	}
}

// watch mends the node's own part until the module is closed.
func (m *Module) watch() {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for {
		select {
		case <-m.ctx.Done():
			return
		case <-m.woken:
		case <-m.carrierEnded():
			m.mend()
		case <-tick.C:
			m.mend()
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
