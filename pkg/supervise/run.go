// Package supervise starts the parts of a process in order and stops them in the
// reverse order, each within its own time. It is also the one place where the
// panic of a goroutine is caught: Guard and Catch make it an error, Keep restarts
// a function that has ended. It owns goroutines, nothing else.
package supervise

import (
	"context"
	"time"

	"github.com/pkg/errors"
	"github.com/rs/zerolog"
)

// Part is a task that a process runs for as long as it lives.
type Part struct {
	// Name is for log lines and errors.
	Name string
	// Run runs until ctx is done, and then returns nil. An earlier return,
	// also without an error, ends the process: nothing works without the part.
	Run func(ctx context.Context) error
	// Within is how long Run may take after ctx is done; 5 s when it is zero.
	Within time.Duration
	// Again keeps the process when Run returns early or panics: that is logged
	// and Run called again, with DefaultBackoff. Run must allow that.
	Again bool
}

// defaultWithin is a part's time to stop when it sets none.
const defaultWithin = 5 * time.Second

// Group holds parts that were started one after the other. It isn't for use
// from more than one goroutine.
type Group struct {
	log     zerolog.Logger
	started []*started
	failed  chan error
}

type started struct {
	Part
	cancel context.CancelFunc
	done   chan struct{}
	err    error
}

// New makes a group without parts.
func New(log zerolog.Logger) *Group {
	return &Group{log: log, failed: make(chan error, 1)}
}

// Start starts a part. Each part has its own context: parts end in order, not at once.
func (g *Group) Start(p Part) {
	if p.Within <= 0 {
		p.Within = defaultWithin
	}
	ctx, cancel := context.WithCancel(context.Background())
	s := &started{Part: p, cancel: cancel, done: make(chan struct{})}
	g.started = append(g.started, s)
	go func() {
		defer close(s.done)
		s.err = g.guarded(ctx, p)
		if ctx.Err() == nil {
			g.fail(s)
		}
	}()
}

// fail tells Wait that a part has ended early.
func (g *Group) fail(s *started) {
	err := s.err
	if err == nil {
		err = errors.New("it ended by itself")
	}
	select {
	case g.failed <- errors.Wrapf(err, "cannot go on without %s", s.Name):
	default:
	}
}

// guarded runs a part. A panic of its own goroutine becomes an error.
func (g *Group) guarded(ctx context.Context, p Part) error {
	if p.Again {
		return Keep(ctx, g.log, p.Name, DefaultBackoff(), p.Run)
	}
	return Guard(g.log, p.Name, func() error { return p.Run(ctx) })
}

// Wait returns once ctx is done or a part has ended early, and all parts are
// stopped, the newest first. The error is the first relevant one: of the part
// that ended early, or of one that didn't stop well.
func (g *Group) Wait(ctx context.Context) error {
	var first error
	select {
	case <-ctx.Done():
	case first = <-g.failed:
		g.log.Error().Err(first).Msg("stopping")
	}
	if err := g.Stop(); first == nil {
		first = err
	}
	return first
}

// Stop stops all parts, the newest first, each within its time.
func (g *Group) Stop() error {
	var first error
	for i := len(g.started) - 1; i >= 0; i-- {
		s := g.started[i]
		if err := g.stop(s); err != nil && first == nil {
			first = err
		}
	}
	g.started = nil
	return first
}

func (g *Group) stop(s *started) error {
	began := time.Now()
	s.cancel()
	timer := time.NewTimer(s.Within)
	defer timer.Stop()
	select {
	case <-s.done:
	case <-timer.C:
		g.log.Error().Str("part", s.Name).Dur("within", s.Within).Msg("part did not stop in time")
		return errors.Errorf("cannot stop %s: not within %s", s.Name, s.Within)
	}
	g.log.Debug().Str("part", s.Name).Dur("took", time.Since(began)).Msg("part stopped")
	if s.err != nil && !errors.Is(s.err, context.Canceled) {
		return errors.Wrapf(s.err, "cannot stop %s well", s.Name)
	}
	return nil
}
