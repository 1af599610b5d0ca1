// Package stages owns the order in which the parts of a process start and stop: stage after stage, each when the one
// before is ready, and back again in reverse. It knows nothing of what the parts do.
package stages

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"
)

// Part runs until its context is done. When Run returns before that, with an error or without, everything stops.
type Part struct {
	Name string
	Run  func(ctx context.Context) error
}

// Stage is what starts at the same time.
type Stage struct {
	Parts []Part
	// Ready returns when the next stage may start; nil: at once. It heeds its context.
	Ready func(ctx context.Context) error
	// Said is the line that is told when the stage is ready.
	Said string
	// Grace is how long the stage's parts may take to return once their context is done.
	Grace time.Duration
}

// Run starts the stages in order, waits until ctx is done or a part returns, and stops the started stages in reverse
// order. It returns nil if ctx was done and all parts returned in time; otherwise errors that name the parts.
func Run(ctx context.Context, list []Stage, say func(line string)) error {
	total := 0
	for _, s := range list {
		total += len(s.Parts)
	}
	r := &runner{ends: make(chan error, total)}
	err := r.start(ctx, list, say)
	if err == nil {
		select {
		case <-ctx.Done():
		case err = <-r.ends:
		}
	}
	for i := len(r.started) - 1; i >= 0; i-- {
		err = errors.Join(err, r.started[i].stop())
	}
	return err
}

// runner holds the stages that run. ends has room for every part.
type runner struct {
	ends    chan error
	started []*stage
}

// start starts the stages until one fails or ctx is done.
func (r *runner) start(ctx context.Context, list []Stage, say func(line string)) error {
	for _, s := range list {
		r.started = append(r.started, r.launch(ctx, s))
		if err := r.wait(ctx, s); err != nil {
			return err
		}
		if ctx.Err() != nil {
			return nil
		}
		if s.Said != "" {
			say(s.Said)
		}
	}
	return nil
}

// wait waits until the stage is ready, a part has returned, or ctx is done, which is no error.
func (r *runner) wait(ctx context.Context, s Stage) error {
	if s.Ready == nil {
		return nil
	}
	inner, cancel := context.WithCancel(ctx)
	defer cancel()
	ready := make(chan error, 1) // nobody may ask for the answer any more
	go func() { ready <- s.Ready(inner) }()
	select {
	case err := <-ready:
		if err != nil && ctx.Err() == nil {
			return fmt.Errorf("%s: cannot become ready: %w", s.names(), err)
		}
		return nil
	case err := <-r.ends:
		return err
	}
}

// launch starts the stage's parts. Their context keeps ctx's values only: it ends when the stage is stopped.
func (r *runner) launch(ctx context.Context, s Stage) *stage {
	inner, cancel := context.WithCancel(context.WithoutCancel(ctx))
	st := &stage{cancel: cancel, grace: s.Grace, running: map[string]bool{}, done: make(chan struct{})}
	var all sync.WaitGroup
	for _, p := range s.Parts {
		st.running[p.Name] = true
		all.Go(func() {
			err := p.Run(inner)
			st.returned(p.Name)
			switch {
			case inner.Err() != nil:
			case err != nil:
				r.ends <- fmt.Errorf("%s: %w", p.Name, err)
			default:
				r.ends <- fmt.Errorf("%s: returned though nobody stopped it", p.Name)
			}
		})
	}
	go func() {
		all.Wait()
		close(st.done)
	}()
	return st
}

func (s Stage) names() string {
	var names []string
	for _, p := range s.Parts {
		names = append(names, p.Name)
	}
	return strings.Join(names, ", ")
}

// stage is a started stage; done is closed when all its parts have returned.
type stage struct {
	cancel context.CancelFunc
	grace  time.Duration
	done   chan struct{}

	mu      sync.Mutex
	running map[string]bool
}

func (s *stage) returned(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.running, name)
}

// stop tells the parts to stop and waits for them, for the grace period at most.
func (s *stage) stop() error {
	s.cancel()
	late := time.NewTimer(s.grace)
	defer late.Stop()
	select {
	case <-s.done:
		return nil
	case <-late.C:
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var err error
	for name := range s.running {
		err = errors.Join(err, fmt.Errorf("%s: did not stop within %s", name, s.grace))
	}
	return err
}
