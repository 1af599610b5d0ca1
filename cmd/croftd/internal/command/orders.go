package command

import (
	"cmp"
	"context"
	"fmt"

	"github.com/urfave/cli/v2"

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
	if _, err := orders.Give(ctx, client, work.OrderSpec{Kind: work.Look}); err != nil {
		return nodestatus.Status{}, err
	}
	s, err := nodestatus.Read(ctx, client)
	if err != nil {
		return s, orders.Plain(err)
	}
	return s, nil
}

// give gives the node an order, and prints the node's answer once it is carried out, or text where it has none.
func (n running) give(ctx context.Context, c *cli.Context, spec work.OrderSpec, text string) error {
	s, err := n.dial(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	answer, err := orders.Give(ctx, s, spec)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(c.App.Writer, cmp.Or(answer, text))
	return err
}
