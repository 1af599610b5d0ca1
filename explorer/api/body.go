package api

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/pkg/node"
)

// readBody reads a request's body. What is larger than MaxBody isn't read to its end.
func readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	tooLarge := withStatus(http.StatusRequestEntityTooLarge, invalid("body", "larger", "at most 1048576 bytes"))
	if r.ContentLength > MaxBody {
		w.Header().Set("Connection", "close")
		return nil, tooLarge
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, MaxBody))
	var over *http.MaxBytesError
	if errors.As(err, &over) {
		return nil, tooLarge
	}
	if err != nil {
		return nil, withStatus(http.StatusRequestTimeout, node.WithKind(node.Transient, errors.Wrap(err, "cannot read the body")))
	}
	return body, nil
}

// readJSON reads a body that must be one JSON value, and decodes it.
func readJSON(w http.ResponseWriter, r *http.Request, into any) ([]byte, error) {
	body, err := readBody(w, r)
	if err != nil {
		return nil, err
	}
	return body, decodeJSON(body, into)
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

// checkJSON refuses what decodes differently here and there: more than one
// value, duplicate members (also by another case), text that isn't UTF-8, and
// what is nested deeper than MaxDepth.
func checkJSON(body []byte) error {
	if !utf8.Valid(body) {
		return node.Errorf(node.Invalid, "cannot read the body: it isn't UTF-8")
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	if err := checkValue(d, 0, ""); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return node.Errorf(node.Invalid, "cannot read the body: more than one JSON value")
	}
	return nil
}

func checkValue(d *json.Decoder, depth int, where string) error {
	token, err := d.Token()
	if err != nil {
		return badJSON(err)
	}
	open, nested := token.(json.Delim)
	if !nested {
		return nil
	}
	if depth++; depth > MaxDepth {
		return invalid("nesting", "deeper", "at most 32 levels")
	}
	seen := map[string]bool{}
	for d.More() {
		below := where
		if open == '{' {
			if below, err = memberName(d, where, seen); err != nil {
				return err
			}
		}
		if err := checkValue(d, depth, below); err != nil {
			return err
		}
	}
	if _, err := d.Token(); err != nil {
		return badJSON(err)
	}
	return nil
}

func memberName(d *json.Decoder, where string, seen map[string]bool) (string, error) {
	token, err := d.Token()
	if err != nil {
		return "", badJSON(err)
	}
	name, _ := token.(string)
	full := strings.TrimPrefix(where+"."+name, ".")
	folded := strings.ToLower(name)
	if seen[folded] {
		return "", invalid(full, "given twice", "given once")
	}
	seen[folded] = true
	return full, nil
}

func badJSON(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return node.Errorf(node.Invalid, "cannot read the body: the JSON ends too early")
	}
	return node.Errorf(node.Invalid, "cannot read the body: it isn't JSON: %w", err)
}

// onlyMembers refuses members of an object that aren't of names, exactly as
// they are written: what is signed is never dropped silently.
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
