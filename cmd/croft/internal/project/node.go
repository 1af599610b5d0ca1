package project

import (
	"sort"
	"strings"

	"go.yaml.in/yaml/v3"
)

// The tags that YAML gives to plain values.
const (
	tagString = "!!str"
	tagInt    = "!!int"
	tagFloat  = "!!float"
	tagBool   = "!!bool"
	tagTime   = "!!timestamp"
)

// entry is a key of a mapping with its value.
type entry struct {
	key   string
	line  int
	value *yaml.Node
}

// entries returns a mapping's entries in the file's order. Keys are unique and plain text.
func entries(n *yaml.Node, field string) ([]entry, error) {
	if n.Kind == yaml.AliasNode {
		return nil, at(n.Line, field, "anchors and aliases aren't allowed; write it out")
	}
	if n.Kind != yaml.MappingNode {
		return nil, at(n.Line, field, "is %s, must be a mapping (key: value)", described(n))
	}
	seen := map[string]bool{}
	out := make([]entry, 0, len(n.Content)/2)
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := n.Content[i], n.Content[i+1]
		if k.Kind != yaml.ScalarNode || k.Tag == "!!merge" {
			return nil, at(k.Line, field, "a key is %s, must be plain text", described(k))
		}
		if seen[k.Value] {
			return nil, at(k.Line, join(field, k.Value), "is given twice")
		}
		seen[k.Value] = true
		out = append(out, entry{key: k.Value, line: k.Line, value: v})
	}
	return out, nil
}

// unknown is the error for a key that isn't one of allowed.
func unknown(e entry, field string, allowed []string) error {
	sort.Strings(allowed)
	return at(e.line, join(field, e.key), "is an unknown key; allowed are %s", strings.Join(allowed, ", "))
}

// text returns a scalar that is text.
func text(n *yaml.Node, field string) (string, error) {
	if n.Kind != yaml.ScalarNode || (n.Tag != tagString && n.Tag != tagTime) {
		return "", at(n.Line, field, "is %s, must be text", described(n))
	}
	return n.Value, nil
}

// items returns a list's elements.
func items(n *yaml.Node, field string) ([]*yaml.Node, error) {
	if n.Kind == yaml.AliasNode {
		return nil, at(n.Line, field, "anchors and aliases aren't allowed; write it out")
	}
	if n.Kind != yaml.SequenceNode {
		return nil, at(n.Line, field, "is %s, must be a list", described(n))
	}
	return n.Content, nil
}

// described describes n for a message, without long values.
func described(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	case yaml.AliasNode:
		return "an alias"
	}
	if n.Tag == "!!null" {
		return "empty"
	}
	value := n.Value
	if len(value) > 40 {
		value = value[:40] + "…"
	}
	return `"` + value + `"`
}

func join(field, key string) string {
	if field == "" {
		return key
	}
	return field + "." + key
}
