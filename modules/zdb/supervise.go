package zdb

import (
	"context"
	"sync"
	"time"

	"github.com/croft-edge/croft/pkg/changes"
)

const (
	// lookAgain is how often a running zdb is asked for its listeners.
	lookAgain = 15 * time.Second
	// The pause after a failure doubles from firstPause to lastPause. It ends when the
	// zdb's socket appears.
	firstPause = 50 * time.Millisecond
	lastPause  = time.Second
)

// watcher is the goroutine that keeps a listener and its zdb together.
type watcher struct {
	cancel context.CancelFunc
	done   chan struct{}
}

// end stops it and waits; nil does nothing.
func (w *watcher) end() {
	if w != nil {
		w.cancel()
		<-w.done
	}
}

// supervisor has a watcher for each attached server, while it runs.
type supervisor struct {
	servers *servers
	pairing *pairing
	hub     *changes.Hub
	work    *sync.WaitGroup

	// running is the context of run, nil while that doesn't run; stopped ends all.
	// servers.mu guards both.
	running context.Context //nolint:containedctx // later watchers last as long as run
	stopped bool
}

// run watches all attached servers, also those attached meanwhile, until ctx is done.
func (v *supervisor) run(ctx context.Context) {
	v.servers.mu.Lock()
	v.running = ctx
	for _, s := range v.servers.all {
		v.start(s)
	}
	v.servers.mu.Unlock()
	<-ctx.Done()
	v.servers.mu.Lock()
	v.running = nil
	var watchers []*watcher
	for _, s := range v.servers.all {
		watchers = append(watchers, s.watcher)
		s.watcher = nil
	}
	v.servers.mu.Unlock()
	for _, w := range watchers {
		w.end()
	}
}

// watch starts the watcher of a server, if it is attached and has none, while run
// runs.
func (v *supervisor) watch(s *server) {
	v.servers.mu.Lock()
	defer v.servers.mu.Unlock()
	v.start(s)
}

// start is watch while servers.mu is held.
func (v *supervisor) start(s *server) {
	if v.running == nil || v.stopped || !s.known || s.watcher != nil {
		return
	}
	ctx, cancel := context.WithCancel(v.running)
	w := &watcher{cancel: cancel, done: make(chan struct{})}
	s.watcher = w
	v.work.Go(func() {
		defer close(w.done)
		v.keep(ctx, s)
	})
}

// unwatch ends the watcher of a server. It reports whether the server has a record,
// a damaged one included.
func (v *supervisor) unwatch(s *server) (recorded bool) {
	v.servers.mu.Lock()
	recorded = s.known || s.damaged != ""
	w := s.watcher
	s.watcher = nil
	v.servers.mu.Unlock()
	w.end()
	return recorded
}

// stop lets no more watchers start.
func (v *supervisor) stop() {
	v.servers.mu.Lock()
	defer v.servers.mu.Unlock()
	v.stopped = true
}

// keep keeps listener and zdb together until ctx is done.
func (v *supervisor) keep(ctx context.Context, s *server) {
	for pause := firstPause; ctx.Err() == nil; {
		if v.stay(ctx, s) {
			pause = firstPause
			continue
		}
		// The folder is watched from before the next try: no socket is missed.
		r, _, _ := v.servers.state(s)
		w := watchFolder(r.Data, handoverSocket)
		if v.stay(ctx, s) {
			pause = firstPause
		} else {
			if pause == firstPause {
				v.hub.Tell(v.servers.namesOf(s)...)
			}
			w.wait(ctx, pause)
			pause = min(2*pause, lastPause)
		}
		w.close()
	}
}

// stay pairs, and returns once the zdb has ended or is due for another look. It
// returns false, at once, when pairing fails, and when the zdb ends soon after it.
func (v *supervisor) stay(ctx context.Context, s *server) bool {
	conn, err := v.pairing.pair(ctx, s)
	if err != nil {
		return false
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(ctx, lookAgain)
	defer cancel()
	start := time.Now()
	err = conn.Wait(ctx)
	if ctx.Err() == nil {
		v.hub.Tell(v.servers.namesOf(s)...)
	}
	if err != nil && ctx.Err() == nil {
		v.pairing.note(s, err)
		return false
	}
	return time.Since(start) >= lastPause
}
