package source

import (
	"context"

	"github.com/pkg/errors"
	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
)

// Push yields the reservations pushed into it: those that a user brings to the
// node itself, because their explorer doesn't.
type Push struct {
	items chan Item
	log   zerolog.Logger
}

// NewPush makes an empty source.
func NewPush(log zerolog.Logger) *Push { return &Push{items: make(chan Item), log: log} }

// Items implements Source.
func (p *Push) Items(ctx context.Context) <-chan Item {
	return yield(ctx, p.log, "push", func(ctx context.Context, out chan<- Item) error { return forward(ctx, p.items, out) })
}

// Push hands r over and waits until it has been handled. The error is the engine's
// when it couldn't keep r, or Transient when ctx was done first: r may still be
// handled then.
func (p *Push) Push(ctx context.Context, r *workload.Reservation) error {
	handled := make(chan error, 1)
	select {
	case p.items <- Item{Kind: Arrived, Reservation: r, Done: func(err error) { handled <- err }}:
	case <-ctx.Done():
		return node.WithKind(node.Transient, errors.Wrap(ctx.Err(), "cannot hand over: the engine is busy"))
	}
	select {
	case err := <-handled:
		return err
	case <-ctx.Done():
		return node.WithKind(node.Transient, errors.Wrap(ctx.Err(), "cannot wait for the engine"))
	}
}
