package kubeconfig

import (
	"bytes"
	"io"
	"slices"

	"github.com/pkg/errors"
	"go.yaml.in/yaml/v3"
)

// Merge puts c's cluster, user and context into the text of an existing kubeconfig, in the place of those of the same name.
// Other entries and comments stay; blank lines don't. With use, c's context becomes the current one.
func Merge(existing []byte, c Config, use bool) ([]byte, error) {
	if !use {
		c.CurrentContext = ""
	}
	root, err := rootOf(existing)
	if err != nil {
		return nil, err
	}
	if root == nil {
		fresh, err := c.YAML()
		return append(withNewline(existing), fresh...), err
	}
	own, err := nodesOf(c)
	if err != nil {
		return nil, err
	}
	mapping := root.Content[0]
	compact := compactLists(mapping)
	if len(mapping.Content) == 0 {
		mapping.Style = 0
	}
	for _, list := range []string{"clusters", "users", "contexts"} {
		if err := replaceIn(mapping, list, member(own, list).Content[0]); err != nil {
			return nil, err
		}
	}
	for _, key := range []string{"apiVersion", "kind"} {
		if member(mapping, key) == nil {
			setMember(mapping, key, member(own, key))
		}
	}
	if use {
		setMember(mapping, "current-context", member(own, "current-context"))
	}
	out, err := encode(root, compact)
	if err != nil {
		return nil, err
	}
	// The library's writer has had mistakes, and what was replaced may be what an alias elsewhere means.
	if again, err := rootOf(out); err != nil || again == nil || !same(root, again) {
		return nil, errors.New("it would be damaged: something in it can't be written again")
	}
	return out, nil
}

// same reports whether two documents mean the same.
func same(a, b *yaml.Node) bool {
	return a.Kind == b.Kind && a.ShortTag() == b.ShortTag() && a.Value == b.Value && a.Anchor == b.Anchor && slices.EqualFunc(a.Content, b.Content, same)
}

// rootOf is the document in a text; nil when there is none but comments.
func rootOf(text []byte) (*yaml.Node, error) {
	var root yaml.Node
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	if err := decoder.Decode(&root); errors.Is(err, io.EOF) {
		return nil, nil
	} else if err != nil {
		return nil, errors.Wrap(err, "cannot read it")
	}
	if err := decoder.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return nil, errors.New("there is more than one document in it")
	}
	mapping := root.Content[0]
	if mapping.Kind != yaml.MappingNode {
		return nil, errors.New("it isn't a kubeconfig")
	}
	if kind := member(mapping, "kind"); kind != nil && kind.Value != "Config" {
		return nil, errors.New("it isn't a kubeconfig: its kind isn't Config")
	}
	seen := map[string]bool{}
	for i := 0; i < len(mapping.Content); i += 2 {
		if seen[mapping.Content[i].Value] {
			return nil, errors.Errorf("it has the key %q twice", mapping.Content[i].Value)
		}
		seen[mapping.Content[i].Value] = true
	}
	return &root, nil
}

// nodesOf is c as a mapping.
func nodesOf(c Config) (*yaml.Node, error) {
	text, err := c.YAML()
	if err != nil {
		return nil, err
	}
	var root yaml.Node
	if err := yaml.Unmarshal(text, &root); err != nil {
		return nil, errors.Wrap(err, "cannot write YAML")
	}
	return root.Content[0], nil
}

// replaceIn puts an entry into a list of the kubeconfig, in the place of the first of its name; further ones of that
// name go, as programs read only one.
func replaceIn(mapping *yaml.Node, list string, entry *yaml.Node) error {
	to := member(mapping, list)
	if to == nil || to.Tag == "!!null" {
		to = &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq"}
		setMember(mapping, list, to)
	}
	if to.Kind != yaml.SequenceNode {
		return errors.Errorf("its %s aren't a list", list)
	}
	name := member(entry, "name").Value
	kept := []*yaml.Node{}
	placed := false
	for _, old := range to.Content {
		if given := member(old, "name"); given == nil || given.Value != name {
			kept = append(kept, old)
			continue
		}
		if !placed {
			entry.HeadComment, entry.FootComment = old.HeadComment, old.FootComment
			kept, placed = append(kept, entry), true
		}
	}
	if len(to.Content) == 0 {
		to.Style = 0
	}
	if !placed {
		kept = append(kept, entry)
	}
	to.Content = kept
	return nil
}

// member is the value of a mapping's key; nil where there is none, or no mapping.
func member(n *yaml.Node, key string) *yaml.Node {
	if n.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return n.Content[i+1]
		}
	}
	return nil
}

// setMember sets the value of a mapping's key.
func setMember(mapping *yaml.Node, key string, value *yaml.Node) {
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		if mapping.Content[i].Value == key {
			value.HeadComment, value.LineComment, value.FootComment = mapping.Content[i+1].HeadComment, mapping.Content[i+1].LineComment, mapping.Content[i+1].FootComment
			mapping.Content[i+1] = value
			return
		}
	}
	mapping.Content = append(mapping.Content, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: key}, value)
}

// compactLists reports whether a document's lists begin at the column of their keys, as those of kubectl do.
func compactLists(mapping *yaml.Node) bool {
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		if value := mapping.Content[i+1]; value.Kind == yaml.SequenceNode && value.Style&yaml.FlowStyle == 0 && len(value.Content) > 0 {
			return value.Column == mapping.Content[i].Column
		}
	}
	return true
}

func encode(root *yaml.Node, compact bool) ([]byte, error) {
	var out bytes.Buffer
	e := yaml.NewEncoder(&out)
	e.SetIndent(2)
	if compact {
		e.CompactSeqIndent()
	}
	if err := e.Encode(root); err != nil {
		return nil, errors.Wrap(err, "cannot write YAML")
	}
	return out.Bytes(), errors.Wrap(e.Close(), "cannot write YAML")
}

func withNewline(text []byte) []byte {
	if len(text) == 0 || text[len(text)-1] == '\n' {
		return text
	}
	return append(bytes.Clone(text), '\n')
}
