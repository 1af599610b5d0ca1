package project

import (
	"encoding/json"
	"fmt"
	"net"

	"go.yaml.in/yaml/v3"
)

// ref is a place in a workload's data that names another workload.
type ref struct {
	kind kind
	name string
	// field is the path in the file.
	field string
	line  int
}

// body reads a workload's part of the file into the tree that its data is made
// of: maps, lists, text, numbers and booleans, with *Secret and *ref in the
// places that are filled in later.
type body struct {
	data    map[string]any
	secrets []*Secret
	refs    []*ref
	// places are those of the paths in the data, as in "mounts[0].volume_id".
	places map[string]place
}

// place is a position in the file.
type place struct {
	line  int
	field string
}

// value reads n, which lies at path in the data.
func (b *body) value(n *yaml.Node, s shape, field, path string) (any, error) {
	b.places[path] = place{n.Line, field}
	switch s.kind {
	case objectKind:
		return b.object(n, s, field, path)
	case listKind:
		return b.list(n, s, field, path)
	case mapKind:
		return b.free(n, s, field, path)
	case secretKind:
		secret, err := readSecret(n, field)
		if err != nil {
			return nil, err
		}
		secret.Path = path
		b.secrets = append(b.secrets, secret)
		return secret, nil
	case volumeKind, networkKind:
		name, err := text(n, field)
		r := &ref{kind: s.kind, name: name, field: field, line: n.Line}
		b.refs = append(b.refs, r)
		return r, err
	}
	return scalar(n, s.kind, field)
}

func (b *body) object(n *yaml.Node, s shape, field, path string) (any, error) {
	list, err := entries(n, field)
	if err != nil {
		return nil, err
	}
	out, from := map[string]any{}, map[string]string{}
	for _, e := range list {
		m, ok := s.members[e.key]
		if !ok {
			return nil, unknown(e, field, names(s.members))
		}
		if other, twice := from[m.wire]; twice {
			return nil, at(e.line, join(field, e.key), "means the same as %s; only one is allowed", other)
		}
		from[m.wire] = e.key
		if out[m.wire], err = b.value(e.value, m.shape, join(field, e.key), join(path, m.wire)); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (b *body) list(n *yaml.Node, s shape, field, path string) (any, error) {
	list, err := items(n, field)
	if err != nil {
		return nil, err
	}
	out := make([]any, len(list))
	for i, item := range list {
		index := fmt.Sprintf("[%d]", i)
		if out[i], err = b.value(item, *s.each, field+index, path+index); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (b *body) free(n *yaml.Node, s shape, field, path string) (any, error) {
	list, err := entries(n, field)
	if err != nil {
		return nil, err
	}
	out := map[string]any{}
	for _, e := range list {
		if out[e.key], err = b.value(e.value, *s.each, join(field, e.key), join(path, e.key)); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// addressSecrets says whose key each secret is sealed to: that of the node of
// the network resource which holds it, else of the workload's node.
func (b *body) addressSecrets(nodeID string) {
	for _, s := range b.secrets {
		s.Node = nodeID
	}
	resources, _ := b.data["net_resources"].([]any)
	for _, r := range resources {
		resource := r.(map[string]any)
		s, ok := resource["wg_private_key"].(*Secret)
		if id, has := resource["node_id"].(string); ok && has {
			s.Node = id
		}
	}
}

func scalar(n *yaml.Node, k kind, field string) (any, error) {
	switch k {
	case wholeKind:
		if n.Kind == yaml.ScalarNode && n.Tag == tagInt {
			var signed int64
			if n.Decode(&signed) == nil {
				return json.Number(fmt.Sprint(signed)), nil
			}
			var unsigned uint64
			if n.Decode(&unsigned) == nil {
				return json.Number(fmt.Sprint(unsigned)), nil
			}
		}
		return nil, at(n.Line, field, "is %s, must be a whole number", described(n))
	case boolKind:
		var yes bool
		if n.Kind == yaml.ScalarNode && n.Tag == tagBool && n.Decode(&yes) == nil {
			return yes, nil
		}
		return nil, at(n.Line, field, "is %s, must be true or false", described(n))
	case wordsKind:
		if n.Kind == yaml.ScalarNode && (n.Tag == tagInt || n.Tag == tagFloat || n.Tag == tagBool) {
			return n.Value, nil
		}
		return text(n, field)
	case addressKind:
		value, err := text(n, field)
		if err == nil && net.ParseIP(value) == nil {
			err = at(n.Line, field, "is %s, must be an IP address", described(n))
		}
		return value, err
	}
	return text(n, field)
}

func names(members map[string]member) []string {
	out := make([]string, 0, len(members))
	for name := range members {
		out = append(out, name)
	}
	return out
}
