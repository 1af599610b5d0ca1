package engine

import (
	"context"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/lifecycle"
)

// order is the node owner's request to remove a workload.
type order struct {
	id     string
	answer chan error
}

// Evict removes a workload from the node by the owner's order. Its user gets a
// signed result "evicted"; its data is kept for the grace period. It returns once
// that is durable. Errors: Invalid, NotExist, Refused when it has ended already,
// Transient when the engine doesn't run.
func (e *Engine) Evict(ctx context.Context, id string) error {
	parsed, err := workload.ParseID(id)
	if err != nil {
		return node.WithKind(node.Invalid, err)
	}
	o := order{id: parsed.String(), answer: make(chan error, 1)}
	select {
	case e.orders <- o:
	case <-ctx.Done():
		return node.Errorf(node.Transient, "cannot evict %s: the engine is busy or doesn't run: %w", o.id, ctx.Err())
	}
	select {
	case err := <-o.answer:
		return err
	case <-ctx.Done():
		return node.Errorf(node.Unknown, "cannot tell whether %s is evicted: %w", o.id, ctx.Err())
	}
}

// evicted makes an input of an order.
func (d *desk) evicted(o order) input {
	return input{id: o.id, done: func(err error) { o.answer <- err }, do: func() error {
		rec, ok, err := d.ledger.record(o.id)
		switch {
		case err != nil:
			return err
		case !ok:
			return node.Errorf(node.NotExist, "cannot evict %s: there is none", o.id)
		case !rec.Phase.Wanted() && rec.Phase != lifecycle.Replaced:
			return node.Errorf(node.Refused, "cannot evict %s: it is %s", o.id, rec.Phase)
		}
		_, err = d.apply(rec, lifecycle.Event{Kind: lifecycle.Evict})
		return err
	}}
}
