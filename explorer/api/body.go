package api

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/pkg/fielderror"
	"github.com/croft-edge/croft/pkg/limit"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/strictjson"
)

// holdBody reserves memory for a request's body; give releases it once the request is answered. A body of
// unknown length counts as MaxBody.
func holdBody(bodies *limit.Shares, w http.ResponseWriter, r *http.Request) (give func(), err error) {
	n := min(r.ContentLength, MaxBody)
	if n < 0 {
		n = MaxBody
	}
	if n <= smallBody || r.Method == http.MethodGet {
		return func() {}, nil
	}
	give, err = bodies.Take(source(r), n)
	if err != nil {
		w.Header().Set("Connection", "close") // don't wait for the unread body either
		return nil, withStatus(http.StatusServiceUnavailable, node.Errorf(node.Busy, "cannot read the body now, too many arrive: %w", err))
	}
	return give, nil
}

// readBody reads a request's body, and stops reading at a body larger than most.
func readBody(w http.ResponseWriter, r *http.Request, most limit.Limit) ([]byte, error) {
	tooLarge := withStatus(http.StatusRequestEntityTooLarge, invalid("body", "larger", fmt.Sprintf("at most %d bytes", most.Each)))
	if r.ContentLength > most.Each {
		most.Reached()
		w.Header().Set("Connection", "close")
		return nil, tooLarge
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, most.Each))
	var over *http.MaxBytesError
	if errors.As(err, &over) {
		most.Reached()
		return nil, tooLarge
	}
	if err != nil {
		return nil, withStatus(http.StatusRequestTimeout, node.WithKind(node.Transient, errors.Wrap(err, "cannot read the body")))
	}
	return body, nil
}

func decodeJSON(body []byte, into any) error {
	if err := checkJSON(body); err != nil {
		return err
	}
	err := json.Unmarshal(body, into)
	var wrong *json.UnmarshalTypeError
	if errors.As(err, &wrong) {
		return invalid(wrong.Field, wrong.Value, wrong.Type.String())
	}
	if err != nil {
		return node.Errorf(node.Invalid, "cannot read the body: %w", err)
	}
	return nil
}

// checkJSON refuses JSON that decoders read differently, as pkg/strictjson does; also members whose
// names differ only in case.
func checkJSON(body []byte) error {
	err := strictjson.Rules{Name: "the body", Bytes: MaxBody, Levels: MaxDepth, NameBytes: maxNameLength, Folded: true}.Check(body)
	var field *fielderror.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &field):
		return invalid(field.Field, field.Value, field.Allowed)
	}
	return node.WithKind(node.Invalid, err)
}

// onlyMembers refuses members of an object whose names, compared exactly, aren't in names: no
// signed member is dropped silently.
func onlyMembers(body []byte, names ...string) error {
	var object map[string]json.RawMessage
	if err := json.Unmarshal(body, &object); err != nil || object == nil {
		return invalid("body", limitText(string(body)), "a JSON object")
	}
	for name := range object {
		if !slices.Contains(names, name) {
			return invalid(name, limitText(string(object[name])), "absent: the known members are "+strings.Join(names, ", "))
		}
	}
	return nil
}
