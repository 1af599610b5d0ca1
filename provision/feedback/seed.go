package feedback

import (
	"context"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/supervise"
	"github.com/croft-edge/croft/pkg/workload"
)

// Seed makes a Sender of the published API's Feedbacker, which takes no context: a call
// that outlives its context goes on in the background, and the next one waits for it.
type Seed struct {
	feedbacker workload.Feedbacker
	busy       chan struct{}
}

// NewSeed wraps fb.
func NewSeed(fb workload.Feedbacker) *Seed {
	return &Seed{feedbacker: fb, busy: make(chan struct{}, 1)}
}

// PutResult implements Sender: it calls Deleted for an ended workload, Feedback otherwise.
func (s *Seed) PutResult(ctx context.Context, r *workload.Result) error {
	select {
	case s.busy <- struct{}{}:
	case <-ctx.Done():
		return node.WithKind(node.Transient, ctx.Err())
	}
	done := make(chan error, 1)
	go func() {
		defer func() { <-s.busy }()
		done <- supervise.Catch("the feedbacker", func() error { return s.call(r) })
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return node.WithKind(node.Transient, ctx.Err())
	}
}

func (s *Seed) call(r *workload.Result) error {
	if workload.Ended(r.State) {
		return s.feedbacker.Deleted(r.ID)
	}
	return s.feedbacker.Feedback(r.ID, r)
}
