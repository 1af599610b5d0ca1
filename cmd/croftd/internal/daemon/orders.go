package daemon

import (
	"context"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/resources/work"
)

// orders carries out the operator's orders.
type orders struct {
	view     *view
	settings *settings
}

// CarryOut implements plane.Orders.
func (o orders) CarryOut(ctx context.Context, order work.OrderSpec) (answer string, err error) {
	switch order.Kind {
	case work.Look:
		o.view.lookAll(ctx)
		return "", nil
	case work.Reload:
		return o.settings.reload()
	}
	b := o.view.get()
	if b == nil {
		return "", node.Errorf(node.Transient, "cannot do this yet: the node waits for its modules; see croftd status")
	}
	defer o.view.wake.store.kick()
	return "", b.carryOut(ctx, order)
}

// carryOut carries out an order about the engine's parts.
func (b *engineParts) carryOut(ctx context.Context, order work.OrderSpec) error {
	switch order.Kind {
	case work.Evict:
		return b.engine.Evict(ctx, order.Target)
	case work.AcceptOlder:
		return b.again(b.store.AcceptOlder())
	case work.RefuseOlder:
		return b.store.RefuseOlder()
	case work.ReplaceMirror:
		return b.mirrors.Replace(ctx, order.Target)
	case work.Restored:
		return b.again(b.store.Rebirth())
	}
	return node.Errorf(node.Invalid, "cannot carry out the order: kind is %q", order.Kind)
}

// again restarts the poll from the beginning, unless err: reservations that were refused for their age come again.
func (b *engineParts) again(err error) error {
	if err == nil && b.poll != nil {
		b.poll.Reset()
	}
	return err
}
