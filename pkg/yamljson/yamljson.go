// Package yamljson turns YAML into JSON and back, and keeps the order of members, so that a document has
// the same members in the same order in both.
package yamljson

import (
	"bytes"
	"encoding/json"
	"fmt"
	"unicode/utf8"

	"github.com/pkg/errors"
	"go.yaml.in/yaml/v3"
)

// maxDepth bounds the nesting of YAML that is read.
const maxDepth = 100

// ToJSON makes JSON of one YAML document; an empty text is null. Aliases are refused, because a short
// text with them can stand for a huge document.
func ToJSON(text []byte) (json.RawMessage, error) {
	var doc yaml.Node
	if err := yaml.Unmarshal(text, &doc); err != nil {
		return nil, errors.Wrap(err, "cannot read YAML")
	}
	if doc.Kind == 0 {
		return json.RawMessage("null"), nil
	}
	var out bytes.Buffer
	if err := write(&out, doc.Content[0], 0); err != nil {
		return nil, errors.Wrap(err, "cannot read YAML")
	}
	return out.Bytes(), nil
}

func write(out *bytes.Buffer, n *yaml.Node, depth int) error {
	if depth > maxDepth {
		return errors.Errorf("it is nested deeper than %d levels", maxDepth)
	}
	switch n.Kind {
	case yaml.MappingNode:
		return writeMembers(out, n, depth)
	case yaml.SequenceNode:
		out.WriteByte('[')
		for i, c := range n.Content {
			if i > 0 {
				out.WriteByte(',')
			}
			if err := write(out, c, depth+1); err != nil {
				return err
			}
		}
		out.WriteByte(']')
		return nil
	case yaml.ScalarNode:
		return writeScalar(out, n)
	}
	return errors.Errorf("line %d has an alias; write its value out", n.Line)
}

func writeMembers(out *bytes.Buffer, n *yaml.Node, depth int) error {
	out.WriteByte('{')
	for i := 0; i+1 < len(n.Content); i += 2 {
		if i > 0 {
			out.WriteByte(',')
		}
		key := n.Content[i]
		if key.Kind != yaml.ScalarNode {
			return errors.Errorf("line %d has a name that isn't a text", key.Line)
		}
		if err := writeValue(out, key.Value); err != nil {
			return err
		}
		out.WriteByte(':')
		if err := write(out, n.Content[i+1], depth+1); err != nil {
			return err
		}
	}
	out.WriteByte('}')
	return nil
}

func writeScalar(out *bytes.Buffer, n *yaml.Node) error {
	var v any
	if err := n.Decode(&v); err != nil {
		return err
	}
	if err := writeValue(out, v); err != nil {
		return writeValue(out, n.Value) // a number that JSON doesn't have, such as .inf
	}
	return nil
}

func writeValue(out *bytes.Buffer, v any) error {
	text, err := Marshal(v)
	if err != nil {
		return err
	}
	out.Write(text)
	return nil
}

// Marshal is the JSON of a value, as ToJSON writes it.
func Marshal(v any) ([]byte, error) {
	var one bytes.Buffer
	e := json.NewEncoder(&one)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return escape(bytes.TrimRight(one.Bytes(), "\n")), nil
}

// escape escapes the characters that JSON may have as they are, and YAML may not. They can only be in texts.
func escape(text []byte) []byte {
	if !bytes.ContainsFunc(text, outsideYAML) {
		return text
	}
	var out []byte
	for _, r := range string(text) {
		if outsideYAML(r) {
			out = fmt.Appendf(out, `\u%04x`, r)
			continue
		}
		out = utf8.AppendRune(out, r)
	}
	return out
}

// outsideYAML reports whether a character isn't printable for YAML (chapter 5.1 of its specification), or is the end of a line for it
// alone; control characters below the blank are escaped in JSON anyway.
func outsideYAML(r rune) bool {
	return r >= 0x7f && r <= 0x9f || r == 0x2028 || r == 0x2029 || r == 0xfffe || r == 0xffff
}

// Plain reports whether a text is a JSON object that ToJSON needn't read, as it has no more levels than ToJSON allows. For a few texts, with
// many brackets in strings, it is false though they are.
func Plain(text []byte) bool {
	if !bytes.HasPrefix(text, []byte(`{"`)) {
		return false
	}
	depth := 0
	for _, c := range text {
		switch c {
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		}
		if depth > maxDepth {
			return false
		}
	}
	return json.Valid(text)
}

// ToYAML makes YAML of a JSON document.
func ToYAML(text []byte) ([]byte, error) {
	var node yaml.Node
	if err := yaml.Unmarshal(escape(text), &node); err != nil {
		return nil, errors.Wrap(err, "cannot write YAML")
	}
	plain(&node)
	var out bytes.Buffer
	e := yaml.NewEncoder(&out)
	e.SetIndent(2)
	if err := e.Encode(&node); err != nil {
		return nil, errors.Wrap(err, "cannot write YAML")
	}
	if err := e.Close(); err != nil {
		return nil, errors.Wrap(err, "cannot write YAML")
	}
	return out.Bytes(), nil
}

// plain takes JSON's braces and quotes away where YAML needs none.
func plain(n *yaml.Node) {
	if len(n.Content) > 0 {
		n.Style = 0
	}
	if n.Kind == yaml.ScalarNode && n.Tag == "!!str" {
		n.Style = 0
	}
	for _, c := range n.Content {
		plain(c)
	}
}
