// Package orders gives a node its operator's orders, through its state.
package orders

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
	"github.com/croft-edge/croft/pkg/resources/work"
	"github.com/croft-edge/croft/pkg/statesocket"
)

// withdrawTimeout bounds the withdrawal of an order.
const withdrawTimeout = 5 * time.Second

// Give gives an order, and returns once it is carried out, with what the node says about it. An order that isn't by the end of ctx is withdrawn: Unknown. A
// failed one has the node's error and its kind.
func Give(ctx context.Context, s state.State, spec work.OrderSpec) (answer string, err error) {
	order := work.NewOrder(strconv.FormatInt(time.Now().UnixNano(), 36), spec)
	if err := s.Create(ctx, order); err != nil {
		if ctx.Err() != nil { // the node may have it
			withdraw(ctx, s, order)
			return "", node.Errorf(node.Unknown, "cannot tell whether the order %s is carried out: %w", spec.Kind, ctx.Err())
		}
		return "", Plain(err)
	}
	done, err := safe.StateWatchFor[*work.Order](ctx, s, order.Metadata(), state.WithCondition(func(r resource.Resource) (bool, error) {
		is, ok := r.(*work.Order)
		return ok && is.TypedSpec().State != "", nil
	}))
	withdraw(ctx, s, order)
	switch {
	case ctx.Err() != nil:
		return "", node.Errorf(node.Unknown, "cannot tell whether the order %s is carried out: %w", spec.Kind, ctx.Err())
	case err != nil:
		return "", Plain(err)
	}
	is := done.TypedSpec()
	if is.State == work.OrderFailed {
		return "", node.Errorf(is.ErrorKind, "%s", is.Error)
	}
	return is.Answer, nil
}

// withdraw withdraws an order, or the result of one. The node removes what stays after a while.
func withdraw(ctx context.Context, s state.State, order *work.Order) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), withdrawTimeout)
	defer cancel()
	_, _ = s.Teardown(ctx, order.Metadata())
}

// Plain is an error of the state's socket in the node's own words.
func Plain(err error) error {
	text := statesocket.Plain(err)
	switch grpcstatus.Code(errors.Cause(err)) {
	case codes.InvalidArgument:
		return node.Errorf(node.Invalid, "%s", text)
	case codes.PermissionDenied:
		return node.Errorf(node.Refused, "%s", text)
	case codes.ResourceExhausted:
		return node.Errorf(node.Busy, "%s", text)
	case codes.Unavailable:
		return node.Errorf(node.Transient, "%s", text)
	}
	return errors.New(text)
}
