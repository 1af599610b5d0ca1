package command

import (
	"context"

	"github.com/croft-edge/croft/pkg/nodestatus"
	"github.com/croft-edge/croft/pkg/orders"
	"github.com/croft-edge/croft/pkg/resources/registry"
	"github.com/croft-edge/croft/pkg/resources/work"
	"github.com/croft-edge/croft/pkg/statesocket"
)

// running is the running node, behind the socket of its state.
type running struct{ socket string }

func (n running) dial(ctx context.Context) (*statesocket.Client, error) {
	if err := registry.Register(); err != nil {
		return nil, err
	}
	return statesocket.Dial(ctx, n.socket)
}

// status reads the node's state.
func (n running) status(ctx context.Context) (nodestatus.Status, error) {
	client, err := n.dial(ctx)
	if err != nil {
		return nodestatus.Status{}, err
	}
	defer client.Close()
	if err := orders.Give(ctx, client, work.OrderSpec{Kind: work.Look}); err != nil {
		return nodestatus.Status{}, err
	}
	s, err := nodestatus.Read(ctx, client)
	if err != nil {
		return s, orders.Plain(err)
	}
	return s, nil
}

// give gives the node an order, and returns once it is carried out.
func (n running) give(ctx context.Context, spec work.OrderSpec) error {
	s, err := n.dial(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	return orders.Give(ctx, s, spec)
}
