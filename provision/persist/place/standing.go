package place

import (
	"context"
	"slices"
	"sync"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/provision/persist"
)

// standing is an instance: its place, and whether it is up.
type standing struct {
	name    string
	place   Place
	latency persist.Latency

	// opening is held while the place is brought up.
	opening sync.Mutex
	// mu guards the fields below.
	mu      sync.Mutex
	machine persist.MachineID
	up      bool
	// cause is why it is down; nil before the first try.
	cause error
}

// open brings the instance up unless it is.
func (s *standing) open(ctx context.Context, machine persist.MachineID) error {
	s.opening.Lock()
	defer s.opening.Unlock()
	s.mu.Lock()
	up, whose := s.up, s.machine
	s.mu.Unlock()
	switch {
	case whose != "" && whose != machine:
		return node.Errorf(node.Refused, "cannot use instance %s for machine %s: it is in use for machine %s", s.name, machine, whose)
	case up:
		return nil
	}
	err := s.place.Open(ctx, machine)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.up, s.cause = err == nil, err
	if err != nil {
		return node.WithKind(node.KindOf(err), errors.WithMessagef(err, "cannot bring up instance %s", s.name))
	}
	s.machine = machine
	return nil
}

// use calls do if the instance is up, and takes it down when do shows that it is; errors of the kinds in spare don't show it.
func (s *standing) use(ctx context.Context, do func(machine persist.MachineID) error, spare ...node.Kind) error {
	s.mu.Lock()
	up, machine, cause := s.up, s.machine, s.cause
	s.mu.Unlock()
	if !up {
		if cause == nil {
			cause = errors.New("it wasn't brought up yet")
		}
		return node.Errorf(node.Transient, "cannot use instance %s: it is down: %w", s.name, cause)
	}
	err := do(machine)
	if err == nil {
		return nil
	}
	switch kind := node.KindOf(err); {
	case kind == node.NotExist, kind == node.Invalid, kind == node.NoSpace, slices.Contains(spare, kind):
	case errors.Is(ctx.Err(), context.Canceled): // the caller has given up, not the instance
	default:
		s.mu.Lock()
		s.up, s.cause = false, err
		s.mu.Unlock()
	}
	return err
}

func (s *standing) status() persist.Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	return persist.Status{InstanceExists: true, Status: s.up, MeanPersistLatency: s.latency.Mean()}
}
