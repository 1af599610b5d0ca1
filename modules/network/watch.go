package network

import (
	"context"
	"time"
)

// The module mends by itself the parts that networks share: the node's rules and the
// carrier. Drift of a network's own part is told in List, and mended by Create: the
// engine has its key.

// watchEvery is how often the shared parts are looked at.
const watchEvery = 5 * time.Second

// watcher calls mend from time to time, and when the carrier has ended.
type watcher struct {
	every time.Duration
	// ended is the channel that is closed when the present carrier has ended.
	ended func() <-chan struct{}
	mend  func()
	// woken says that there is another carrier.
	woken chan struct{}
}

func newWatcher(every time.Duration, ended func() <-chan struct{}, mend func()) *watcher {
	return &watcher{every: every, ended: ended, mend: mend, woken: make(chan struct{}, 1)}
}

// wake makes it watch the present carrier.
func (w *watcher) wake() {
	select {
	case w.woken <- struct{}{}:
	default:
	}
}

// run watches until ctx is done.
func (w *watcher) run(ctx context.Context) {
	tick := time.NewTicker(w.every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.woken:
		case <-w.ended():
			w.mend()
		case <-tick.C:
			w.mend()
		}
	}
}

// carrierEnded is closed when the present carrier has ended; nil without one.
func (m *Module) carrierEnded() <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.builder.tunnels.Ended()
}

// mend brings the shared parts to their desired state.
func (m *Module) mend() {
	done, err := m.begin()
	if err != nil {
		return
	}
	defer done()
	if len(m.networks) == 0 && !m.builder.host.Known() {
		return
	}
	if drift, err := m.builder.host.Ensure(); drift != "" || err != nil {
		m.cfg.Log.Warn().Str("type", "network").Str("step", "drift").AnErr("err", err).Str("drift", drift).Msg("the node's rules differed from the desired ones: applied again")
	}
	if len(m.networks) == 0 || m.builder.tunnels.Raised() {
		return
	}
	m.raiseAll()
}

// raiseAll starts the carrier again and gives it all devices and zones. A network
// whose key isn't known any more is told in List.
func (m *Module) raiseAll() {
	start := time.Now()
	if err := m.builder.tunnels.BeginRaising(m.ctx); err != nil {
		m.cfg.Log.Error().Str("type", "network").Str("step", "drift").Err(err).Msg("cannot start the carrier, which has ended: tried again")
		return
	}
	for _, n := range m.networks {
		if err := m.builder.tunnels.Raise(m.ctx, n); err != nil {
			m.cfg.Log.Error().Str("id", n.Spec.Label).Str("type", "network").Str("step", "drift").Err(err).Msg("cannot make a tunnel again: left to the next look for drift")
		}
	}
	m.cfg.Log.Warn().Str("type", "network").Str("step", "drift").Int("networks", len(m.networks)).Dur("took", time.Since(start)).
		Msg("the carrier had ended: it was started again")
}
