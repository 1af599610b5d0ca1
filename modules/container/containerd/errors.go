package containerd

import (
	"context"
	"fmt"

	"github.com/containerd/errdefs"
	"github.com/containerd/errdefs/pkg/errgrpc"
	"github.com/pkg/errors"
	"google.golang.org/grpc/status"

	"github.com/croft-edge/croft/pkg/node"
)

// Error wraps an error of containerd with its kind and the failed action. An error that
// has a kind keeps it; nil stays nil.
func Error(err error, what string, args ...any) error {
	if err == nil {
		return nil
	}
	var kinded *node.Error
	kind := Kind(err)
	if errors.As(err, &kinded) {
		kind = kinded.Kind
	}
	return node.Errorf(kind, "cannot %s: %w", fmt.Sprintf(what, args...), err)
}

// Kind is the kind of an error of containerd.
func Kind(err error) node.Kind {
	if err == nil {
		return ""
	}
	if _, raw := status.FromError(err); raw {
		err = errgrpc.ToNative(err)
	}
	switch {
	case errdefs.IsNotFound(err):
		return node.NotExist
	case errdefs.IsAlreadyExists(err):
		return node.Exist
	case errdefs.IsInvalidArgument(err):
		return node.Invalid
	case errdefs.IsUnavailable(err), errdefs.IsDeadlineExceeded(err), errdefs.IsCanceled(err), errdefs.IsAborted(err),
		errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return node.Transient
	case errdefs.IsFailedPrecondition(err), errdefs.IsConflict(err):
		return node.Busy
	}
	return node.Internal
}
