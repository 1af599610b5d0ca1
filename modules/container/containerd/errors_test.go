package containerd

import (
	"context"
	"testing"

	"github.com/containerd/errdefs"
	"github.com/pkg/errors"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/croft-edge/croft/pkg/node"
)

func TestKinds(t *testing.T) {
	for want, all := range map[node.Kind][]error{
		node.NotExist:  {errdefs.ErrNotFound, errors.Wrap(errdefs.ErrNotFound, "x"), status.Error(codes.NotFound, "x"), node.Errorf(node.NotExist, "x")},
		node.Exist:     {errdefs.ErrAlreadyExists, status.Error(codes.AlreadyExists, "x")},
		node.Transient: {errdefs.ErrUnavailable, status.Error(codes.Unavailable, "x"), context.DeadlineExceeded, context.Canceled, errors.Wrap(context.Canceled, "x"), status.Error(codes.DeadlineExceeded, "x"), node.Errorf(node.Transient, "x")},
		node.Busy:      {errdefs.ErrFailedPrecondition, status.Error(codes.FailedPrecondition, "x")},
		node.Invalid:   {errdefs.ErrInvalidArgument},
		node.Internal:  {errors.New("x"), status.Error(codes.Unknown, "x")},
	} {
		for _, err := range all {
			if got := node.KindOf(Error(err, "do it")); got != want {
				t.Errorf("%v is %s, want %s", err, got, want)
			}
		}
	}
	if Error(nil, "do it") != nil {
		t.Error("nil became an error")
	}
}
