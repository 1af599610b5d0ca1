package network

import (
	"context"
	"time"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/pkg/backoff"
	"github.com/croft-edge/croft/pkg/node"
)

// The module mends by itself the parts that networks share: the node's rules and the
// carrier. Drift of a network's own part is told in List, and mended by Create: the
// engine has its key.

const (
	// watchEvery is how often the shared parts are looked at.
	watchEvery = 5 * time.Second
	// restarts is how many carriers that end soon after one another are succeeded at
	// once, and how many may end during one raising of all networks. The successor of the
	// next one waits for the usual look.
	restarts = 3
	// raisingTime is after how long a failure ends one raising of all networks: other
	// calls wait for it. A carrier takes milliseconds for a network.
	raisingTime = 10 * time.Second
)

// watcher calls look and raise from time to time, and raise when the carrier has ended.
type watcher struct {
	every time.Duration
	// ended is the channel that is closed when the present carrier has ended.
	ended func() <-chan struct{}
	// look sees to the node's rules, raise to the carrier. It fails when it has to be called
	// again, and takes back the wake of a carrier that it has connected.
	look  func()
	raise func() error
	// retry is the pause after failures of raise.
	retry backoff.Backoff
	// woken says that there is another carrier.
	woken chan struct{}
}

func newWatcher(every time.Duration, ended func() <-chan struct{}, look func(), raise func() error) *watcher {
	return &watcher{every: every, ended: ended, look: look, raise: raise, retry: backoff.Backoff{Base: every, Max: 12 * every}, woken: make(chan struct{}, 1)}
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
	var next nextRaise
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
			w.look()
			next.now = true
		}
		if next.due() {
			next.after(w.raise(), w.retry)
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

// nextRaise decides when a watcher raises networks.
type nextRaise struct {
	// now is true when an event calls for it, owed since a carrier's end until
	// raise succeeds.
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
func (n *nextRaise) unseen(carrier <-chan struct{}) <-chan struct{} {
	if carrier == n.seen {
		return nil
	}
	return carrier
}

// saw takes note of a carrier's end.
func (n *nextRaise) saw(carrier <-chan struct{}, soon time.Duration) {
	if time.Since(n.lastEnd) >= 2*soon { // longer than until the next look
		n.ends = 0
	}
	n.seen, n.lastEnd = carrier, time.Now()
	n.ends++
	n.owed = true
	if n.ends <= restarts {
		n.now, n.notBefore = true, time.Time{} // what failed before was another carrier's
	}
}

// connected takes note of a carrier that a caller has connected: raise needn't wait for one.
func (n *nextRaise) connected() {
	if n.owed {
		n.now, n.notBefore = true, time.Time{}
	}
}

// due reports whether to raise now.
func (n *nextRaise) due() bool {
	now := n.now && !time.Now().Before(n.notBefore)
	n.now = false
	return now
}

// after takes note of raise's result.
func (n *nextRaise) after(err error, retry backoff.Backoff) {
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

// mendRules brings the node's rules to their desired state.
func (m *Module) mendRules() {
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
}

// raise gives the carrier, after starting one if there is none, the devices and zones of the
// networks that it hasn't been given. It fails when a network has yet to be given to one.
func (m *Module) raise() error {
	done, err := m.begin()
	if err != nil {
		return nil //nolint:nilerr // the module is closed
	}
	defer done()
	defer m.watcher.sleep() // while no caller can connect a carrier
	if len(m.networks) == 0 {
		return nil
	}
	start, raised := time.Now(), 0
	for range restarts {
		n, failed := m.raiseLacking(start)
		raised += n
		if err = failed; !errors.Is(err, errCarrierEnded) {
			break
		}
	}
	if err != nil {
		m.cfg.Log.Error().Str("type", "network").Str("step", "drift").Int("raised", raised).Err(err).Msg("cannot give all networks to a carrier: tried again")
	} else if raised > 0 {
		m.cfg.Log.Warn().Str("type", "network").Str("step", "drift").Int("networks", raised).Dur("took", time.Since(start)).
			Msg("the carrier had ended: its successor was given the networks")
	}
	return err
}

// errCarrierEnded is the failure of a carrier that ended while it was given networks.
var errCarrierEnded = node.Errorf(node.Transient, "the carrier has ended")

// raiseLacking gives networks to one carrier, and returns how many. A network that fails for
// a reason of its own, or whose key isn't known any more, is told in List: the engine's look
// for drift mends it.
func (m *Module) raiseLacking(start time.Time) (raised int, err error) {
	tunnels := m.builder.tunnels
	if err := tunnels.Connect(m.ctx); err != nil {
		return 0, err
	}
	for _, n := range m.networks {
		if tunnels.Raised(n) {
			continue
		}
		if !tunnels.Alive() {
			return raised, errCarrierEnded
		}
		err := tunnels.Raise(m.ctx, n)
		switch {
		case err == nil:
			raised++
		case !tunnels.Alive():
			return raised, errCarrierEnded
		case m.ctx.Err() != nil, time.Since(start) >= raisingTime:
			return raised, err
		default:
			m.hearing.hub.Tell(n.Spec.Label)
			m.cfg.Log.Error().Str("id", n.Spec.Label).Str("type", "network").Str("step", "drift").Err(err).Msg("cannot make a tunnel again: left to the next look for drift")
		}
	}
	if !tunnels.Alive() {
		return raised, errCarrierEnded
	}
	return raised, nil
}
