package api

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/pkg/limit"
	"github.com/croft-edge/croft/pkg/node"
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

// checkJSON refuses JSON that decoders read differently: more than one value,
// duplicate members (also in another case), text that isn't UTF-8, and
// values nested deeper than MaxDepth.
func checkJSON(body []byte) error {
	if !utf8.Valid(body) {
		return node.Errorf(node.Invalid, "cannot read the body: it isn't UTF-8")
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	c := &checker{Decoder: d}
	if err := c.value(); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return node.Errorf(node.Invalid, "cannot read the body: more than one JSON value")
	}
	return nil
}

// checker walks a body's JSON. It joins the names in path only for an error.
type checker struct {
	*json.Decoder
	path  []string
	depth int
}

func (c *checker) value() error {
	token, err := c.Token()
	if err != nil {
		return badJSON(err)
	}
	open, nested := token.(json.Delim)
	if !nested {
		return nil
	}
	if c.depth++; c.depth > MaxDepth {
		return invalid("nesting", "deeper", fmt.Sprintf("at most %d levels", MaxDepth))
	}
	if err := c.members(open == '{'); err != nil {
		return err
	}
	c.depth--
	if _, err := c.Token(); err != nil {
		return badJSON(err)
	}
	return nil
}

// members walks the members of an object, or the items of an array.
func (c *checker) members(named bool) error {
	var seen map[string]bool
	if named {
		seen = map[string]bool{}
	}
	for c.More() {
		if named {
			if err := c.name(seen); err != nil {
				return err
			}
		}
		if err := c.value(); err != nil {
			return err
		}
		if named {
			c.path = c.path[:len(c.path)-1]
		}
	}
	return nil
}

// name reads the name of a member.
func (c *checker) name(seen map[string]bool) error {
	token, err := c.Token()
	if err != nil {
		return badJSON(err)
	}
	name, _ := token.(string)
	if len(name) > maxNameLength {
		return invalid("name of a member", name, fmt.Sprintf("of at most %d bytes", maxNameLength))
	}
	c.path = append(c.path, name)
	folded := strings.ToLower(name)
	if seen[folded] {
		return invalid(strings.Join(c.path, "."), "given twice", "given once")
	}
	if seen[folded] = true; len(seen) > maxMembers {
		return invalid(strings.Join(c.path[:len(c.path)-1], "."), "an object of more members", fmt.Sprintf("an object of at most %d members", maxMembers))
	}
	return nil
}

func badJSON(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return node.Errorf(node.Invalid, "cannot read the body: the JSON ends too early")
	}
	return node.Errorf(node.Invalid, "cannot read the body: it isn't JSON: %w", err)
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
