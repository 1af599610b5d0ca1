package api

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/pkg/clip"
	wire "github.com/croft-edge/croft/pkg/explorer"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
)

// fieldError names the wrong member of a request.
type fieldError struct {
	field, value, allowed string
	kind                  node.Kind
}

// invalid makes the error for a member with a value that isn't allowed.
func invalid(field string, value any, allowed string) error {
	return &fieldError{field: field, value: limitText(fmt.Sprint(value)), allowed: allowed, kind: node.Invalid}
}

// refused is like invalid, for values that the operator's policy refuses.
func refused(field string, value any, allowed string) error {
	return &fieldError{field: field, value: limitText(fmt.Sprint(value)), allowed: allowed, kind: node.Refused}
}

func (e *fieldError) Error() string {
	return fmt.Sprintf("cannot accept this: %s is %q, must be %s", e.field, e.value, e.allowed)
}

func (e *fieldError) Unwrap() error { return e.kind }

// conflict is the error for a reservation that exists already.
type conflict struct {
	existing string
	why      string
}

func (e *conflict) Error() string { return e.why }
func (e *conflict) Unwrap() error { return node.Exist }

// tooMany is a rate limit's refusal.
type tooMany struct {
	by    string
	after time.Duration
}

func (e *tooMany) Error() string {
	return fmt.Sprintf("cannot answer so many requests of this %s: try again in %s", e.by, e.after)
}
func (e *tooMany) Unwrap() error { return node.Busy }

// wrongTime is the refusal of a signed write for its time. next is a time that
// would have been accepted.
type wrongTime struct {
	at, now, next time.Time
	why           string
}

func (e *wrongTime) Error() string {
	return fmt.Sprintf("cannot accept a request signed at %s: %s; the explorer's clock says %s", stamp(e.at), e.why, stamp(e.now))
}
func (e *wrongTime) Unwrap() error { return node.Refused }

// statusError is an error whose HTTP status doesn't follow from its kind.
type statusError struct {
	status int
	err    error
}

func (e *statusError) Error() string { return e.err.Error() }
func (e *statusError) Unwrap() error { return e.err }

func withStatus(status int, err error) error { return &statusError{status: status, err: err} }

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// limitText shortens text of a request for an answer or a log line.
func limitText(s string) string { return clip.Text(s, 120) }

// problemOf is an error's form on the wire.
func problemOf(err error) wire.Problem {
	kind := node.KindOf(err)
	p := wire.Problem{Type: "about:blank", Status: wire.StatusOf(kind), Kind: string(kind), Detail: err.Error()}
	var status *statusError
	if errors.As(err, &status) {
		p.Status = status.status
	}
	var field *fieldError
	if errors.As(err, &field) {
		p.Field, p.Value, p.Allowed = field.field, field.value, field.allowed
	}
	var document *workload.FieldError
	if errors.As(err, &document) {
		p.Field, p.Value, p.Allowed = document.Field, document.Value, document.Allowed
	}
	var exists *conflict
	if errors.As(err, &exists) {
		p.Existing = exists.existing
	}
	var late *wrongTime
	if errors.As(err, &late) {
		next := late.next.UTC()
		p.Status, p.Time = http.StatusUnauthorized, &next
	}
	if kind == node.Internal {
		p.Detail = "cannot answer: the explorer failed; its log says more"
	}
	p.Title = http.StatusText(p.Status)
	p.Error = p.Detail
	return p
}

func writeProblem(w http.ResponseWriter, err error) int {
	p := problemOf(err)
	var many *tooMany
	switch {
	case errors.As(err, &many):
		w.Header().Set("Retry-After", strconv.Itoa(int(many.after/time.Second)))
	case p.Status == http.StatusInsufficientStorage:
		w.Header().Set("Retry-After", "60")
	case p.Status == http.StatusServiceUnavailable:
		w.Header().Set("Retry-After", "1")
	case p.Status == http.StatusUnauthorized:
		w.Header().Set("WWW-Authenticate", "Croft")
	case p.Existing != "":
		w.Header().Set("Location", "/reservations/"+p.Existing)
	}
	body, merr := json.Marshal(p)
	if merr != nil {
		w.WriteHeader(http.StatusInternalServerError)
		return http.StatusInternalServerError
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(p.Status)
	_, _ = w.Write(body) // the client is gone, or it has the answer
	return p.Status
}

func writeJSON(w http.ResponseWriter, status int, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return errors.Wrap(err, "cannot encode the answer")
	}
	return writeBody(w, status, "application/json", append(body, '\n'))
}

func writeBody(w http.ResponseWriter, status int, contentType string, body []byte) error {
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write(body) // as above
	return nil
}
