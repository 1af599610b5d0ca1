package provision

import (
	"context"
	"runtime/debug"
	"time"

	"github.com/croft-edge/croft/pkg/node"
)

// stepGrace is how long after its deadline a step may still return; then the
// engine goes on without it.
const stepGrace = 2 * time.Second

// step does fn for the workload of that ID, within deadline. A module that
// doesn't come back costs this step its deadline and no more: the error is
// Unknown then, because what was asked for may still happen; and Busy for the
// next step of the same workload while it hasn't come back.
func (e *NodeEngine) step(ctx context.Context, name, id string, deadline time.Duration, fn func(ctx context.Context) error) error {
	if e.leftBehind(id) {
		return node.Errorf(node.Busy, "cannot %s %s: its last step hasn't come back", name, id)
	}
	ctx, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- e.guard(name, id, func() error { return fn(ctx) }) }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	late := time.NewTimer(stepGrace)
	defer late.Stop()
	select {
	case err := <-done:
		return err
	case <-late.C:
		e.stuck[id] = done
		e.log.Error().Str("id", id).Str("step", name).Dur("deadline", deadline).Msg("step didn't come back: left behind")
		return node.Errorf(node.Unknown, "cannot %s %s: no answer within %s", name, id, deadline)
	}
}

// leftBehind reports whether a step of that workload never came back.
func (e *NodeEngine) leftBehind(id string) bool {
	select {
	case <-e.stuck[id]: //nolint:errcheck // what came of it is known by looking; a nil channel is never ready
		delete(e.stuck, id)
		return false
	default:
		return e.stuck[id] != nil
	}
}

// guard is the one place where a panic of a step ends. What it was is for the
// log; the user hears that it was the node's fault.
func (e *NodeEngine) guard(name, id string, fn func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			e.log.Error().Str("id", id).Str("step", name).Interface("panic", p).Bytes("stack", debug.Stack()).Msg("step panicked")
			err = node.Errorf(node.Internal, "cannot %s %s: internal error of the node", name, id)
		}
	}()
	return fn()
}
