package fetch

import (
	"context"
	"net/http"
	"net/url"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/pkg/clip"
	"github.com/croft-edge/croft/pkg/node"
)

// MostText is how much is shown of a failure that a server may have worded, in bytes.
const MostText = 200

// Cause is the error of a failed exchange with a kind: the one that it has, else node.Transient. URLs aren't repeated, for
// those of redirects hold secrets.
func Cause(err error) error {
	var kinded *node.Error
	var request *url.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &kinded):
		return kinded
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return node.Errorf(node.Transient, "it took too long")
	case errors.As(err, &request):
		return node.Errorf(node.Transient, "%s", clip.Line(request.Err.Error(), MostText))
	}
	return node.Errorf(node.Transient, "the connection broke")
}

// StatusKind is the kind of an answer with a status other than success: Invalid where nothing is found, Transient where it
// may be otherwise soon, else Refused.
func StatusKind(code int) node.Kind {
	switch {
	case code == http.StatusNotFound:
		return node.Invalid
	case code == http.StatusTooManyRequests || code == http.StatusRequestTimeout || code >= http.StatusInternalServerError:
		return node.Transient
	}
	return node.Refused
}
