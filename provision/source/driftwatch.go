package source

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/supervise"
	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/provisioner"
)

// driftWatch is the watch of one type.
type driftWatch struct {
	cfg    DriftConfig
	kind   workload.Type
	look   Look
	lookAt func(ctx context.Context, ids []string) (map[provisioner.Label]provisioner.Seen, error)
	inbox  *inbox
	// failures counts the looks in a row that failed, or whose differences the engine
	// couldn't handle.
	failures int
	silent   bool
	// late receives the look that missed its deadline; nil when there is none.
	late chan answer
	// pace says when the next look may be, and has to be.
	pace pace
}

// answer is the result of one look.
type answer struct {
	// began is when the look began.
	began time.Time
	seen  map[provisioner.Label]provisioner.Seen
	err   error
}

func (w *driftWatch) run(ctx context.Context, out chan<- Item) error {
	w.pace.began(time.Now())
	for w.await(ctx) {
		ids, lost := w.inbox.take()
		if lost || w.pace.due(time.Now(), w.interval()) {
			ids = nil // everything, and with it what was told
		} else if ids = w.wanted(ids); len(ids) == 0 {
			continue
		}
		began := time.Now()
		differs, err := w.handle(ctx, out, ids)
		if ctx.Err() != nil {
			break
		}
		w.failures++
		if err == nil {
			w.failures = 0
		}
		switch took := time.Since(began); {
		case ids == nil:
			if w.pace.lookedAtAll(time.Now(), w.failures); lost {
				w.pace.lost(time.Now(), took, w.cfg.Every)
			}
		case err != nil:
			w.pace.failed(time.Now(), w.failures, w.cfg.Every)
			w.inbox.tell(ids) // they are looked at again
		default:
			w.pace.lookedAt(time.Now(), took, differs)
		}
	}
	return ctx.Err()
}

// await waits until a look is due, and reports whether ctx isn't done.
func (w *driftWatch) await(ctx context.Context) bool {
	for ctx.Err() == nil {
		some, all, _ := w.inbox.state()
		pause := time.Until(w.pace.next(w.interval(), some, all))
		if pause <= 0 {
			return true
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
		case <-timer.C:
		case <-w.inbox.woken:
		}
		timer.Stop()
	}
	return false
}

// interval is the time between two looks at everything.
func (w *driftWatch) interval() time.Duration {
	if _, _, vouched := w.inbox.state(); vouched && w.failures == 0 {
		return w.cfg.Resync
	}
	return w.cfg.Every
}

// wanted are those of the told IDs that are to be looked at.
func (w *driftWatch) wanted(ids []string) (out []string) {
	_ = supervise.Guard(w.cfg.Log, "drift", func() error {
		out = w.cfg.Wanted(w.kind, ids)
		return nil
	})
	return out
}

// handle looks once, at everything when ids is nil, and has the engine handle what differs.
func (w *driftWatch) handle(ctx context.Context, out chan<- Item, ids []string) (differs bool, err error) {
	a, differs := w.compare(ctx, ids)
	if ctx.Err() != nil {
		return false, ctx.Err()
	}
	if w.tell(a.err); a.err != nil || !differs {
		return false, a.err
	}
	return true, w.yield(ctx, out, Item{Kind: Drifted, Type: w.kind, Seen: a.seen, IDs: ids, Began: a.began})
}

// compare looks once, and reports whether the listing differs.
func (w *driftWatch) compare(ctx context.Context, ids []string) (a answer, differs bool) {
	look := w.look
	if ids != nil {
		look = func(ctx context.Context) (map[provisioner.Label]provisioner.Seen, error) { return w.lookAt(ctx, ids) }
	}
	if a = w.ask(ctx, look); a.err != nil {
		return a, false
	}
	if ids != nil {
		maps.DeleteFunc(a.seen, func(l provisioner.Label, _ provisioner.Seen) bool { return !slices.Contains(ids, l.ID) })
	}
	a.err = supervise.Guard(w.cfg.Log, "drift", func() error {
		differs = w.cfg.Differs(w.kind, a.seen, ids)
		return nil
	})
	return a, differs
}

// ask looks once. A look that outlives its deadline is left behind, and the
// module isn't asked again before it comes back. What that has seen is outdated: once it is
// back the module is asked anew at once.
func (w *driftWatch) ask(ctx context.Context, look Look) answer {
	if w.late != nil {
		if a := w.answered(ctx, w.late); w.late != nil {
			return a
		}
	}
	asking, cancel := context.WithTimeout(ctx, w.cfg.Deadline)
	defer cancel()
	done, a := make(chan answer, 1), answer{began: time.Now()}
	go func() {
		a.err = supervise.Guard(w.cfg.Log, "drift", func() (err error) {
			a.seen, err = look(asking)
			return err
		})
		done <- a
	}()
	return w.answered(asking, done)
}

// answered waits for a look's answer until the deadline; a look without one is late.
func (w *driftWatch) answered(ctx context.Context, done chan answer) answer {
	ctx, cancel := context.WithTimeout(ctx, w.cfg.Deadline)
	defer cancel()
	select {
	case a := <-done:
		w.late = nil
		return a
	case <-ctx.Done():
		w.late = done
		return answer{err: node.Errorf(node.Transient, "cannot look at %s: no answer within %s", w.kind, w.cfg.Deadline)}
	}
}

// tell logs once that a module doesn't answer, and once that it does again.
func (w *driftWatch) tell(err error) {
	switch silent := err != nil; {
	case silent == w.silent:
	case silent:
		w.cfg.Log.Warn().Str("type", string(w.kind)).Str("step", "drift").Err(err).Msg("cannot compare: tried again")
		w.silent = true
	default:
		w.cfg.Log.Info().Str("type", string(w.kind)).Str("step", "drift").Int("attempts", w.failures).Msg("compared again")
		w.silent = false
	}
}

// yield hands a listing to the engine, and waits until that has handled it.
func (w *driftWatch) yield(ctx context.Context, out chan<- Item, item Item) error {
	handled := make(chan error, 1)
	item.Done = func(err error) { handled <- err }
	if !send(ctx, out, item) {
		return ctx.Err()
	}
	select {
	case err := <-handled:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}
