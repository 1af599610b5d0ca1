package service

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/pkg/errors"
)

const (
	// tryEvery is how often a program that isn't ready is tried, tryFor how long one try may take.
	tryEvery = 100 * time.Millisecond
	tryFor   = 5 * time.Second
)

// State is how a program is.
type State struct {
	Name string
	// PID is 0 while the program waits for its next start.
	PID int
	// Since is its last start or end.
	Since time.Time
	// Ready tells that the program was seen to do its work since its start, Cause why the last try has failed.
	Ready bool
	Cause string
	// Ends is how often it has ended by itself, LastEnd how it did the last time.
	Ends    int
	LastEnd string
}

// States are the states of all programs that are kept running, by their names.
func (r *Runner) States() []State {
	r.mu.Lock()
	all := make([]*Service, 0, len(r.running))
	for _, s := range r.running {
		all = append(all, s)
	}
	r.mu.Unlock()
	out := make([]State, 0, len(all))
	for _, s := range all {
		out = append(out, s.State())
	}
	slices.SortFunc(out, func(a, b State) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// State is the program's state now.
func (s *Service) State() State {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state
}

// WaitReady waits until the program is ready. It may end and start meanwhile.
func (s *Service) WaitReady(ctx context.Context) error {
	for {
		state := s.State()
		if state.Ready {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Errorf("cannot wait for %s any longer: %s", s.spec.Name, state.why())
		case <-s.ended:
			return errors.Errorf("cannot wait for %s: it was stopped", s.spec.Name)
		case <-time.After(tryEvery / 4):
		}
	}
}

func (s State) why() string {
	switch {
	case s.PID == 0 && s.LastEnd != "":
		return "it has ended: " + s.LastEnd
	case s.Cause != "":
		return s.Cause
	}
	return "it is starting"
}

// try tries whether the program is ready, until it is or its process has ended.
func (s *Service) try(ctx context.Context) {
	for s.spec.Ready != nil && ctx.Err() == nil {
		attempt, done := context.WithTimeout(ctx, tryFor)
		err := s.spec.Ready(attempt)
		done()
		if ctx.Err() != nil {
			return
		}
		s.mu.Lock()
		s.state.Ready, s.state.Cause = err == nil, ""
		if err != nil {
			s.state.Cause = err.Error()
		}
		s.mu.Unlock()
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(tryEvery):
		}
	}
}

func (s *Service) hasEnded(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state.PID, s.state.Ready, s.state.Since = 0, false, time.Now()
	s.state.Ends++
	s.state.LastEnd = err.Error()
}
