package provision

import (
	"context"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
)

// order is the node owner's wish to have a workload off the machine.
type order struct {
	id     string
	answer chan error
}

// Evict takes a workload off the node because the machine's owner says so. Its
// user gets a signed result "evicted"; its data is kept for the grace period.
// It waits for the engine's thread. Errors: Invalid, NotExist, Refused when it
// has ended already, Transient when the engine doesn't run.
func (e *NodeEngine) Evict(ctx context.Context, id string) error {
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

func (e *NodeEngine) evict(ctx context.Context, id string) error {
	rec, err := e.records.Record(id)
	if err != nil {
		return err
	}
	if !lives(rec.Phase) {
		return node.Errorf(node.Refused, "cannot evict %s: it is %s", id, rec.Phase)
	}
	return e.leave(ctx, rec, workload.StateEvicted)
}
