package network

import (
	"context"
	"time"

	"github.com/croft-edge/croft/pkg/backoff"
)

// The module mends by itself the parts that networks share: the node's rules and the
// carrier. Drift of a network's own part is told in List, and mended by Create: the
// engine has its key.

const (
	// watchEvery is how often the shared parts are looked at.
	watchEvery = 5 * time.Second
	// restarts is how many carriers that end soon after one another are succeeded at
	// once. The successor of the next one waits for the usual look.
	restarts = 3
	// raisingTime is after how long a failure ends one raising of all networks: other
	// calls wait for it. A carrier takes milliseconds for a network.
	raisingTime = 10 * time.Second
)

// watcher calls mend from time to time, and when the carrier has ended.
type watcher struct {
	every time.Duration
	// ended is the channel that is closed when the present carrier has ended.
	ended func() <-chan struct{}
	// mend fails when it has to be called again.
	mend func() error
	// retry is the pause after failures of mend.
	retry backoff.Backoff
	// woken says that there is another carrier.
	woken chan struct{}
}

func newWatcher(every time.Duration, ended func() <-chan struct{}, mend func() error) *watcher {
	return &watcher{every: every, ended: ended, mend: mend, retry: backoff.Backoff{Base: every, Max: 12 * every}, woken: make(chan struct{}, 1)}
}

// wake makes it watch the present carrier.
func (w *watcher) wake() {
	select {
	case w.woken <- struct{}{}:
	default:
	}
}

// sleep takes a wake back.
func (w *watcher) sleep() {
	select {
	case <-w.woken:
	default:
	}
}

// run watches until ctx is done.
func (w *watcher) run(ctx context.Context) error {
	tick := time.NewTicker(w.every)
	defer tick.Stop()
	var next nextMend
	for {
		ended := next.unseen(w.ended())
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-w.woken:
			// A caller has connected a carrier: the end of the one before may be there
			// to be seen at the same time.
			if closed(ended) {
				next.saw(ended, w.every)
			}
			next.connected()
		case <-ended:
			next.saw(ended, w.every)
		case <-tick.C:
			next.now = true
		}
		if next.due() {
			next.after(w.mend(), w.retry)
			w.sleep() // mend has seen to the carrier that it has connected
		}
	}
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// nextMend decides when a watcher mends.
type nextMend struct {
	// now is true when an event calls for it, owed since a carrier's end until mend
	// succeeds.
	now, owed bool
	// seen is the last carrier whose end was seen, at lastEnd; ends counts those that
	// ended soon after one another.
	seen    <-chan struct{}
	lastEnd time.Time
	ends    int
	// failures are those in a row; until notBefore nothing is tried again.
	failures  int
	notBefore time.Time
}

// unseen is the channel of a carrier, nil for one whose end was seen: its successor may
// not be connected yet.
func (n *nextMend) unseen(carrier <-chan struct{}) <-chan struct{} {
	if carrier == n.seen {
		return nil
	}
	return carrier
}

// saw takes note of a carrier's end.
func (n *nextMend) saw(carrier <-chan struct{}, soon time.Duration) {
	if time.Since(n.lastEnd) >= 2*soon { // longer than until the next look
		n.ends = 0
	}
	n.seen, n.lastEnd = carrier, time.Now()
	n.ends++
	n.owed = true
	n.now = n.ends <= restarts
}

// connected takes note of a carrier that a caller has connected: mend needn't wait for one.
func (n *nextMend) connected() {
	if n.owed {
		n.now, n.notBefore = true, time.Time{}
	}
}

// due reports whether to mend now.
func (n *nextMend) due() bool {
	now := n.now && !time.Now().Before(n.notBefore)
	n.now = false
	return now
}

// after takes note of mend's result.
func (n *nextMend) after(err error, retry backoff.Backoff) {
	if err == nil {
		n.owed, n.failures, n.notBefore = false, 0, time.Time{}
		return
	}
	n.failures++
	n.notBefore = time.Now().Add(retry.Delay(n.failures))
}

// carrierEnded is closed when the present carrier has ended; nil without one.
func (m *Module) carrierEnded() <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.builder.tunnels.Ended()
}

// mend brings the shared parts to their desired state. It fails when a network has yet to
// be given to a carrier.
func (m *Module) mend() error {
	done, err := m.begin()
	if err != nil {
		return nil //nolint:nilerr // the module is closed
	}
	defer done()
	if len(m.networks) == 0 && !m.builder.host.Known() {
		return nil
	}
	if drift, err := m.builder.host.Ensure(); drift != "" || err != nil {
		m.cfg.Log.Warn().Str("type", "network").Str("step", "drift").AnErr("err", err).Str("drift", drift).Msg("the node's rules differed from the desired ones: applied again")
	}
	return m.raise()
}

// raise gives the successor of a carrier that has ended, after starting one, the devices
// and zones of the networks that it hasn't been given. A network that fails for a reason of
// its own, or whose key isn't known any more, is told in List: the engine's look for drift
// mends it. So are all when this process has never connected a carrier.
func (m *Module) raise() error {
	start := time.Now()
	tunnels, raised := m.builder.tunnels, 0
	if !tunnels.Connected() {
		return nil
	}
	for _, n := range m.networks {
		if tunnels.Raised(n) {
			continue
		}
		err := tunnels.Raise(m.ctx, n)
		if err == nil {
			raised++
			continue
		}
		log := m.cfg.Log.Error().Str("id", n.Spec.Label).Str("type", "network").Str("step", "drift").Int("raised", raised).Err(err)
		if !tunnels.Alive() || time.Since(start) >= raisingTime {
			log.Msg("cannot give all networks to a carrier: tried again")
			return err
		}
		log.Msg("cannot make a tunnel again: left to the next look for drift")
	}
	if raised > 0 {
		m.cfg.Log.Warn().Str("type", "network").Str("step", "drift").Int("networks", raised).Dur("took", time.Since(start)).
			Msg("the carrier had ended: its successor was given the networks")
	}
	return nil
}
