package catalog

import (
	"context"
	"syscall"

	"github.com/containerd/errdefs"
	"github.com/containerd/errdefs/pkg/errgrpc"
	"github.com/pkg/errors"
	"google.golang.org/grpc/status"

	"github.com/croft-edge/croft/pkg/node"
)

// Kinded gives an error of containerd its kind; an error that has one keeps it.
func Kinded(err error, what string) error {
	if err == nil {
		return nil
	}
	var kinded *node.Error
	if errors.As(err, &kinded) {
		return err
	}
	return node.Errorf(kindOf(err), "cannot %s: %w", what, err)
}

func kindOf(err error) node.Kind {
	native := err
	if _, grpc := status.FromError(err); grpc {
		native = errgrpc.ToNative(err)
	}
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT), errdefs.IsResourceExhausted(native):
		return node.NoSpace
	case errdefs.IsNotFound(native):
		return node.NotExist
	case errdefs.IsUnavailable(native), errdefs.IsDeadlineExceeded(native), errdefs.IsCanceled(native), errdefs.IsAborted(native),
		errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return node.Transient
	}
	return node.Internal
}
