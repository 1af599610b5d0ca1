package explorer

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/pkg/node"
)

// AnswerError is an explorer's refusal or failure. It carries a node.Kind, so
// errors.Is(err, node.NotExist) and node.KindOf work on it.
type AnswerError struct {
	Kind    node.Kind
	Problem Problem
	// RetryAfter is the wait before the next try, where the explorer gives one.
	RetryAfter time.Duration
	who, what  string
}

func (e *AnswerError) Error() string {
	text := "cannot " + e.what + ": " + e.who + " answers " + strconv.Itoa(e.Problem.Status)
	if e.Problem.Detail != "" {
		text += ": " + e.Problem.Detail
	}
	return text
}

// Is makes errors.Is(err, node.NotExist) work.
func (e *AnswerError) Is(target error) bool {
	k, ok := target.(node.Kind)
	return ok && k == e.Kind
}

// Unwrap gives node.KindOf the kind.
func (e *AnswerError) Unwrap() error { return e.Kind }

// maxDetail bounds an answer's text in an error.
const maxDetail = 2048

// answerError makes the error of an answer that isn't 2xx.
func answerError(what string, status int, header http.Header, body []byte) error {
	return answerErrorOf("the explorer", what, status, header, body)
}

// NodeAnswer is the error of a node's own answer that isn't 2xx: nodes use the explorer's format.
func NodeAnswer(what string, status int, header http.Header, body []byte) error {
	return answerErrorOf("the node", what, status, header, body)
}

func answerErrorOf(who, what string, status int, header http.Header, body []byte) error {
	e := &AnswerError{who: who, what: what, Kind: kindOfStatus(status)}
	if json.Unmarshal(body, &e.Problem) != nil {
		e.Problem = Problem{}
	}
	e.Problem.Status = status
	if e.Problem.Detail == "" {
		e.Problem.Detail = e.Problem.Error
	}
	if len(e.Problem.Detail) > maxDetail {
		e.Problem.Detail = e.Problem.Detail[:maxDetail]
	}
	// The explorer's kind may be more exact than the status, but a final kind under a status that
	// isn't final would stop useful retries.
	if k := node.Kind(e.Problem.Kind); k.Known() && k.Final() == e.Kind.Final() {
		e.Kind = k
	}
	if s, err := strconv.ParseUint(header.Get("Retry-After"), 10, 16); err == nil {
		e.RetryAfter = time.Duration(s) * time.Second
	}
	return e
}

// StatusOf is the HTTP status of an error of that kind, in the answers of the
// explorer and of nodes.
func StatusOf(k node.Kind) int {
	switch k {
	case node.Invalid:
		return http.StatusBadRequest
	case node.Refused:
		return http.StatusForbidden
	case node.NotExist:
		return http.StatusNotFound
	case node.Exist:
		return http.StatusConflict
	case node.Busy:
		return http.StatusTooManyRequests
	case node.NoSpace:
		return http.StatusInsufficientStorage
	case node.Transient, node.Unknown:
		return http.StatusServiceUnavailable
	}
	return http.StatusInternalServerError
}

func kindOfStatus(status int) node.Kind {
	switch {
	case status == http.StatusNotFound || status == http.StatusGone:
		return node.NotExist
	case status == http.StatusConflict:
		return node.Exist
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		return node.Refused
	case status == http.StatusTooManyRequests:
		return node.Busy
	case status == http.StatusRequestTimeout:
		return node.Transient
	case status >= 400 && status < 500:
		return node.Invalid
	}
	return node.Transient
}

// networkError gives a network failure its kind, Transient; a cancelled context stays the cause.
func networkError(ctx context.Context, what string, err error) error {
	if ctx.Err() != nil {
		return errors.Wrapf(node.WithKind(node.Transient, ctx.Err()), "cannot %s", what)
	}
	return node.WithKind(node.Transient, errors.Wrapf(err, "cannot %s", what))
}

func garbage(what, why string) error {
	return node.Errorf(node.Transient, "cannot %s: the explorer's answer isn't one: %s", what, why)
}
