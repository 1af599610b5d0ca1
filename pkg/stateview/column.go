package stateview

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/pkg/errors"
	"github.com/theory/jsonpath"
)

// Column is one of a type's table. Its path is text with paths in braces, such as {.phase} or {.used} of {.total}:
// each is JSONPath of RFC 9535 over the spec, written without the $ in front. One path with $ and without braces is
// allowed, too.
type Column struct {
	Name string `json:"name"`
	Path string `json:"path"`
	// parts are the path's; err is why it can't be read.
	parts []part
	err   error
}

// part is text, or a path.
type part struct {
	text string
	path *jsonpath.Path
}

// NewColumn makes a column. One whose path can't be read has an Err, and its cells are question marks: a
// newer node's tables stay readable.
func NewColumn(name, path string) Column {
	c := Column{Name: name, Path: path}
	c.parts, c.err = parts(path)
	return c
}

// Err is why the path can't be read.
func (c Column) Err() error {
	return errors.Wrapf(c.err, "cannot read the path of column %s, %q", c.Name, c.Path)
}

func parts(path string) ([]part, error) {
	if strings.HasPrefix(path, "$") {
		p, err := jsonpath.Parse(path)
		return []part{{path: p}}, err
	}
	var out []part
	for path != "" {
		text, rest, found := strings.Cut(path, "{")
		if text != "" {
			out = append(out, part{text: text})
		}
		if !found {
			break
		}
		inner, after, err := braced(rest)
		if err != nil {
			return nil, err
		}
		if !strings.HasPrefix(inner, "$") {
			inner = "$" + inner
		}
		p, err := jsonpath.Parse(inner)
		if err != nil {
			return nil, err
		}
		out = append(out, part{path: p})
		path = after
	}
	if len(out) == 0 {
		return nil, errors.New("it is empty; it must be such as {.phase}")
	}
	return out, nil
}

// braced is the text up to the closing brace, and what follows it. Quotes may hold braces.
func braced(s string) (inner, rest string, err error) {
	quote := byte(0)
	for i := 0; i < len(s); i++ {
		switch {
		case quote != 0 && s[i] == '\\':
			i++
		case quote != 0:
			if s[i] == quote {
				quote = 0
			}
		case s[i] == '"' || s[i] == '\'':
			quote = s[i]
		case s[i] == '}':
			return s[:i], s[i+1:], nil
		}
	}
	return "", "", errors.New("a brace isn't closed")
}

// Cell is the column's text for a spec, as json.Unmarshal reads it. It may have control characters.
func (c Column) Cell(spec any) string {
	if c.err != nil {
		return "?"
	}
	var out strings.Builder
	for _, p := range c.parts {
		if p.path == nil {
			out.WriteString(p.text)
			continue
		}
		var found []string
		for _, v := range p.path.Select(spec) {
			if text := cell(v); text != "" {
				found = append(found, text)
			}
		}
		out.WriteString(strings.Join(found, ", "))
	}
	return out.String()
}

// cell is one value: a list is its members, an object is JSON.
func cell(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case string:
		return v
	case []any:
		var all []string
		for _, e := range v {
			all = append(all, cell(e))
		}
		return strings.Join(all, ", ")
	case map[string]any:
		var out bytes.Buffer
		e := json.NewEncoder(&out)
		e.SetEscapeHTML(false)
		if err := e.Encode(v); err != nil {
			return "?"
		}
		return strings.TrimSpace(out.String())
	}
	return fmt.Sprint(v)
}
