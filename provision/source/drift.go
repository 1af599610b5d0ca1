package source

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/pkg/errors"
	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/pkg/backoff"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/supervise"
	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/provisioner"
)

// Look lists a module's workloads of one type on the node, with each one's
// difference from how it was made (see provisioner.Look).
type Look func(ctx context.Context) (map[provisioner.Label]provisioner.Seen, error)

// DriftConfig holds the parts and settings of Drift.
type DriftConfig struct {
	// Looks holds the look of each watched type.
	Looks map[workload.Type]Look
	// Differs reports whether the engine has to handle a type's listing. It is called
	// from several goroutines and changes nothing.
	Differs func(t workload.Type, seen map[provisioner.Label]provisioner.Seen) bool
	// Every is the time between two looks at a type, give or take a fifth; after
	// repeated failures it is one to one and a half times that: a module that is back
	// must be seen soon. Deadline is how long one look may take.
	Every    time.Duration
	Deadline time.Duration
	Log      zerolog.Logger
}

// Validate names the missing fields.
func (c DriftConfig) Validate() error {
	switch {
	case c.Differs == nil:
		return errors.New("cannot watch for drift: Differs is nil, must be set")
	case c.Every <= 0:
		return errors.Errorf("cannot watch for drift: Every is %s, it must be positive", c.Every)
	case c.Deadline <= 0:
		return errors.Errorf("cannot watch for drift: Deadline is %s, it must be positive", c.Deadline)
	}
	return nil
}

// Drift lists the workloads on the node, each type by itself: one whose module hangs
// delays no other, and never the engine. It yields a type when its listing differs
// from the records, and looks again once the engine is done with it.
type Drift struct {
	cfg DriftConfig
}

// NewDrift makes the source.
func NewDrift(c DriftConfig) (*Drift, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	return &Drift{cfg: c}, nil
}

// Items implements Source. The first look is one Every after the start.
func (d *Drift) Items(ctx context.Context) <-chan Item {
	var all []func(context.Context, chan<- Item) error
	for t, look := range d.cfg.Looks {
		w := &driftWatch{Drift: d, kind: t, look: look}
		all = append(all, w.run)
	}
	return yieldAll(ctx, d.cfg.Log, "drift", all)
}

// driftWatch is the watch of one type.
type driftWatch struct {
	*Drift
	kind workload.Type
	look Look
	// failures counts the looks in a row that failed, or whose differences the engine
	// couldn't handle.
	failures int
	silent   bool
	// late receives the look that missed its deadline; nil when there is none.
	late chan answer
}

// answer is the result of one look.
type answer struct {
	seen map[provisioner.Label]provisioner.Seen
	err  error
}

func (w *driftWatch) run(ctx context.Context, out chan<- Item) error {
	for wait(ctx, w.pause()) {
		began := time.Now()
		a, differs := w.compare(ctx)
		err := a.err
		if ctx.Err() != nil {
			break
		}
		w.tell(err)
		switch {
		case err != nil:
			w.failures++
		case !differs:
			w.failures = 0
		case !w.yield(ctx, out, Item{Kind: Drifted, Type: w.kind, Seen: a.seen, Began: began}):
			return ctx.Err()
		}
	}
	return ctx.Err()
}

// compare looks once, and reports whether the listing differs.
func (w *driftWatch) compare(ctx context.Context) (a answer, differs bool) {
	a = w.ask(ctx)
	if a.err != nil {
		return a, false
	}
	a.err = supervise.Guard(w.cfg.Log, "drift", func() error {
		differs = w.cfg.Differs(w.kind, a.seen)
		return nil
	})
	return a, differs
}

// pause is how long until the next look. The jitter keeps the types, and a fleet,
// from asking all at once.
func (w *driftWatch) pause() time.Duration {
	every := w.cfg.Every
	if w.failures > 1 {
		return every + rand.N(every/2+1)
	}
	return backoff.Around(every)
}

// ask looks once. A look that outlives its deadline is left behind, and the
// module isn't asked again before it comes back.
func (w *driftWatch) ask(ctx context.Context) answer {
	ctx, cancel := context.WithTimeout(ctx, w.cfg.Deadline)
	defer cancel()
	done := w.late
	if done == nil {
		done = make(chan answer, 1)
		go func() {
			var a answer
			a.err = supervise.Guard(w.cfg.Log, "drift", func() (err error) {
				a.seen, err = w.look(ctx)
				return err
			})
			done <- a
		}()
	}
	select {
	case a := <-done:
		stale := w.late != nil
		w.late = nil
		if stale && a.err == nil {
			// The listing is outdated; that the module answers is enough to ask again.
			a.err = node.Errorf(node.Transient, "cannot look at %s: its last answer came too late", w.kind)
		}
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
func (w *driftWatch) yield(ctx context.Context, out chan<- Item, item Item) bool {
	handled := make(chan error, 1)
	item.Done = func(err error) { handled <- err }
	if !send(ctx, out, item) {
		return false
	}
	select {
	case err := <-handled:
		w.failures++
		if err == nil {
			w.failures = 0
		}
		return true
	case <-ctx.Done():
		return false
	}
}
