package zdb

import (
	"context"
	"time"
)

const (
	// lookAgain is how often a zdb that goes on is asked for its listeners.
	lookAgain = 15 * time.Second
	// firstPause and lastPause are how long to wait after a failure: doubling. A
	// zdb whose socket comes isn't waited for any longer.
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

// watch starts the watcher of a server that is in hand and has none, while Run
// runs. mu is held.
func (m *Module) watch(s *server) {
	if m.watching == nil || m.closed || !s.known || s.watcher != nil {
		return
	}
	ctx, cancel := context.WithCancel(m.watching)
	w := &watcher{cancel: cancel, done: make(chan struct{})}
	s.watcher = w
	m.work.Go(func() {
		defer close(w.done)
		m.keep(ctx, s)
	})
}

// keep keeps listener and zdb together until ctx is done.
func (m *Module) keep(ctx context.Context, s *server) {
	for pause := firstPause; ctx.Err() == nil; {
		if m.stay(ctx, s) {
			pause = firstPause
			continue
		}
		// What comes is listened for from before the next try: nothing is missed.
		r, _, _ := m.state(s)
		w := watchFolder(r.Data, handoverSocket)
		if m.stay(ctx, s) {
			pause = firstPause
		} else {
			w.wait(ctx, pause)
			pause = min(2*pause, lastPause)
		}
		w.close()
	}
}

// stay pairs, and returns once the zdb has ended or is to be looked at again; at
// once, and false, when it can't. A zdb that ends as soon as it is spoken to can't
// either.
func (m *Module) stay(ctx context.Context, s *server) bool {
	conn, err := m.pair(ctx, s)
	if err != nil {
		return false
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(ctx, lookAgain)
	defer cancel()
	start := time.Now()
	if err := conn.Wait(ctx); err != nil && ctx.Err() == nil {
		m.note(s, err)
		return false
	}
	return time.Since(start) >= lastPause
}
