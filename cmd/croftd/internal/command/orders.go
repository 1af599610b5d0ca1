package command

import (
	"context"
	"strconv"
	"time"

	"github.com/cosi-project/runtime/pkg/resource"
	"github.com/cosi-project/runtime/pkg/safe"
	"github.com/cosi-project/runtime/pkg/state"
	"github.com/pkg/errors"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/nodestatus"
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
	s, err := nodestatus.Read(ctx, client)
	if err != nil {
		return s, plain(err)
	}
	return s, nil
}

// give gives the node an order, and returns once it is carried out. An order that isn't by then is withdrawn.
func (n running) give(ctx context.Context, spec work.OrderSpec) error {
	s, err := n.dial(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	order := work.NewOrder(strconv.FormatInt(time.Now().UnixNano(), 36), spec)
	if err := s.Create(ctx, order); err != nil {
		return plain(err)
	}
	done, err := safe.StateWatchFor[*work.Order](ctx, s, order.Metadata(), state.WithCondition(func(r resource.Resource) (bool, error) {
		is, ok := r.(*work.Order)
		return ok && is.TypedSpec().State != "", nil
	}))
	withdrawing, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	_, _ = s.Teardown(withdrawing, order.Metadata()) // the node removes the result of an order after a while
	switch {
	case ctx.Err() != nil:
		return node.Errorf(node.Unknown, "cannot tell whether the order %s is carried out: %w", spec.Kind, ctx.Err())
	case err != nil:
		return plain(err)
	}
	if is := done.TypedSpec(); is.State == work.OrderFailed {
		return node.Errorf(is.ErrorKind, "%s", is.Error)
	}
	return nil
}

// plain is an error of the node's socket in the node's words.
func plain(err error) error {
	text := statesocket.Plain(err)
	switch grpcstatus.Code(errors.Cause(err)) {
	case codes.InvalidArgument:
		return node.Errorf(node.Invalid, "%s", text)
	case codes.PermissionDenied:
		return node.Errorf(node.Refused, "%s", text)
	}
	return errors.New(text)
}
