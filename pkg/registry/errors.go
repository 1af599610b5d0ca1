package registry

import (
	"context"
	"fmt"
	"net/http"
	"net/url"

	"github.com/containerd/containerd/v2/core/remotes/docker"
	remoteerrors "github.com/containerd/containerd/v2/core/remotes/errors"
	"github.com/containerd/errdefs"
	"github.com/pkg/errors"

	"github.com/croft-edge/croft/pkg/clip"
	"github.com/croft-edge/croft/pkg/fetch"
	"github.com/croft-edge/croft/pkg/node"
)

// remote gives a failed exchange with a registry its kind. Only the status of the
// answer is repeated: URLs and texts, also those of a redirect, hold secrets.
func remote(err error, r Reference) error {
	if err == nil {
		return nil
	}
	why := func(k node.Kind, text string) error {
		return node.Errorf(k, "cannot pull %s: %s", r.Text, text)
	}
	var kinded *node.Error
	var answer remoteerrors.ErrUnexpectedStatus
	var request *url.Error
	switch {
	case errors.As(err, &kinded):
		return node.Errorf(kinded.Kind, "cannot pull %s: %w", r.Text, kinded)
	case errors.Is(err, docker.ErrInvalidAuthorization):
		return why(node.Refused, "the registry denies access, or has no such image")
	case errors.As(err, &answer):
		return why(fetch.StatusKind(answer.StatusCode), "the registry answers "+http.StatusText(answer.StatusCode))
	case errdefs.IsNotFound(err):
		return why(node.Invalid, fmt.Sprintf("the registry has no such image, or its manifest is larger than %d bytes", docker.MaxManifestSize))
	case errdefs.IsFailedPrecondition(err):
		return why(node.Refused, "the registry sends more bytes than it said")
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return why(node.Transient, "it took too long")
	case errors.As(err, &request):
		return why(node.Transient, clip.Line(request.Err.Error(), fetch.MostText))
	}
	return why(node.Transient, "the connection to the registry broke")
}
