package s3

import (
	"net/http"
	"strings"

	"github.com/minio/minio-go/v7"
	"github.com/pkg/errors"

	"github.com/croft-edge/croft/pkg/clip"
	"github.com/croft-edge/croft/pkg/fetch"
	"github.com/croft-edge/croft/pkg/node"
)

// cause is the error of what couldn't be done, with a kind; nil stays nil. Of the answer it has the status and the code alone.
func (b *bucket) cause(what string, err error) error {
	if err == nil {
		return nil
	}
	var answer minio.ErrorResponse
	var already *node.Error
	switch {
	case errors.As(err, &already):
		return node.Errorf(already.Kind, "cannot %s %s: %w", what, b, err)
	case errors.As(err, &answer) && answer.StatusCode != 0:
		return node.Errorf(kindOf(answer), "cannot %s %s: the server answers %d %s", what, b, answer.StatusCode, clip.Line(answer.Code, 60))
	case errors.Is(err, errNotS3), errors.As(err, &answer):
		return node.Errorf(node.Transient, "cannot %s %s: %w", what, b, errNotS3)
	}
	return node.Errorf(node.Transient, "cannot %s %s: %w", what, b, fetch.Cause(err))
}

// errNotS3 is the error of an answer that something else than an S3 server gave, such as a proxy that wants a password.
var errNotS3 = errors.New("the answer isn't an S3 server's")

// listings refuses answers that aren't XML where a listing is asked for: the decoder would take any document for an empty list.
type listings struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (l listings) RoundTrip(req *http.Request) (*http.Response, error) {
	res, err := l.next.RoundTrip(req)
	if err == nil && res.StatusCode == http.StatusOK && req.URL.Query().Get("list-type") != "" && !strings.Contains(res.Header.Get("Content-Type"), "xml") {
		_ = res.Body.Close()
		return nil, node.WithKind(node.Transient, errNotS3)
	}
	return res, err
}

// kindOf is the kind of an answer that isn't a success.
func kindOf(answer minio.ErrorResponse) node.Kind {
	switch answer.Code {
	case "QuotaExceeded", "XMinioStorageFull", "XMinioAdminBucketQuotaExceeded", "InsufficientStorage":
		return node.NoSpace
	case "ConditionalRequestConflict", "OperationAborted":
		return node.Transient
	}
	switch code := answer.StatusCode; {
	case code == http.StatusInsufficientStorage:
		return node.NoSpace
	case code == http.StatusTooManyRequests, code == http.StatusRequestTimeout, code >= http.StatusInternalServerError:
		return node.Transient
	case code < http.StatusMultipleChoices:
		return node.Transient // a success with the text of a failure
	}
	return node.Refused
}
