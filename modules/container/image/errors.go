package image

import (
	"context"
	stderrors "errors"
	"fmt"
	"net/http"
	"net/url"
	"syscall"

	"github.com/containerd/containerd/v2/core/remotes/docker"
	remoteerrors "github.com/containerd/containerd/v2/core/remotes/errors"
	"github.com/containerd/errdefs"
	"github.com/containerd/errdefs/pkg/errgrpc"
	"google.golang.org/grpc/status"

	"github.com/croft-edge/croft/pkg/node"
)

// backend gives what containerd answered its kind; what has one keeps it.
func backend(err error, what string) error {
	if err == nil {
		return nil
	}
	var kinded *node.Error
	if stderrors.As(err, &kinded) {
		return err
	}
	return node.Errorf(backendKind(err), "cannot %s: %w", what, err)
}

func backendKind(err error) node.Kind {
	native := err
	if _, grpc := status.FromError(err); grpc {
		native = errgrpc.ToNative(err)
	}
	switch {
	case stderrors.Is(err, syscall.ENOSPC), stderrors.Is(err, syscall.EDQUOT), errdefs.IsResourceExhausted(native):
		return node.NoSpace
	case errdefs.IsNotFound(native):
		return node.NotExist
	case errdefs.IsUnavailable(native), errdefs.IsDeadlineExceeded(native), errdefs.IsCanceled(native), errdefs.IsAborted(native),
		stderrors.Is(err, context.Canceled), stderrors.Is(err, context.DeadlineExceeded):
		return node.Transient
	}
	return node.Internal
}

// remote gives what a registry did its kind. Nothing of what it or a redirect
// of it wrote is repeated but its status: URLs and texts hold secrets.
func remote(err error, t target) error {
	if err == nil {
		return nil
	}
	why := func(k node.Kind, text string) error {
		return node.Errorf(k, "cannot pull %s: %s", t.text, text)
	}
	var kinded *node.Error
	var answer remoteerrors.ErrUnexpectedStatus
	var request *url.Error
	switch {
	case stderrors.As(err, &kinded):
		return node.Errorf(kinded.Kind, "cannot pull %s: %w", t.text, kinded)
	case stderrors.Is(err, docker.ErrInvalidAuthorization):
		return why(node.Refused, "the registry denies access, or has no such image")
	case stderrors.As(err, &answer):
		return why(statusKind(answer.StatusCode), "the registry answers "+http.StatusText(answer.StatusCode))
	case errdefs.IsNotFound(err):
		return why(node.Invalid, fmt.Sprintf("the registry has no such image, or its manifest is larger than %d bytes", docker.MaxManifestSize))
	case errdefs.IsFailedPrecondition(err):
		return why(node.Refused, "the registry sends more bytes than it said")
	case stderrors.Is(err, context.Canceled), stderrors.Is(err, context.DeadlineExceeded):
		return why(node.Transient, "it took too long")
	case stderrors.As(err, &request):
		return why(node.Transient, request.Err.Error())
	}
	return why(node.Transient, "the connection to the registry broke")
}

func statusKind(code int) node.Kind {
	switch {
	case code == http.StatusNotFound:
		return node.Invalid
	case code == http.StatusTooManyRequests || code == http.StatusRequestTimeout || code >= http.StatusInternalServerError:
		return node.Transient
	}
	return node.Refused
}
